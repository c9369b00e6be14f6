// One database: its tabs, and the overview with the way to connect.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { CredentialsView, DatabaseView } from "./api";
import { call } from "./call";
import { engineName, mysqlName, pageOf, poolEndpoint, usePools, type Engine } from "./db";
import { connectText, kinds, type Kind } from "./connect";
import { Doing, EventPages, EventTable, useEvents } from "./events";
import { plain } from "./format";
import { useReader, type Reader } from "./live";
import { T } from "./text";
import { Alert, Button, Card, Choice, Code, Facts, Field, Loaded, Meter, Page, Problems, Status, Table, Tabs, Time, useAction } from "./ui";
import { Access } from "./access";
import { Backups } from "./backups";
import { later } from "./later";
import { may } from "./who";

const Metrics = later(() => import("./metrics").then((m) => m.Metrics));
const Queries = later(() => import("./queries").then((m) => m.Queries));
const Settings = later(() => import("./settings").then((m) => m.Settings));

const tabs = ["", "metrics", "queries", "backups", "access", "settings", "events"] as const;

export interface Props {
  db: DatabaseView;
  path: { instanceId: number };
  reader: Reader<DatabaseView>;
}

export function Database({ engine, id, tab }: { engine: Engine; id: number; tab: string }) {
  const path = { instanceId: id };
  const reader = useReader(`db/${engine}/${id}`, (background) => call(`GET /v4/databases/${engine}/instances/{instanceId}`, { path, background }));
  const shown = useRef(tab);
  useEffect(() => {
    if (shown.current !== tab) reader.read(); // what changes without an event, such as what waits for maintenance
    shown.current = tab;
  }, [tab]);
  return (
    <Page title={reader.data?.label ?? T.database.title} back={["/console/databases", T.databases.title]}>
      <Tabs label={T.database.tabs} at={pageOf({ engine, id }, tab)} all={tabs.map((t) => [pageOf({ engine, id }, t), T.database.tab[t]])} />
      <Loaded of={reader}>{(db) => <Tab tab={tab} db={db} path={path} reader={reader} />}</Loaded>
    </Page>
  );
}

function Tab({ tab, ...props }: Props & { tab: string }) {
  switch (tab) {
    case "metrics":
      return <Metrics {...props} />;
    case "queries":
      return <Queries {...props} />;
    case "backups":
      return <Backups {...props} />;
    case "access":
      return <Access {...props} />;
    case "settings":
      return <Settings {...props} />;
    case "events":
      return (
        <Card title={T.events.title} wide>
          <EventPages filter={eventsOf(props.db)} />
        </Card>
      );
    case "":
      return <Overview {...props} />;
    default:
      return <Alert>{T.gone}</Alert>;
  }
}

const eventsOf = (db: DatabaseView) => ({ "entity.id": db.id, "entity.type": "database" });

function warnings(db: DatabaseView): string[] {
  const found: string[] = [];
  if (db.allow_list.length === 0) found.push(T.database.closed);
  if (db.read_only) found.push(T.database.readOnly);
  if (db.status === "degraded") found.push(T.database.degraded);
  if (db.status === "failed") found.push(T.database.failed);
  if (db.used_disk_size_gb !== null && db.total_disk_size_gb && db.used_disk_size_gb > 0.8 * db.total_disk_size_gb) found.push(T.database.diskFull);
  if (db.backup_problem) found.push(T.database.backup[db.backup_problem]);
  return found;
}

function Overview({ db, path, reader }: Props) {
  const nodes = useReader(`nodes/${db.engine}/${db.id}`, (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/nodes`, { path, background }), db.cluster_size > 1 ? 10_000 : 0); // how far replicas are behind is no event
  const events = useEvents({ limit: 10, filter: eventsOf(db) });
  const doing = events.data?.data.filter((e) => e.status === "started") ?? [];
  return (
    <>
      <div role="status">
        {warnings(db).map((w) => (
          <Alert key={w} kind="warn">
            {w}
          </Alert>
        ))}
      </div>
      <Standing db={db} />
      <div class="columns">
        <Connect db={db} path={path} reader={reader} />
        <Card title={T.database.state}>
          <Facts
            of={[
              [T.databases.status, <span role="status"><Status of={db.sleeping ? "asleep" : db.status} /></span>],
              ...doing.map((e): [string, ComponentChildren] => [T.database.doing, <Doing event={e} />]),
              [T.databases.engine, engineName(db) + (db.server_version ? ` (${db.server_version})` : "")],
              [T.databases.plan, db.type],
              [T.databases.nodes, String(db.cluster_size)],
              [T.databases.disk, <Meter used={db.used_disk_size_gb} total={db.total_disk_size_gb} label={T.databases.diskOf(db.label)} unit="GB" />],
              [T.databases.region, db.region],
              [T.database.created, <Time at={db.created} />],
              [T.database.restorable, db.oldest_restore_time ? <Time at={db.oldest_restore_time} relative /> : T.database.noBackup],
              [T.databases.proven, db.last_proven_backup ? <Time at={db.last_proven_backup} relative /> : T.databases.unproven],
            ]}
          />
        </Card>
      </div>
      <Card title={T.database.nodes} wide>
        <Loaded of={nodes}>
          {(n) => (
            <Table
              label={T.database.nodes}
              rows={n.data}
              id={(r) => r.node}
              columns={[
                { head: T.database.node, cell: (r) => String(r.node) },
                { head: T.database.role, cell: (r) => T.status[r.role] ?? r.role },
                { head: T.database.health, cell: (r) => <Status of={r.health} /> },
                { head: T.database.lag, number: true, cell: (r) => (r.lag_seconds === null ? T.none : r.lag_seconds + " s") },
                { head: T.database.since, cell: (r) => <Time at={r.since} relative /> },
                { head: T.database.version, cell: (r) => r.version ?? T.none },
              ]}
            />
          )}
        </Loaded>
      </Card>
      <Card title={T.database.latest} wide actions={<a href={pageOf(db, "events")}>{T.home.allEvents}</a>}>
        <Loaded of={events}>{(list) => <EventTable rows={list.data.slice(0, 10)} />}</Loaded>
      </Card>
    </>
  );
}

// Standing are the alerts and other issues of the database that last.
function Standing({ db }: { db: DatabaseView }) {
  const read = useReader(may.managed() ? `standing/${db.id}` : null, (background) => call("GET /v4/managed/issues", { filter: { closed: null, database_id: db.id }, query: { page_size: 100 }, background }));
  const all = read.data?.data ?? [];
  if (all.length === 0) return null;
  return (
    <Card title={T.database.standing} wide>
      <ul class="needs">
        {all.map((i) => (
          <li key={i.id} class="bad">
            <a href={`/console/issues/${i.id}`}>{plain(i.entity.label)}</a> <Time at={i.created} relative />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Connect(props: Props) {
  const { db, path } = props;
  const [kind, setKind] = useState<Kind>(db.engine === "postgresql" ? "psql" : "mysql");
  const [where, setWhere] = useState("primary");
  const [secret, setSecret] = useState<CredentialsView>();
  const doing = useAction();
  useEffect(() => setSecret(undefined), [db.id]);
  const endpoint = poolEndpoint(db);
  const pools = usePools(props);
  const pooled = endpoint ? (pools.data ?? []) : [];
  if (!db.hosts.primary) {
    return (
      <Card title={T.connect.title}>
        <p class="wait">{T.connect.notYet}</p>
      </Card>
    );
  }
  const show = () => doing.run(async () => setSecret(await call(`GET /v4/databases/${db.engine}/instances/{instanceId}/credentials`, { path })));
  const download = () =>
    doing.run(async () => {
      const { ca_certificate } = await call(`GET /v4/databases/${db.engine}/instances/{instanceId}/ssl`, { path });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([atob(ca_certificate)], { type: "application/x-pem-file" }));
      link.download = `${db.label}-ca.crt`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  const pool = pooled.find((p) => where === "pool/" + p.label);
  const server = { host: (where === "reads" ? db.hosts.standby ?? db.hosts.secondary : null) ?? db.hosts.primary, port: db.port, database: db.database_name };
  const to = {
    ...(pool && endpoint ? { host: endpoint.address, port: endpoint.port, database: pool.label } : server),
    user: secret?.username ?? "dbadmin",
    password: secret?.password,
    ca: `${db.label}-ca.crt`,
  };
  const places: [string, string][] = [["primary", T.connect.primary], ...(db.cluster_size > 1 ? [["reads", T.connect.reads] as [string, string]] : []), ...pooled.map((p): [string, string] => ["pool/" + p.label, T.connect.pool(p.label)])];
  return (
    <Card title={T.connect.title}>
      <div class="filters">
        <Field label={T.connect.how} name="kind">
          {(p) => (
            <select {...p} value={kind} onChange={(e) => setKind(e.currentTarget.value as Kind)}>
              {kinds(db.engine).map((k) => (
                <option key={k} value={k}>
                  {k === "mysql" && mysqlName(db.version) === "MariaDB" ? "mariadb" : T.connect.kind[k]}
                </option>
              ))}
            </select>
          )}
        </Field>
        {places.length > 1 && <Choice label={T.connect.where} name="where" value={places.some(([at]) => at === where) ? where : "primary"} set={setWhere} of={places} />}
      </div>
      <Code what={T.connect.text} text={connectText(kind, db, to)} />
      <div class="actions">
        {secret ? <Button onClick={() => setSecret(undefined)}>{T.connect.hide}</Button> : <Button onClick={() => void show()} disabled={doing.busy}>{T.connect.show}</Button>}
        <Button onClick={() => void download()} disabled={doing.busy}>
          {T.connect.ca}
        </Button>
      </div>
      <Problems failure={doing.failure} />
      <p class="hint">{T.connect.hint(plain(to.ca))}</p>
    </Card>
  );
}
