// Queries and logs: what the server is doing, has done most, and says.
import { useState } from "preact/hooks";
import type { LogLineView, LogsView, SessionView, SlowStatementView, SlowView, StatementView } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { offered, useLogical } from "./db";
import { bytes, measured, plain, round } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Card, Choice, Code, Dialog, Field, Loaded, Long, Problems, Sure, Status, Table, Text, Time, useAction } from "./ui";
import { may } from "./who";

export function Queries(props: Props) {
  return (
    <>
      <Running {...props} />
      <Statements {...props} />
      <Slow {...props} />
      <Tables {...props} />
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
            {r.idle > 0 && <p class="hint">{T.queries.idle(r.idle)}</p>}
            <Table
              tight
              few={5}
              label={T.queries.running}
              rows={r.data}
              id={(s) => s.id}
              empty={<p>{T.queries.none}</p>}
              columns={[
                { head: T.queries.statement, cell: (s) => <Long key={s.query} text={s.query} /> },
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

function Statements(props: Props) {
  const { db, path } = props;
  const [order, setOrder] = useState("total_time");
  const [resetting, setResetting] = useState(false);
  const [planning, setPlanning] = useState<Planned>();
  const read = useReader(
    `statements/${db.engine}/${db.id}/${order}`,
    (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/queries/statistics`, { path, query: { order_by: order, page_size: 25 }, background }),
    30_000,
  );
  return (
    <Card
      title={T.queries.top}
      wide
      actions={
        may.change(db.id) && (
          <div class="actions">
            <Button onClick={() => setPlanning({})}>{T.plans.ask}</Button>
            <Button onClick={() => setResetting(true)}>{T.queries.reset}</Button>
          </div>
        )
      }
    >
      <Choice label={T.queries.order} name="order" value={order} set={setOrder} of={Object.entries(T.queries.orders)} />
      <Loaded of={read}>
        {(s) =>
          s.missing ? (
            <p>{plain(s.missing)}</p>
          ) : (
            <Table
              tight
              few={5}
              label={T.queries.top}
              rows={s.data}
              id={(r) => r.query_id + (r.database ?? "") + (r.user ?? "")}
              empty={<p>{T.queries.noStatements}</p>}
              columns={[
                { head: T.queries.statement, cell: (r) => <Long key={r.query} text={r.query} /> },
                { head: T.queries.share, number: true, cell: (r) => measured(100 * r.share, "percent") },
                { head: T.queries.total, number: true, cell: (r) => measured(r.total_time, "second") },
                { head: T.queries.calls, number: true, cell: (r) => round(r.calls) },
                { head: T.queries.mean, number: true, cell: (r) => round(r.mean_time * 1000) + " ms" },
                { head: T.queries.rows, number: true, cell: (r) => round(r.rows) },
                ...(may.change(db.id) && db.engine === "postgresql" ? [{ head: T.act, cell: (r: StatementView) => <Button label={T.plans.of(r.query_id)} onClick={() => setPlanning({ query_id: r.query_id, query: r.query, database: r.database ?? undefined })}>{T.plans.plan}</Button> }] : []),
              ]}
            />
          )
        }
      </Loaded>
      {planning && <Plan {...props} asked={planning} close={() => setPlanning(undefined)} />}
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

// Planned is a statement of the statistics, or nothing yet.
interface Planned {
  query_id?: string;
  query?: string;
  database?: string;
}

// Plan shows how the server would carry a statement out.
function Plan({ asked, close, ...props }: Props & { asked: Planned; close: () => void }) {
  const { db, path } = props;
  const [database, setDatabase] = useState(asked.database ?? db.database_name);
  const [query, setQuery] = useState(asked.query ?? "");
  const [plan, setPlan] = useState<unknown>();
  const names = useLogical(props);
  const doing = useAction();
  const submit = (e: Event) => {
    e.preventDefault();
    const body = asked.query_id ? { query_id: asked.query_id } : { database, query };
    void doing.run(async () => setPlan((await call(`POST /v4/databases/${db.engine}/instances/{instanceId}/queries/plan`, { path, body })).plan), T.plans.below);
  };
  return (
    <Dialog title={T.plans.title} close={close}>
      <form onSubmit={submit}>
        <p>{T.plans.text}</p>
        {asked.query_id ? (
          <Code what={T.queries.statement} text={query} />
        ) : (
          <>
            <Choice label={T.pools.database} name="database" failure={doing.failure} value={database} set={setDatabase} of={offered(db, names.data)} />
            <Text label={T.queries.statement} name="query" rows={4} failure={doing.failure} value={query} set={setQuery} />
          </>
        )}
        <Problems failure={doing.failure} fields={["database", "query"]} />
        {plan !== undefined && <Code what={T.plans.plan} text={planText(plan)} />}
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {T.plans.show}
          </Button>
          <Button onClick={close}>{T.close}</Button>
        </div>
      </form>
    </Dialog>
  );
}

type Node = Record<string, unknown>;

// planText has PostgreSQL's plans a line for each step, what it needs below it; those of others as they are.
export function planText(plan: unknown): string {
  const lines: string[] = [];
  const add = (n: Node, depth: number) => {
    const word = (name: string, before: string) => (n[name] === undefined ? "" : before + String(n[name]));
    lines.push("  ".repeat(depth) + T.plans.step(String(n["Node Type"]) + word("Relation Name", " on ") + word("Index Name", " using "), round(Number(n["Total Cost"])), round(Number(n["Plan Rows"]))));
    for (const name of ["Index Cond", "Hash Cond", "Merge Cond", "Join Filter", "Filter", "Sort Key"]) {
      if (n[name] !== undefined) lines.push("  ".repeat(depth + 1) + name + ": " + String(n[name]));
    }
    for (const below of (n["Plans"] as Node[] | undefined) ?? []) add(below, depth + 1);
  };
  const whole = Array.isArray(plan) ? (plan[0] as Node | undefined)?.["Plan"] : undefined;
  if (!whole) return JSON.stringify(plan, null, 2);
  add(whole as Node, 0);
  return lines.join("\n");
}

// joined puts the newest lines before those that were read earlier, where the two meet; undefined where lines may be missing between them.
export function joined<L>(newest: L[], earlier: L[]): L[] | undefined {
  const known = earlier.map((line) => JSON.stringify(line));
  const last = newest.map((line) => JSON.stringify(line));
  for (let n = 0; n < last.length; n++) {
    if (last.slice(n).every((line, i) => line === known[i])) return [...newest.slice(0, n), ...earlier];
  }
  return undefined;
}

// useLines reads the newest page of a log as useReader does, and older ones when somebody asks.
function useLines<L, P extends { data: L[]; next_page_token: string | null }>(key: string, get: (page_token: string | undefined, background: boolean) => Promise<P>, every = 0) {
  const read = useReader(key, (background) => get(undefined, background), every);
  const [earlier, setEarlier] = useState<{ key: string; lines: L[]; next: string | null }>();
  const doing = useAction();
  const newest = read.data?.data ?? [];
  const both = earlier?.key === key ? joined(newest, earlier.lines) : undefined;
  const lines = both ?? newest;
  const next = both && earlier ? earlier.next : (read.data?.next_page_token ?? null);
  // The button that asks isn't disabled meanwhile: it would lose the focus. Asked twice, the same page comes to the same.
  const older = () =>
    doing.run(async () => {
      const page = await get(next ?? undefined, false);
      setEarlier({ key, lines: [...lines, ...page.data], next: page.next_page_token });
    });
  return { read, lines: lines.map((line, n) => ({ ...line, n })), next, older, doing };
}

// Slow are the statements that took longer than the database's setting says.
function Slow(props: Props) {
  const { db, path } = props;
  const [text, setText] = useState("");
  const { read, lines, next, older, doing } = useLines<SlowStatementView, SlowView>(`slow/${db.engine}/${db.id}/${text}`, (page_token, background) =>
    call(`GET /v4/databases/${db.engine}/instances/{instanceId}/queries/slow`, { path, query: { text, page_token, page_size: 25 }, background }),
  );
  return (
    <Card title={T.slow.title} wide actions={<Button onClick={() => read.read()}>{T.slow.again}</Button>}>
      <Loaded of={read}>
        {(s) => (
          <>
            {may.change(db.id) && <Threshold key={String(s.threshold)} {...props} of={s.threshold} done={() => read.read()} />}
            {s.missing ? (
              <p>{plain(s.missing)}</p>
            ) : (
              <>
                <Field label={T.logs.text} name="text">
                  {(p) => <input {...p} type="search" value={text} maxLength={200} onChange={(e) => setText(e.currentTarget.value)} />}
                </Field>
                <Table
                  tight
                  few={5}
                  label={T.slow.title}
                  rows={lines}
                  id={(r) => r.n}
                  empty={<p>{T.slow.none}</p>}
                  columns={[
                    { head: T.metrics.time, cell: (r) => <Time at={r.time} /> },
                    { head: T.slow.took, number: true, by: (r) => r.duration, cell: (r) => round(1000 * r.duration) + " ms" },
                    { head: T.queries.statement, cell: (r) => <Long key={r.query} text={r.query} /> },
                    { head: T.queries.user, cell: (r) => plain(r.user) },
                    { head: T.pools.database, cell: (r) => plain(r.database ?? T.none) },
                    { head: T.database.node, cell: (r) => String(r.node) },
                  ]}
                />
                <Problems failure={doing.failure} />
                {next && (
                  <p class="older">
                    <Button onClick={() => void older()}>{T.slow.older}</Button>
                  </p>
                )}
              </>
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}

// Threshold sets from how long on a statement is logged, by the database's settings.
function Threshold({ db, path, reader, of, done }: Props & { of: number | null; done: () => void }) {
  const [value, setValue] = useState(of === null ? "" : String(1000 * of));
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const ms = value.trim() === "" ? null : Number(value);
    const engine_config = db.engine === "postgresql" ? { pg: { log_min_duration_statement: ms } } : { mysql: { slow_query_log: ms !== null, long_query_time: ms === null ? null : ms / 1000 } };
    if (await doing.run(() => call(`PUT /v4/databases/${db.engine}/instances/{instanceId}`, { path, body: { engine_config } }), T.settings.asked)) {
      reader.read();
      done();
    }
  };
  const name = db.engine === "postgresql" ? "engine_config.pg.log_min_duration_statement" : "engine_config.mysql.long_query_time";
  return (
    <form class="filters" onSubmit={(e) => void submit(e)}>
      <Text label={T.slow.threshold} name={name} type="number" failure={doing.failure} hint={T.slow.hint} value={value} set={setValue} />
      <Problems failure={doing.failure} fields={[name]} />
      <Button submit disabled={doing.busy || value === (of === null ? "" : String(1000 * of))}>
        {T.save}
      </Button>
    </form>
  );
}

function Tables({ db, path }: Props) {
  const read = useReader(`tables/${db.engine}/${db.id}`, (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/tables`, { path, query: { page_size: 25 }, background }));
  return (
    <Card title={T.tables.title} wide>
      <Loaded of={read}>
        {(l) => (
          <Table
            tight
            few={5}
            label={T.tables.title}
            rows={l.data.map((r, n) => ({ ...r, n }))}
            id={(r) => r.n}
            empty={<p>{T.tables.none}</p>}
            columns={[
              { head: T.tables.table, cell: (r) => plain(`${r.schema}.${r.table}`) + (r.index ? ` (${plain(r.index)})` : "") },
              { head: T.pools.database, cell: (r) => plain(r.database) },
              { head: T.tables.size, number: true, by: (r) => r.size_bytes, cell: (r) => bytes(r.size_bytes) },
              { head: T.queries.rows, number: true, by: (r) => r.rows ?? -1, cell: (r) => (r.rows === null ? T.none : round(r.rows)) },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

function Logs({ db, path }: Props) {
  const [severity, setSeverity] = useState("info");
  const [text, setText] = useState("");
  const [follow, setFollow] = useState(false);
  const { read, lines, next, older, doing } = useLines<LogLineView, LogsView>(
    `logs/${db.engine}/${db.id}/${severity}/${text}`,
    (page_token, background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/logs`, { path, query: { severity, text, page_token, page_size: 50 }, background }),
    follow ? 3000 : 0,
  );
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
        {() => (
          <>
            <Table
              tight
              label={T.logs.title}
              rows={lines}
              id={(r) => r.n}
              empty={<p>{T.logs.none}</p>}
              columns={[
                { head: T.metrics.time, cell: (r) => <Time at={r.time} /> },
                { head: T.database.node, cell: (r) => String(r.node) },
                { head: T.logs.severity, cell: (r) => <Status of={r.severity} /> },
                { head: T.logs.message, cell: (r) => <Long key={r.message} text={r.message} /> },
              ]}
            />
            <Problems failure={doing.failure} />
            {next && !follow && (
              <p class="older">
                <Button onClick={() => void older()}>{T.logs.older}</Button>
              </p>
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}
