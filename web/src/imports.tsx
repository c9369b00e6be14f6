// Imports: logical databases that are brought over from servers elsewhere.
import { useEffect, useState } from "preact/hooks";
import type { MigrationBody, MigrationReportView, MigrationView, SourceBody } from "./api";
import { call, whole } from "./call";
import type { Props } from "./database";
import { bytes, plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Button, Choice, FormDialog, Items, Problems, Status, Sure, Text, Time, useAction } from "./ui";
import { may } from "./who";

const active = (m: MigrationView) => m.status === "pending" || m.status === "running" || m.status === "canceling";
const follows = (m: MigrationView) => m.status === "running" && m.phase === "following" && !m.cutover;
const nameOf = (m: MigrationView) => m.databases.map((d) => d.as).join(", ");

// done reads again what an import brings.
export function Imports({ done, ...props }: Props & { done: () => void }) {
  const { db, path } = props;
  const at = `/v4/databases/${db.engine}/instances/{instanceId}/migrations` as const;
  const [every, setEvery] = useState(0);
  const read = useReader(`migrations/${db.engine}/${db.id}`, (background) => whole((page) => call(`GET ${at}`, { path, query: { page, page_size: 100 }, background })), every);
  const busy = read.data?.some(active) ?? false;
  useEffect(() => {
    setEvery(busy ? 2000 : 0); // no event tells how far it is
    if (!busy) done();
  }, [busy]);
  return (
    <Items
      title={T.imports.title}
      read={read}
      id={(m) => m.id}
      name={nameOf}
      empty={T.imports.none}
      columns={[
        { head: T.imports.databases, cell: (m) => plain(nameOf(m)) },
        { head: T.imports.from, cell: (m) => plain(`${m.source.host}:${m.source.port}`) },
        { head: T.databases.status, cell: (m) => <State of={m} /> },
        { head: T.imports.copied, number: true, cell: (m) => T.imports.far(bytes(m.bytes), m.tables_done, m.tables_all) },
        { head: T.imports.begun, by: (m) => m.created, cell: (m) => <Time at={m.created} /> },
      ]}
      can={may.change(db.id)}
      add={T.imports.add}
      change={false}
      form={(_, close) => <ImportForm {...props} close={close} done={() => read.read()} />}
      more={[
        {
          text: T.imports.cutover, label: (m) => T.imports.cutoverOf(nameOf(m)), when: follows,
          dialog: (m, close) => <CutOver {...props} of={m} close={close} done={() => read.read()} />,
        },
        {
          text: T.cancel, label: (m) => T.imports.cancelOf(nameOf(m)), when: (m) => active(m) && m.status !== "canceling",
          dialog: (m, close) => <End {...props} of={m} title={T.imports.cancelTitle} text={T.imports.cancelText} action={T.imports.cancelTitle} close={close} done={() => read.read()} />,
        },
        {
          text: T.imports.forget, label: (m) => T.imports.forgetOf(nameOf(m)), when: (m) => !active(m),
          dialog: (m, close) => <End {...props} of={m} title={T.imports.forgetTitle} text={T.imports.forgetText} action={T.imports.forget} close={close} done={() => read.read()} />,
        },
      ]}
    >
      <p class="hint">{T.imports.text}</p>
    </Items>
  );
}

function State({ of: m }: { of: MigrationView }) {
  const percent = m.status === "running" && m.total_bytes > 0 ? Math.min(99, Math.floor((m.bytes / m.total_bytes) * 100)) : undefined;
  return (
    <>
      <Status of={m.status} percent={percent} /> {m.status === "running" && m.phase && T.imports.phases[m.phase]} {m.lag_seconds !== null && m.lag_bytes !== null && <span class="quiet">{T.imports.behind(m.lag_seconds, bytes(m.lag_bytes))}</span>} {m.problem && <span class="quiet">{plain(m.problem)}</span>}
    </>
  );
}

type EndProps = Props & { of: MigrationView; title: string; text: string; action: string; close: () => void; done: () => void };

function End({ db, path, of, title, text, action, close, done }: EndProps) {
  const run = () => call(`DELETE /v4/databases/${db.engine}/instances/{instanceId}/migrations/{migrationId}`, { path: { ...path, migrationId: of.id } }).then(done);
  return <Sure title={title} text={<p>{text}</p>} action={action} kind="danger" close={close} run={run} />;
}

function CutOver({ db, path, of, close, done }: Props & { of: MigrationView; close: () => void; done: () => void }) {
  const run = () => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/migrations/{migrationId}/cutover`, { path: { ...path, migrationId: of.id } }).then(done);
  return <Sure title={T.imports.cutover} text={<p>{T.imports.cutoverText}</p>} action={T.imports.cutover} close={close} run={run} />;
}

function ImportForm({ db, path, close, done }: Props & { close: () => void; done: () => void }) {
  const [host, setHost] = useState("");
  const [port, setPort] = useState(db.engine === "postgresql" ? "5432" : "3306");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [tls, setTLS] = useState<NonNullable<SourceBody["tls"]>>("verify");
  const [ca, setCA] = useState("");
  const [name, setName] = useState("");
  const [as, setAs] = useState("");
  const [mode, setMode] = useState<NonNullable<MigrationBody["mode"]>>("dump");
  const [report, setReport] = useState<MigrationReportView>();
  const checking = useAction();
  const at = `/v4/databases/${db.engine}/instances/{instanceId}/migrations` as const;
  const body: MigrationBody = {
    source: { host, port: Number(port), username, password, tls, ...(tls === "verify" && ca.trim() !== "" ? { ca } : {}) },
    databases: [{ name, ...(as === "" ? {} : { as }) }],
    mode,
  };
  const fields = ["source.host", "source.port", "source.username", "source.password", "source.tls", "source.ca", "databases", "mode"];
  const check = async () => {
    setReport(undefined);
    await checking.run(async () => setReport(await call(`POST ${at}/check`, { path, body })));
  };
  return (
    <FormDialog title={T.imports.add} action={T.imports.begin} fields={fields} close={close} save={() => call(`POST ${at}`, { path, body }).then(done)} saved={T.settings.asked}>
      {(refused) => {
        const failure = refused ?? checking.failure;
        return (
          <>
            <Text label={T.imports.host} name="source.host" failure={failure} hint={T.imports.hostHint} value={host} set={setHost} />
            <Text label={T.imports.port} name="source.port" type="number" failure={failure} value={port} set={setPort} />
            <Text label={T.imports.user} name="source.username" failure={failure} hint={T.imports.userHint} value={username} set={setUsername} />
            <Text label={T.account.password} name="source.password" type="password" failure={failure} value={password} set={setPassword} />
            <Choice label={T.imports.tls} name="source.tls" failure={failure} value={tls} set={(to) => setTLS(to as typeof tls)} of={Object.entries(T.imports.tlsKinds)} />
            {tls === "verify" && <Text label={T.imports.ca} name="source.ca" rows={3} failure={failure} hint={T.imports.caHint} value={ca} set={setCA} />}
            <Text label={T.imports.database} name="databases" failure={failure} value={name} set={setName} />
            <Text label={T.imports.as} name="databases.as" hint={T.imports.asHint} value={as} set={setAs} />
            {db.engine === "postgresql" && <Choice label={T.imports.mode} name="mode" failure={failure} hint={T.imports.modeHint} value={mode} set={(to) => setMode(to as typeof mode)} of={Object.entries(T.imports.modes)} />}
            <Button disabled={checking.busy} onClick={() => void check()}>
              {T.imports.check}
            </Button>
            {checking.busy && <p role="status">{T.imports.checking}</p>}
            <Problems failure={checking.failure} fields={fields} />
            {report && <Report of={report} />}
          </>
        );
      }}
    </FormDialog>
  );
}

// Report is what was found out about a source.
function Report({ of: r }: { of: MigrationReportView }) {
  return (
    <Alert kind={r.possible ? "good" : "warn"}>
      <p>{r.possible ? T.imports.possible(plain(r.version), bytes(r.total_bytes)) : T.imports.impossible}</p>
      <ul>
        {r.problems.map((p) => (
          <li key={p.message}>{plain((p.database ? p.database + ": " : "") + p.message)}</li>
        ))}
      </ul>
    </Alert>
  );
}
