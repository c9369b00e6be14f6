// The account: users and grants, tokens, applications, log-ins.
import { useState } from "preact/hooks";
import type { GrantsView, TokenView, UserView } from "./api";
import { call, whole, type Out } from "./call";
import { Clients, Regions, Usage } from "./clients";
import { plain, when } from "./format";
import { useReader, type List } from "./live";
import { Yourself } from "./security";
import { T } from "./text";
import { Alert, Button, Card, Choice, Dialog, FormDialog, Items, Loaded, Once, Page, Pager, Problems, Status, Sure, Table, Tabs, Text, Tick, Time, useAction } from "./ui";
import { may, profile, readWho } from "./who";

// What changes without an event: how users get in, the audit trail, applications.
const [logins, audit, apps]: readonly (readonly List[])[] = [["logins"], ["audit"], ["apps"]];

const tabs = ["", "security", "tokens", "apps", "clients", "logins", "audit", "usage", "regions"] as const;

export function Account({ tab }: { tab: string }) {
  const at = (t: string) => "/console/account" + (t && "/" + t);
  return (
    <Page title={T.account.title}>
      <Tabs label={T.account.parts} at={at(tab)} all={tabs.map((t) => [at(t), T.account.tab[t]])} />
      {tab === "" ? <Users /> : tab === "security" ? <Yourself /> : tab === "tokens" ? <Tokens /> : tab === "apps" ? <Apps /> : tab === "logins" ? <Logins /> : tab === "audit" ? <Trail /> : tab === "clients" ? <Clients /> : tab === "usage" ? <Usage /> : tab === "regions" ? <Regions /> : <Alert>{T.gone}</Alert>}
    </Page>
  );
}

function Users() {
  const read = useReader(may.account() ? "users" : null, (background) => whole((page) => call("GET /v4/account/users", { query: { page, page_size: 500 }, background })), 0, logins);
  if (!may.account()) return <Alert kind="warn">{T.forbidden}</Alert>;
  return (
    <Items
      title={T.account.users}
      read={read}
      id={(u) => u.username}
      name={(u) => u.username}
      columns={[
        { head: T.account.name, by: (u) => u.username, cell: (u) => plain(u.username) },
        { head: T.contacts.email, by: (u) => u.email, cell: (u) => plain(u.email) },
        { head: T.account.rights, by: (u) => Number(u.restricted), cell: (u) => (u.restricted ? T.account.restricted : T.account.all) },
        { head: T.factor.title, by: (u) => Number(u.tfa_enabled), cell: (u) => (u.tfa_enabled ? T.factor.has : T.none) },
        { head: T.account.password, cell: (u) => (u.password_created ? <Time at={u.password_created} relative /> : T.account.noPassword) },
        { head: T.account.lastLogin, cell: (u) => <Time at={u.last_login?.login_datetime} relative /> },
      ]}
      can
      add={T.account.addUser}
      form={(of, close) => <UserForm of={of} close={close} done={() => read.read()} />}
      more={[{ text: T.account.grants, label: (u) => T.account.grantsOf(u.username), when: (u) => u.restricted, dialog: (u, close) => <Grants user={u} close={close} /> }]}
      remove={{
        title: T.account.deleteUser, text: T.account.deleteUserText, when: (u) => u.username !== profile.value?.username,
        run: (u) => call("DELETE /v4/account/users/{username}", { path: { username: u.username } }),
      }}
    />
  );
}

// UserForm adds a user, or changes one.
function UserForm({ of, close, done }: { of?: UserView; close: () => void; done: () => void }) {
  const [username, setUsername] = useState(of?.username ?? "");
  const [email, setEmail] = useState(of?.email ?? "");
  const [restricted, setRestricted] = useState(of?.restricted ?? true);
  const body = { username, email, restricted };
  const save = async () => {
    await (of ? call("PUT /v4/account/users/{username}", { path: { username: of.username }, body }) : call("POST /v4/account/users", { body }));
    if (of?.username === profile.value?.username) await readWho();
    done();
  };
  const title = of ? T.contacts.changeOf(plain(of.username)) : T.account.addUser;
  return (
    <FormDialog title={title} action={of ? T.save : T.account.addUser} fields={["username", "email"]} close={close} save={save} saved={of ? T.settings.saved : T.account.added}>
      {(failure) => (
        <>
          <Text label={T.account.name} name="username" failure={failure} value={username} set={setUsername} />
          <Text label={T.contacts.email} name="email" type="email" failure={failure} value={email} set={setEmail} />
          <Tick label={T.account.restrict} on={restricted} set={setRestricted} />
          {!of && <p class="hint">{T.account.linkHint(username || "NAME")}</p>}
        </>
      )}
    </FormDialog>
  );
}

function Grants({ user, close }: { user: UserView; close: () => void }) {
  const path = { username: user.username };
  const read = useReader("grants/" + user.username, (background) => call("GET /v4/account/users/{username}/grants", { path, background }));
  return (
    <Dialog title={T.account.grantsOf(plain(user.username))} close={close}>
      <Loaded of={read}>{(g) => <GrantsForm key={user.username} grants={g} path={path} close={close} />}</Loaded>
    </Dialog>
  );
}

const permissions = [["", T.account.nothing], ["read_only", T.account.see], ["read_write", T.account.seeAndChange]] as const;

type Permission = "read_only" | "read_write" | null;

function GrantsForm({ grants, path, close }: { grants: GrantsView; path: { username: string }; close: () => void }) {
  // What isn't chosen here is as it is, whoever changes it meanwhile.
  const [added, setAdd] = useState<boolean>();
  const [chosen, setOf] = useState<Record<number, Permission>>({});
  const add = added ?? grants.global.add_databases;
  const of: Record<number, Permission> = { ...Object.fromEntries(grants.database.map((d) => [d.id, d.permissions])), ...chosen };
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const database = grants.database.map((d) => ({ id: d.id, permissions: of[d.id] ?? null }));
    if (await doing.run(() => call("PUT /v4/account/users/{username}/grants", { path, body: { global: { add_databases: add }, database } }), T.settings.saved)) close();
  };
  return (
    <form onSubmit={(e) => void submit(e)}>
      <Tick label={T.account.addDatabases} on={add} set={setAdd} />
      {grants.database.map((d) => (
        <Choice key={d.id} label={plain(d.label)} name={"database." + d.id} value={of[d.id] ?? ""} set={(to) => setOf({ ...chosen, [d.id]: (to || null) as Permission })} of={permissions} />
      ))}
      <Problems failure={doing.failure} />
      <div class="actions">
        <Button submit kind="main" disabled={doing.busy}>
          {T.save}
        </Button>
        <Button onClick={close}>{T.cancel}</Button>
      </div>
    </form>
  );
}

const areas = ["databases", "account", "events"] as const;

function Tokens() {
  const [open, setOpen] = useState<"add" | TokenView>();
  const [made, setMade] = useState<TokenView>();
  const read = useReader("tokens", (background) => whole((page) => call("GET /v4/profile/tokens", { query: { page, page_size: 500 }, background })));
  return (
    <Card title={T.account.tab.tokens} wide actions={<Button kind="main" onClick={() => setOpen("add")}>{T.account.addToken}</Button>}>
      {made && <Once text={T.account.once} secrets={[[T.account.token, made.token]]} close={() => setMade(undefined)} />}
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.account.tab.tokens}
            rows={all}
            id={(t) => t.id}
            empty={<p>{T.account.noTokens}</p>}
            columns={[
              { head: T.databases.label, by: (t) => t.label, cell: (t) => plain(t.label) },
              { head: T.account.begins, cell: (t) => <code>{t.token}</code> },
              { head: T.account.scopes, cell: (t) => (t.scopes === "*" ? T.account.everything : t.scopes) },
              { head: T.database.created, by: (t) => t.created, cell: (t) => <Time at={t.created} relative /> },
              { head: T.account.ends, by: (t) => t.expiry ?? "~", cell: (t) => (t.expiry ? <Time at={t.expiry} /> : T.account.never) },
              { head: T.act, cell: (t) => <Button label={T.contacts.deleteOf(t.label)} onClick={() => setOpen(t)}>{T.delete}</Button> },
            ]}
          />
        )}
      </Loaded>
      {open === "add" && (
        <AddToken
          close={() => setOpen(undefined)}
          done={(t) => {
            setMade(t);
            read.read();
          }}
        />
      )}
      {open && open !== "add" && (
        <Sure
          title={T.account.deleteToken}
          text={<p>{T.account.deleteTokenText(plain(open.label))}</p>}
          action={T.delete}
          kind="danger"
          close={() => setOpen(undefined)}
          run={async () => {
            await call("DELETE /v4/profile/tokens/{tokenId}", { path: { tokenId: open.id } });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function AddToken({ close, done }: { close: () => void; done: (t: TokenView) => void }) {
  const [label, setLabel] = useState("");
  const [scopes, setScopes] = useState<Record<string, string>>({ databases: "read_only", account: "", events: "" });
  const [days, setDays] = useState("90");
  const text = areas.filter((a) => scopes[a]).map((a) => `${a}:${scopes[a]}`).join(" ");
  const save = async () => {
    const expiry = days === "" ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString().slice(0, 19);
    done(await call("POST /v4/profile/tokens", { body: { label, scopes: text, expiry } }));
  };
  return (
    <FormDialog title={T.account.addToken} action={T.account.addToken} ready={text !== ""} fields={["label", "scopes", "expiry"]} close={close} save={save}>
      {(failure) => (
        <>
          <Text label={T.databases.label} name="label" failure={failure} value={label} set={setLabel} />
          {areas.map((a) => (
            <Choice key={a} label={T.account.areas[a]} name="scopes" failure={failure} value={scopes[a] ?? ""} set={(to) => setScopes({ ...scopes, [a]: to })} of={permissions} />
          ))}
          <Choice label={T.account.ends} name="expiry" failure={failure} value={days} set={setDays} of={[...[1, 30, 90, 365].map((d) => [String(d), T.account.inDays(d)] as const), ["", T.account.never]]} />
        </>
      )}
    </FormDialog>
  );
}

type App = Out<"GET /v4/profile/apps">["data"][number];

// isBrowser reports whether it is a session of the console, which alone has no address to go back to.
const isBrowser = (a: App) => a.website === "";

function Apps() {
  const [ending, setEnding] = useState<App[]>();
  const read = useReader("apps", (background) => whole((page) => call("GET /v4/profile/apps", { query: { page, page_size: 500 }, background })).then((all) => all.filter((a) => when(a.expiry).getTime() > Date.now())), 0, apps);
  const others = (read.data ?? []).filter((a) => isBrowser(a) && !a.current);
  const nameOf = (a: App) => (isBrowser(a) ? (a.browser ?? T.account.someBrowser) : plain(a.label));
  const fromAndSince = [
    { head: T.account.from, cell: (a: App) => a.address ?? T.none },
    { head: T.account.since, by: (a: App) => a.created, cell: (a: App) => <Time at={a.created} relative /> },
  ];
  const end = { head: T.act, cell: (a: App) => (a.current && isBrowser(a) ? null : <Button label={T.account.endOf(nameOf(a))} onClick={() => setEnding([a])}>{T.account.end}</Button>) };
  return (
    <>
      <Card title={T.account.browsers} wide actions={others.length > 1 && <Button onClick={() => setEnding(others)}>{T.account.endOthers}</Button>}>
        <p class="hint">{T.account.browsersText}</p>
        <Loaded of={read}>
          {(all) => (
            <Table
              label={T.account.browsers}
              rows={all.filter(isBrowser)}
              id={(a) => a.id}
              empty={<p>{T.account.noBrowsers}</p>}
              columns={[
                {
                  head: T.account.browser,
                  by: nameOf,
                  cell: (a) => (
                    <span>
                      {nameOf(a)} {a.current && <span class="status good">{T.account.thisOne}</span>}
                    </span>
                  ),
                },
                ...fromAndSince,
                { head: T.account.lastUsed, by: (a) => a.last_used ?? "", cell: (a) => <Time at={a.last_used} relative /> },
                end,
              ]}
            />
          )}
        </Loaded>
      </Card>
      <Card title={T.account.tab.apps} wide>
        <p class="hint">{T.account.appsText}</p>
        <Loaded of={read}>
          {(all) => (
            <Table
              label={T.account.tab.apps}
              rows={all.filter((a) => !isBrowser(a))}
              id={(a) => a.id}
              empty={<p>{T.account.noApps}</p>}
              columns={[
                { head: T.databases.label, by: (a) => a.label, cell: (a) => plain(a.label) },
                { head: T.account.scopes, cell: (a) => (a.scopes === "*" ? T.account.everything : a.scopes) },
                ...fromAndSince,
                { head: T.account.ends, by: (a) => a.expiry, cell: (a) => <Time at={a.expiry} /> },
                end,
              ]}
            />
          )}
        </Loaded>
      </Card>
      {ending?.[0] && (
        <Sure
          title={T.account.endTitle}
          text={<p>{ending.length > 1 ? T.account.endAllText(ending.length) : T.account.endText(nameOf(ending[0]))}</p>}
          action={T.account.end}
          kind="danger"
          close={() => setEnding(undefined)}
          run={async () => {
            try {
              for (const a of ending) await call("DELETE /v4/profile/apps/{appId}", { path: { appId: a.id } });
            } finally {
              read.read();
            }
          }}
        />
      )}
    </>
  );
}

function Logins() {
  const all = may.account();
  const read = useReader("logins", (background) => (all ? call("GET /v4/account/logins", { query: { page_size: 100 }, background }) : call("GET /v4/profile/logins", { query: { page_size: 100 }, background })), 0, logins);
  return (
    <Card title={T.account.tab.logins} wide>
      <Loaded of={read}>
        {(l) => (
          <Table
            label={T.account.tab.logins}
            rows={l.data}
            id={(r) => r.id}
            empty={<p>{T.account.noLogins}</p>}
            columns={[
              { head: T.events.when, cell: (r) => <Time at={r.datetime} /> },
              { head: T.account.name, cell: (r) => plain(r.username) },
              { head: T.queries.from, cell: (r) => r.ip },
              { head: T.databases.status, cell: (r) => <Status of={r.status} /> },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

const changesPerPage = 100;

// Trail is who changed what, and what was refused.
function Trail() {
  const [username, setUsername] = useState("");
  const [refused, setRefused] = useState(false);
  const [page, setPage] = useState(1);
  const filter: Record<string, unknown> = {};
  if (username) filter["username"] = { "+contains": username };
  if (refused) filter["+or"] = [{ status: 401 }, { status: 403 }];
  const read = useReader(may.account() ? "audit" + JSON.stringify([filter, page]) : null, (background) => call("GET /v4/account/audit", { query: { page, page_size: changesPerPage }, filter, background }), 0, audit);
  if (!may.account()) return <Alert kind="warn">{T.forbidden}</Alert>;
  const first = (change: () => void) => {
    change();
    setPage(1);
  };
  return (
    <Card title={T.audit.title} wide>
      <p class="hint">{T.audit.text}</p>
      <div class="filters">
        <Text label={T.account.name} name="username" value={username} set={(v) => first(() => setUsername(v))} />
        <Tick label={T.audit.refused} on={refused} set={(v) => first(() => setRefused(v))} />
      </div>
      <Loaded of={read}>
        {(l) => (
          <>
            <Table
              label={T.audit.title}
              rows={l.data}
              id={(r) => r.id}
              empty={<p>{T.audit.none}</p>}
              columns={[
                { head: T.events.when, cell: (r) => <Time at={r.datetime} /> },
                { head: T.account.name, cell: (r) => (r.username ? plain(r.username) : T.none) },
                { head: T.queries.from, cell: (r) => r.ip ?? T.none },
                { head: T.audit.token, number: true, cell: (r) => r.token_id ?? T.none },
                { head: T.audit.asked, cell: (r) => <code>{plain(asked(r.action, r.path))}</code> },
                { head: T.audit.answer, number: true, cell: (r) => <span class={r.status >= 400 ? "problem" : undefined}>{r.status}</span> },
              ]}
            />
            <Pager page={page} pages={l.pages} set={setPage} />
          </>
        )}
      </Loaded>
    </Card>
  );
}

// asked is a request's method and path, or an operator's command and whom it was about.
function asked(action: string, path: string): string {
  const [method, operation] = action.split(" /", 2);
  return operation === undefined ? `${action} ${path}` : `${method} ${path.startsWith("/") ? path : `/${operation} ${path}`}`;
}
