// Version: to a newer series of the engine, tried on a copy first.
import { useEffect, useState } from "preact/hooks";
import type { UpgradeCheckView } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Button, Card, Choice, Danger, Loaded, Problems, say, useAction } from "./ui";

const at = "/v4/databases/postgresql/instances/{instanceId}";

// series is what a version is of: 17 of 17.10.
function series(version: string): number {
  return Number.parseInt(version, 10);
}

export function Version({ db, path, reader }: Props) {
  const [chosen, setChosen] = useState("");
  const [open, setOpen] = useState(false);
  const [every, setEvery] = useState(0);
  const doing = useAction();
  const engines = useReader("engines", (background) => call("GET /v4/databases/engines", { query: { page_size: 100 }, background }));
  const check = useReader(`upgrade-check/${db.id}`, (background) => call(`GET ${at}/upgrade-check`, { path, background }), every);
  const status = check.data?.status;
  useEffect(() => setEvery(status === "running" ? 2000 : 0), [status]); // no event tells how far it is
  const newer = [...new Set((engines.data?.data ?? []).filter((e) => e.engine === "postgresql").map((e) => series(e.version)))].filter((s) => s > series(db.version)).sort((a, b) => a - b);
  const to = chosen || String(newer.at(-1) ?? "");
  const tried = status !== "none" && series(check.data?.version ?? "") === Number(to) ? check.data : undefined;
  const ready = db.status === "active" && status !== "running";
  const run = (): void => void doing.run(() => call(`POST ${at}/upgrade-check`, { path, body: { version: to } }), T.settings.asked).then(() => check.read());
  return (
    <Card title={T.version.title} wide>
      <p>{T.version.now(db.version)}</p>
      <Loaded of={engines}>
        {() =>
          newer.length === 0 ? (
            <p class="quiet">{T.version.newest}</p>
          ) : (
            <>
              <Choice label={T.version.to} name="version" failure={doing.failure} hint={T.version.hint} value={to} set={setChosen} of={newer.map((s) => [String(s), `PostgreSQL ${s}`] as const)} />
              {tried && <Found check={tried} />}
              <Problems failure={doing.failure} fields={["version"]} />
              <div class="actions">
                <Button disabled={!ready || doing.busy} onClick={run}>
                  {T.version.check}
                </Button>
                <Button kind="danger" disabled={!ready || doing.busy} onClick={() => setOpen(true)}>
                  {T.version.upgrade}
                </Button>
              </div>
            </>
          )
        }
      </Loaded>
      {open && (
        <Danger
          title={T.version.upgrade}
          text={<p>{T.version.sure(db.label, to, tried?.pause_seconds ?? null)}</p>}
          name={db.label}
          action={T.version.upgrade}
          close={() => setOpen(false)}
          run={async () => {
            await call(`PUT ${at}`, { path, body: { version: to } });
            say(T.settings.asked);
            reader.read();
          }}
        />
      )}
    </Card>
  );
}

// Found is what the last try of a version found.
function Found({ check }: { check: UpgradeCheckView }) {
  switch (check.status) {
    case "running":
      return (
        <p role="status">
          {T.version.trying} <progress max={100} value={check.percent} aria-label={T.version.trying} /> {check.percent} % {plain(check.message)}
        </p>
      );
    case "passed":
      return <Alert kind="good">{T.version.passed(check.version, check.pause_seconds)}</Alert>;
    default:
      return (
        <Alert kind="warn">
          <p>{check.status === "failed" ? T.version.failed(check.version) : plain(check.message) || T.version.error}</p>
          <ul>
            {check.reasons.map((r) => (
              <li key={r}>{plain(r)}</li>
            ))}
          </ul>
        </Alert>
      );
  }
}
