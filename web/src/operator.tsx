// Operators: all accounts, regions and servers, what is missing, and what people are told.
import { useState } from "preact/hooks";
import type { ReportView, TenantView } from "./api";
import { call, whole } from "./call";
import { plain } from "./format";
import { useReader, type List } from "./live";
import { T } from "./text";
import { Alert, Button, Card, Code, Facts, FormDialog, Items, Loaded, Page, Problems, Status, Sure, Table, Tabs, Text, Tick, Time, useAction } from "./ui";
import { profile } from "./who";

const tabs = ["", "hosts", "doctor", "notices"] as const;

export function Operator({ tab }: { tab: string }) {
  const at = (t: string) => "/console/operator" + (t && "/" + t);
  return (
    <Page title={T.nav.operator}>
      <Tabs label={T.operator.parts} at={at(tab)} all={tabs.map((t) => [at(t), T.operator.tab[t]])} />
      {!profile.value?.operator ? <Alert kind="warn">{T.operator.none}</Alert> : tab === "" ? <Accounts /> : tab === "hosts" ? <Hosts /> : tab === "doctor" ? <Doctor /> : tab === "notices" ? <Notices /> : <Alert>{T.gone}</Alert>}
    </Page>
  );
}

const quotas = ["databases", "nodes", "memory_gb", "disk_gb", "services"] as const;

const ofQuota = (a: TenantView, q: (typeof quotas)[number]) => {
  const most = a.effective_quotas[`max_${q}`];
  return most === null ? `${a.used[q]}` : T.operator.of(a.used[q], most);
};

const accounts: readonly List[] = ["accounts"];

function Accounts() {
  const read = useReader("operator/accounts", (background) => whole((page) => call("GET /v4/operator/accounts", { query: { page, page_size: 500 }, background })), 0, accounts);
  const done = () => read.read();
  return (
    <Items
      title={T.operator.tab[""]}
      read={read}
      id={(a) => a.name}
      name={(a) => a.name}
      columns={[
        { head: T.operator.name, by: (a) => a.name, cell: (a) => plain(a.name) },
        { head: T.databases.status, by: (a) => a.status, cell: (a) => <Status of={a.status} /> },
        { head: T.account.users, by: (a) => a.users, number: true, cell: (a) => a.users },
        ...quotas.map((q) => ({ head: T.operator.quota[q], by: (a: TenantView) => a.used[q], number: true, cell: (a: TenantView) => ofQuota(a, q) })),
        { head: T.database.created, by: (a) => a.created, cell: (a) => <Time at={a.created} relative /> },
      ]}
      can
      add={T.operator.add}
      change={(a) => a.status !== "deleting"}
      form={(of, close) => <AccountForm of={of} close={close} done={done} />}
      more={[
        { text: T.operator.first, label: (a) => T.operator.firstOf(a.name), when: (a) => a.users < 2 && a.status === "active", dialog: (a, close) => <FirstUser of={a} close={close} done={done} /> },
        {
          text: T.operator.suspend, label: (a) => T.operator.suspendOf(a.name), when: (a) => a.status === "active",
          dialog: (a, close) => <Sure title={T.operator.suspendOf(plain(a.name))} text={<p>{T.operator.suspendText}</p>} action={T.operator.suspend} close={close} run={() => call("POST /v4/operator/accounts/{accountName}/suspend", { path: { accountName: a.name } }).then(done)} />,
        },
        {
          text: T.operator.resume, label: (a) => T.operator.resumeOf(a.name), when: (a) => a.status === "suspended",
          dialog: (a, close) => <Sure title={T.operator.resumeOf(plain(a.name))} text={<p>{T.operator.resumeText}</p>} action={T.operator.resume} close={close} run={() => call("POST /v4/operator/accounts/{accountName}/resume", { path: { accountName: a.name } }).then(done)} />,
        },
      ]}
      remove={{ title: T.operator.deleteTitle, text: T.operator.deleteText, when: (a) => a.status !== "deleting" && a.name !== "default", run: (a) => call("DELETE /v4/operator/accounts/{accountName}", { path: { accountName: a.name } }) }}
    />
  );
}

// AccountForm makes an account, or changes one; a quota that is left empty is the operator's default.
function AccountForm({ of, close, done }: { of?: TenantView; close: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const [email, setEmail] = useState(of?.email ?? "");
  const [most, setMost] = useState(() => quotas.map((q) => `${of?.quotas[`max_${q}`] ?? ""}`));
  const save = () => {
    const bounds = Object.fromEntries(quotas.map((q, i) => [`max_${q}`, most[i] === "" ? null : Number(most[i])]));
    return (of ? call("PUT /v4/operator/accounts/{accountName}", { path: { accountName: of.name }, body: { email, ...bounds } }) : call("POST /v4/operator/accounts", { body: { name, email, ...bounds } })).then(done);
  };
  return (
    <FormDialog title={of ? T.contacts.changeOf(plain(of.name)) : T.operator.add} fields={["name", "email", ...quotas.map((q) => "max_" + q)]} close={close} save={save}>
      {(failure) => (
        <>
          {!of && <Text label={T.operator.name} name="name" failure={failure} hint={T.operator.nameHint} value={name} set={setName} />}
          <Text label={T.contacts.email} name="email" type="email" failure={failure} value={email} set={setEmail} />
          <p class="hint">{T.operator.quotaHint}</p>
          {quotas.map((q, i) => (
            <Text key={q} label={T.operator.most[q]} name={"max_" + q} type="number" failure={failure} value={most[i] ?? ""} set={(v) => setMost(most.map((m, j) => (i === j ? v : m)))} />
          ))}
        </>
      )}
    </FormDialog>
  );
}

function FirstUser({ of, close, done }: { of: TenantView; close: () => void; done: () => void }) {
  const [username, setUsername] = useState("");
  const [email, setEmail] = useState(of.email);
  const [link, setLink] = useState("");
  const save = () => call("POST /v4/operator/accounts/{accountName}/first-user", { path: { accountName: of.name }, body: { username, email } }).then((made) => (setLink(made.login_url), done(), new Promise<never>(() => undefined)));
  return (
    <FormDialog title={T.operator.firstOf(plain(of.name))} action={T.operator.first} ready={!link} fields={["username", "email"]} close={close} save={save}>
      {(failure) =>
        link ? (
          <>
            <p>{T.operator.link}</p>
            <Code what={T.operator.linkName} text={link} />
          </>
        ) : (
          <>
            <p>{T.operator.firstText}</p>
            <Text label={T.account.name} name="username" failure={failure} value={username} set={setUsername} />
            <Text label={T.contacts.email} name="email" type="email" failure={failure} value={email} set={setEmail} />
          </>
        )
      }
    </FormDialog>
  );
}

function Hosts() {
  const regions = useReader("operator/regions", (background) => whole((page) => call("GET /v4/operator/regions", { query: { page, page_size: 500 }, background })));
  const nodes = useReader("operator/nodes", (background) => whole((page) => call("GET /v4/operator/nodes", { query: { page, page_size: 500 }, background })), 10_000);
  return (
    <>
      <Card title={T.account.tab.regions} wide>
        <Loaded of={regions}>
          {(all) => (
            <Table
              label={T.account.tab.regions}
              rows={all}
              id={(r) => r.id}
              columns={[
                { head: T.databases.region, by: (r) => r.id, cell: (r) => plain(r.id) },
                { head: T.operator.platform, by: (r) => r.platform, cell: (r) => r.platform },
                { head: T.databases.status, by: (r) => r.away, cell: (r) => (r.away ? `${T.operator.away} ${plain(r.away)}` : <Status of="ok" />) },
                ...quotas.slice(0, 4).map((q) => ({ head: T.operator.quota[q], number: true, cell: (r: (typeof all)[number]) => r.planned[q] })),
              ]}
            />
          )}
        </Loaded>
      </Card>
      <Card title={T.operator.servers} wide>
        <Loaded of={nodes}>
          {(all) => (
            <Table
              label={T.operator.servers}
              rows={all}
              id={(n) => `${n.database}/${n.node}`}
              empty={<p>{T.operator.noServers}</p>}
              columns={[
                { head: T.databases.label, by: (n) => n.label, cell: (n) => plain(n.label || `${n.database}`) },
                { head: T.nav.account, by: (n) => n.account, cell: (n) => plain(n.account) },
                { head: T.database.node, by: (n) => n.node, number: true, cell: (n) => n.node },
                { head: T.database.role, by: (n) => n.role, cell: (n) => <Status of={n.role} /> },
                { head: T.database.version, by: (n) => n.server, cell: (n) => n.server },
                { head: T.databases.status, by: (n) => Number(n.running), cell: (n) => (n.problem ? plain(n.problem) : <Status of={n.running ? "serving" : "off"} />) },
                { head: T.database.lag, by: (n) => n.lag_seconds, number: true, cell: (n) => (n.role === "replica" && n.streaming ? `${n.lag_seconds.toFixed(1)} s` : T.none) },
                { head: T.operator.pid, by: (n) => n.pid, number: true, cell: (n) => (n.running ? n.pid : T.none) },
              ]}
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}

function Doctor() {
  const read = useReader("operator/doctor", (background) => call("GET /v4/operator/doctor", { background }));
  return <Loaded of={read}>{(report) => <Report of={report} />}</Loaded>;
}

function Report({ of }: { of: ReportView }) {
  const yes = (b: boolean) => (b ? T.operator.yes : T.operator.no);
  return (
    <>
      {of.missing.length === 0 && <Alert kind="good">{T.operator.complete}</Alert>}
      {of.missing.map((m) => (
        <Alert key={m.what} kind={m.required ? "bad" : "warn"}>
          <p>{T.operator.missing(m.what, m.why)}</p>
          <Code what={T.operator.install(m.what)} text={m.install} />
        </Alert>
      ))}
      {[...of.host.warnings, ...of.notes].map((w) => (
        <Alert key={w} kind="warn">
          {plain(w)}
        </Alert>
      ))}
      <Card title={T.operator.host}>
        <Facts
          of={[
            [T.operator.groups, of.host.control_groups],
            [T.operator.sandbox, yes(of.host.bubblewrap)],
            [T.operator.ownUsers, yes(of.host.own_users)],
            [T.operator.gateway, of.gateway.fault || `${of.gateway.driver}: ${of.gateway.why}`],
            [T.operator.tracked, of.gateway.most > 0 ? `${of.gateway.tracked} ${T.operator.of} ${of.gateway.most}` : T.none],
          ]}
        />
      </Card>
      {of.regions.map((r) => (
        <Card key={r.id} title={plain(r.id)}>
          <Facts of={[[T.databases.status, r.reachable ? <Status of="ok" /> : plain(r.fault)], ["Kubernetes", r.version || T.none], ["CloudNativePG", r.operator || T.none]]} />
          {[...r.missing, ...r.notes].map((f) => (
            <Alert key={f.what} kind="warn">
              <p>{plain(f.what)}</p>
              <Code what={T.operator.install(f.what)} text={f.command} />
            </Alert>
          ))}
        </Card>
      ))}
      <Card title={T.operator.engines} wide>
        <Table
          label={T.operator.engines}
          rows={of.engines}
          id={(e) => e.home + e.engine}
          columns={[
            { head: T.databases.engine, by: (e) => e.engine, cell: (e) => e.engine },
            { head: T.operator.server, by: (e) => e.server, cell: (e) => e.server },
            { head: T.database.version, by: (e) => e.version, cell: (e) => e.version },
            { head: T.operator.builder, by: (e) => e.builder, cell: (e) => plain(e.builder) },
            { head: T.operator.home, by: (e) => e.home, cell: (e) => plain(e.home) },
          ]}
        />
      </Card>
    </>
  );
}

function Notices() {
  const [failed, setFailed] = useState(false);
  const [testing, setTesting] = useState(false);
  const doing = useAction();
  const read = useReader(`operator/notices/${failed}`, (background) => whole((page) => call("GET /v4/operator/notices", { query: { page, page_size: 500, failed: `${failed}` }, background })));
  const retry = (what: Promise<{ retried: number }>) => doing.run(() => what.then(() => read.read()), T.operator.retried);
  return (
    <Card
      title={T.operator.tab.notices}
      wide
      actions={
        <div class="actions">
          <Button onClick={() => setTesting(true)}>{T.operator.test}</Button>
          <Button onClick={() => void retry(call("POST /v4/operator/notices/retry"))}>{T.operator.retryAll}</Button>
        </div>
      }
    >
      <Tick label={T.operator.failedOnly} on={failed} set={setFailed} />
      <Problems failure={doing.failure} />
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.operator.tab.notices}
            rows={all}
            id={(n) => n.id}
            empty={<p>{T.operator.noNotices}</p>}
            columns={[
              { head: T.database.created, by: (n) => n.created, cell: (n) => <Time at={n.created} relative /> },
              { head: T.operator.about, by: (n) => n.about, cell: (n) => plain(n.about) },
              { head: T.operator.kind, by: (n) => n.kind, cell: (n) => T.operator.kinds[n.kind] ?? n.kind },
              { head: T.operator.to, by: (n) => n.recipient, cell: (n) => `${plain(n.channel)} ${plain(n.recipient)}` },
              { head: T.databases.status, by: (n) => n.state, cell: (n) => <Status of={n.state} /> },
              { head: T.operator.problem, by: (n) => n.problem, cell: (n) => plain(n.problem) },
              {
                head: T.act,
                cell: (n) =>
                  n.state !== "sent" && (
                    <Button label={T.operator.retryOf(n.id)} onClick={() => void retry(call("POST /v4/operator/notices/{noticeId}/retry", { path: { noticeId: n.id } }))}>
                      {T.again}
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {testing && <Test close={() => setTesting(false)} />}
    </Card>
  );
}

function Test({ close }: { close: () => void }) {
  const [to, setTo] = useState("");
  const [channel, setChannel] = useState("");
  return (
    <FormDialog title={T.operator.test} action={T.operator.send} fields={["to", "channel"]} close={close} save={() => call("POST /v4/operator/notices/test", { body: { to: to || undefined, channel: channel || undefined } })} saved={T.operator.taken}>
      {(failure) => (
        <>
          <Text label={T.contacts.email} name="to" type="email" failure={failure} value={to} set={setTo} />
          <Text label={T.operator.channel} name="channel" failure={failure} value={channel} set={setChannel} />
        </>
      )}
    </FormDialog>
  );
}
