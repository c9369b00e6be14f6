// The account: users and grants, tokens, applications, log-ins.
import { useState } from "preact/hooks";
import type { GrantsView, TokenView, UserView } from "./api";
import { call, whole } from "./call";
import { Clients, Regions, Usage } from "./clients";
import { plain, when } from "./format";
import { useReader } from "./live";
import { Security } from "./security";
import { T } from "./text";
import { Alert, Button, Card, Code, Danger, Dialog, Field, Loaded, Page, Problems, Status, Sure, Table, Tabs, Time, useAction } from "./ui";
import { may, profile } from "./who";

const tabs = ["", "security", "tokens", "apps", "clients", "logins", "usage", "regions"] as const;

export function Account({ tab }: { tab: string }) {
  const at = (t: string) => "/console/account" + (t && "/" + t);
  return (
    <Page title={T.account.title}>
      <Tabs label={T.account.parts} at={at(tab)} all={tabs.map((t) => [at(t), T.account.tab[t]])} />
      {tab === "" ? <Users /> : tab === "security" ? <Security /> : tab === "tokens" ? <Tokens /> : tab === "apps" ? <Apps /> : tab === "logins" ? <Logins /> : tab === "clients" ? <Clients /> : tab === "usage" ? <Usage /> : tab === "regions" ? <Regions /> : <Alert>{T.gone}</Alert>}
    </Page>
  );
}

function Users() {
  const [open, setOpen] = useState<{ kind: "add" } | { kind: "grants" | "delete"; user: UserView }>();
  const read = useReader(may.account() ? "users" : null, (background) => whole((page) => call("GET /v4/account/users", { query: { page, page_size: 500 }, background })));
  const close = () => setOpen(undefined);
  if (!may.account()) return <Alert kind="warn">{T.forbidden}</Alert>;
  return (
    <Card title={T.account.users} wide actions={<Button kind="main" onClick={() => setOpen({ kind: "add" })}>{T.account.addUser}</Button>}>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.account.users}
            rows={all}
            id={(u) => u.username}
            columns={[
              { head: T.account.name, by: (u) => u.username, cell: (u) => plain(u.username) },
              { head: T.contacts.email, by: (u) => u.email, cell: (u) => plain(u.email) },
              { head: T.account.rights, by: (u) => Number(u.restricted), cell: (u) => (u.restricted ? T.account.restricted : T.account.all) },
              { head: T.factor.title, by: (u) => Number(u.tfa_enabled), cell: (u) => (u.tfa_enabled ? T.factor.has : T.none) },
              { head: T.account.password, cell: (u) => (u.password_created ? <Time at={u.password_created} relative /> : T.account.noPassword) },
              { head: T.account.lastLogin, cell: (u) => <Time at={u.last_login?.login_datetime} relative /> },
              {
                head: T.act,
                cell: (u) => (
                  <div class="actions">
                    {u.restricted && (
                      <Button label={T.account.grantsOf(u.username)} onClick={() => setOpen({ kind: "grants", user: u })}>
                        {T.account.grants}
                      </Button>
                    )}
                    {u.username !== profile.value?.username && (
                      <Button label={T.contacts.deleteOf(u.username)} onClick={() => setOpen({ kind: "delete", user: u })}>
                        {T.delete}
                      </Button>
                    )}
                  </div>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {open?.kind === "add" && <AddUser close={close} done={() => read.read()} />}
      {open?.kind === "grants" && <Grants user={open.user} close={close} />}
      {open?.kind === "delete" && (
        <Danger
          title={T.account.deleteUser}
          text={<p>{T.account.deleteUserText}</p>}
          name={open.user.username}
          action={T.delete}
          close={close}
          run={async () => {
            await call("DELETE /v4/account/users/{username}", { path: { username: open.user.username } });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function AddUser({ close, done }: { close: () => void; done: () => void }) {
  const [username, setUsername] = useState("");
  const [email, setEmail] = useState("");
  const [restricted, setRestricted] = useState(true);
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (await doing.run(() => call("POST /v4/account/users", { body: { username, email, restricted } }), T.account.added)) {
      done();
      close();
    }
  };
  return (
    <Dialog title={T.account.addUser} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <Field label={T.account.name} name="username" failure={doing.failure}>
          {(p) => <input {...p} value={username} autocomplete="off" onInput={(e) => setUsername(e.currentTarget.value)} />}
        </Field>
        <Field label={T.contacts.email} name="email" failure={doing.failure}>
          {(p) => <input {...p} type="email" value={email} autocomplete="off" onInput={(e) => setEmail(e.currentTarget.value)} />}
        </Field>
        <p class="check">
          <label>
            <input type="checkbox" checked={restricted} onChange={(e) => setRestricted(e.currentTarget.checked)} /> {T.account.restrict}
          </label>
        </p>
        <p class="hint">{T.account.linkHint(username || "NAME")}</p>
        <Problems failure={doing.failure} fields={["username", "email"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {T.account.addUser}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
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

type Permission = "read_only" | "read_write" | null;

function GrantsForm({ grants, path, close }: { grants: GrantsView; path: { username: string }; close: () => void }) {
  const [add, setAdd] = useState(grants.global.add_databases);
  const [of, setOf] = useState<Record<number, Permission>>(Object.fromEntries(grants.database.map((d) => [d.id, d.permissions])));
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const database = grants.database.map((d) => ({ id: d.id, permissions: of[d.id] ?? null }));
    if (await doing.run(() => call("PUT /v4/account/users/{username}/grants", { path, body: { global: { add_databases: add }, database } }), T.settings.saved)) close();
  };
  return (
    <form onSubmit={(e) => void submit(e)}>
      <p class="check">
        <label>
          <input type="checkbox" checked={add} onChange={(e) => setAdd(e.currentTarget.checked)} /> {T.account.addDatabases}
        </label>
      </p>
      {grants.database.map((d) => (
        <Field key={d.id} label={plain(d.label)} name={"database." + d.id}>
          {(p) => (
            <select {...p} value={of[d.id] ?? ""} onChange={(e) => setOf({ ...of, [d.id]: (e.currentTarget.value || null) as Permission })}>
              <option value="">{T.account.nothing}</option>
              <option value="read_only">{T.account.see}</option>
              <option value="read_write">{T.account.seeAndChange}</option>
            </select>
          )}
        </Field>
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
      {made && (
        <Alert kind="good">
          <p>{T.account.once}</p>
          <Code what={T.account.token} text={made.token} />
          <Button onClick={() => setMade(undefined)}>{T.account.haveIt}</Button>
        </Alert>
      )}
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
  const doing = useAction();
  const text = areas.filter((a) => scopes[a]).map((a) => `${a}:${scopes[a]}`).join(" ");
  const submit = async (e: Event) => {
    e.preventDefault();
    const expiry = days === "" ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString().slice(0, 19);
    await doing.run(async () => {
      done(await call("POST /v4/profile/tokens", { body: { label, scopes: text, expiry } }));
      close();
    });
  };
  return (
    <Dialog title={T.account.addToken} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <Field label={T.databases.label} name="label" failure={doing.failure}>
          {(p) => <input {...p} value={label} required autocomplete="off" onInput={(e) => setLabel(e.currentTarget.value)} />}
        </Field>
        {areas.map((a) => (
          <Field key={a} label={T.account.areas[a]} name="scopes" failure={doing.failure}>
            {(p) => (
              <select {...p} value={scopes[a]} onChange={(e) => setScopes({ ...scopes, [a]: e.currentTarget.value })}>
                <option value="">{T.account.nothing}</option>
                <option value="read_only">{T.account.see}</option>
                <option value="read_write">{T.account.seeAndChange}</option>
              </select>
            )}
          </Field>
        ))}
        <Field label={T.account.ends} name="expiry" failure={doing.failure}>
          {(p) => (
            <select {...p} value={days} onChange={(e) => setDays(e.currentTarget.value)}>
              {["1", "30", "90", "365"].map((d) => (
                <option key={d} value={d}>
                  {T.account.inDays(Number(d))}
                </option>
              ))}
              <option value="">{T.account.never}</option>
            </select>
          )}
        </Field>
        <Problems failure={doing.failure} fields={["label", "scopes", "expiry"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy || text === ""}>
            {T.account.addToken}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Apps() {
  const [ending, setEnding] = useState<{ id: number; label: string }>();
  const read = useReader("apps", (background) => whole((page) => call("GET /v4/profile/apps", { query: { page, page_size: 500 }, background })));
  return (
    <Card title={T.account.tab.apps} wide>
      <p class="hint">{T.account.appsText}</p>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.account.tab.apps}
            rows={all.filter((a) => when(a.expiry).getTime() > Date.now())}
            id={(a) => a.id}
            empty={<p>{T.account.noApps}</p>}
            columns={[
              { head: T.databases.label, by: (a) => a.label, cell: (a) => plain(a.label) },
              { head: T.account.scopes, cell: (a) => (a.scopes === "*" ? T.account.everything : a.scopes) },
              { head: T.account.since, by: (a) => a.created, cell: (a) => <Time at={a.created} relative /> },
              { head: T.account.ends, by: (a) => a.expiry, cell: (a) => <Time at={a.expiry} /> },
              { head: T.act, cell: (a) => <Button label={T.account.endOf(a.label)} onClick={() => setEnding(a)}>{T.account.end}</Button> },
            ]}
          />
        )}
      </Loaded>
      {ending && (
        <Sure
          title={T.account.endTitle}
          text={<p>{T.account.endText(plain(ending.label))}</p>}
          action={T.account.end}
          kind="danger"
          close={() => setEnding(undefined)}
          run={async () => {
            await call("DELETE /v4/profile/apps/{appId}", { path: { appId: ending.id } });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function Logins() {
  const all = may.account();
  const read = useReader("logins", (background) => (all ? call("GET /v4/account/logins", { query: { page_size: 100 }, background }) : call("GET /v4/profile/logins", { query: { page_size: 100 }, background })));
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
