// Queries and logs: what the server is doing, has done most, and says.
import { useState } from "preact/hooks";
import type { LogLineView, SessionView } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { measured, plain, round } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Card, Field, Loaded, Sure, Status, Table, Time } from "./ui";
import { may } from "./who";

export function Queries(props: Props) {
  return (
    <>
      <Running {...props} />
      <Statements {...props} />
      <Logs {...props} />
    </>
  );
}

function Running({ db, path }: Props) {
  const [ending, setEnding] = useState<SessionView>();
  const read = useReader(`running/${db.engine}/${db.id}`, (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/queries/running`, { path, background }), 5000);
  return (
    <Card title={T.queries.running} wide>
      <Loaded of={read}>
        {(r) => (
          <>
            {r.sleeping && <p>{T.queries.sleeping}</p>}
            <p class="hint">{T.queries.idle(r.idle)}</p>
            <Table
              label={T.queries.running}
              rows={r.data}
              id={(s) => s.id}
              empty={<p>{T.queries.none}</p>}
              columns={[
                { head: T.queries.statement, cell: (s) => <code>{plain(s.query)}</code> },
                { head: T.queries.state, cell: (s) => plain(s.state) + (s.wait ? ` (${plain(s.wait)})` : "") },
                { head: T.queries.age, by: (s) => s.age, number: true, cell: (s) => measured(s.age, "second") },
                { head: T.queries.user, cell: (s) => plain(s.user) },
                { head: T.queries.from, cell: (s) => plain(s.client ?? T.none) },
                { head: T.database.node, cell: (s) => String(s.node) },
                { head: T.act, cell: (s) => may.change(db.id) && <Button label={T.queries.endOf(s.pid)} onClick={() => setEnding(s)}>{T.queries.end}</Button> },
              ]}
            />
          </>
        )}
      </Loaded>
      {ending && (
        <Sure
          title={T.queries.endTitle}
          text={<pre>{plain(ending.query)}</pre>}
          action={T.queries.end}
          close={() => setEnding(undefined)}
          run={async () => {
            await call(`DELETE /v4/databases/${db.engine}/instances/{instanceId}/queries/running/{queryId}`, { path: { ...path, queryId: ending.id } });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function Statements({ db, path }: Props) {
  const [order, setOrder] = useState("total_time");
  const [resetting, setResetting] = useState(false);
  const read = useReader(
    `statements/${db.engine}/${db.id}/${order}`,
    (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/queries/statistics`, { path, query: { order_by: order, page_size: 25 }, background }),
    30_000,
  );
  return (
    <Card title={T.queries.top} wide actions={may.change(db.id) && <Button onClick={() => setResetting(true)}>{T.queries.reset}</Button>}>
      <Field label={T.queries.order} name="order">
        {(p) => (
          <select {...p} value={order} onChange={(e) => setOrder(e.currentTarget.value)}>
            {Object.entries(T.queries.orders).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Loaded of={read}>
        {(s) =>
          s.missing ? (
            <p>{plain(s.missing)}</p>
          ) : (
            <Table
              label={T.queries.top}
              rows={s.data}
              id={(r) => r.query_id + (r.database ?? "") + (r.user ?? "")}
              empty={<p>{T.queries.noStatements}</p>}
              columns={[
                { head: T.queries.statement, cell: (r) => <code>{plain(r.query)}</code> },
                { head: T.queries.share, number: true, cell: (r) => measured(100 * r.share, "percent") },
                { head: T.queries.total, number: true, cell: (r) => measured(r.total_time, "second") },
                { head: T.queries.calls, number: true, cell: (r) => round(r.calls) },
                { head: T.queries.mean, number: true, cell: (r) => round(r.mean_time * 1000) + " ms" },
                { head: T.queries.rows, number: true, cell: (r) => round(r.rows) },
              ]}
            />
          )
        }
      </Loaded>
      {resetting && (
        <Sure
          title={T.queries.resetTitle}
          text={<p>{T.queries.resetText}</p>}
          action={T.queries.reset}
          kind="danger"
          close={() => setResetting(false)}
          run={async () => {
            await call(`POST /v4/databases/${db.engine}/instances/{instanceId}/queries/statistics/reset`, { path });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function Logs({ db, path }: Props) {
  const [severity, setSeverity] = useState("info");
  const [text, setText] = useState("");
  const [follow, setFollow] = useState(false);
  const [older, setOlder] = useState<{ key: string; lines: LogLineView[]; next: string | null }>();
  const key = `logs/${db.engine}/${db.id}/${severity}/${text}`;
  const get = (page_token: string | undefined, background: boolean) =>
    call(`GET /v4/databases/${db.engine}/instances/{instanceId}/logs`, { path, query: { severity, text, page_token }, background });
  const read = useReader(key, (background) => get(undefined, background), follow ? 3000 : 0);
  const more = older?.key === key ? older : undefined;
  return (
    <Card title={T.logs.title} wide>
      <div class="filters">
        <Field label={T.logs.severity} name="severity">
          {(p) => (
            <select {...p} value={severity} onChange={(e) => setSeverity(e.currentTarget.value)}>
              {["info", "warning", "error", "fatal"].map((s) => (
                <option key={s} value={s}>
                  {T.logs.severities[s]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.logs.text} name="text">
          {(p) => <input {...p} type="search" value={text} maxLength={200} onChange={(e) => setText(e.currentTarget.value)} />}
        </Field>
        <p class="check">
          <label>
            <input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} /> {T.logs.follow}
          </label>
        </p>
      </div>
      <Loaded of={read}>
        {(l) => {
          const next = more ? more.next : l.next_page_token;
          return (
            <>
              <Table
                label={T.logs.title}
                rows={[...l.data, ...(more?.lines ?? [])].map((line, n) => ({ ...line, n }))}
                id={(r) => r.n}
                empty={<p>{T.logs.none}</p>}
                columns={[
                  { head: T.metrics.time, cell: (r) => <Time at={r.time} /> },
                  { head: T.database.node, cell: (r) => String(r.node) },
                  { head: T.logs.severity, cell: (r) => <Status of={r.severity} /> },
                  { head: T.logs.message, cell: (r) => <code>{plain(r.message)}</code> },
                ]}
              />
              {next && !follow && (
                <Button
                  onClick={() =>
                    void get(next, false).then((page) => setOlder({ key, lines: [...(more?.lines ?? []), ...page.data], next: page.next_page_token }), () => undefined)
                  }
                >
                  {T.logs.older}
                </Button>
              )}
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}
