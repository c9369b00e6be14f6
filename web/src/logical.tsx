// What is inside a database server: logical databases, users and extensions.
import { useState } from "preact/hooks";
import type { ExtensionView, GrantedView, LoginUserView } from "./api";
import { call, whole } from "./call";
import type { Props } from "./database";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Button, Card, Code, Danger, Dialog, Field, Loaded, Problems, say, Sure, Table, useAction } from "./ui";
import { may } from "./who";

type Open = { kind: "add" | "user" } | { kind: "drop"; name: string } | { kind: "grants" | "reset" | "remove"; user: LoginUserView };

export function Inside(props: Props) {
  const { db, path } = props;
  const [open, setOpen] = useState<Open>();
  const [made, setMade] = useState<{ username: string; password: string }>();
  const at = `/v4/databases/${db.engine}/instances/{instanceId}` as const;
  const names = useReader(`logical/${db.engine}/${db.id}`, (background) => whole((page) => call(`GET ${at}/databases`, { path, query: { page, page_size: 500 }, background })));
  const users = useReader(`users/${db.engine}/${db.id}`, (background) => whole((page) => call(`GET ${at}/users`, { path, query: { page, page_size: 500 }, background })));
  const can = may.change(db.id);
  const close = () => setOpen(undefined);
  const again = () => {
    names.read();
    users.read();
  };
  const offered = (names.data ?? []).map((n) => n.name);
  return (
    <>
      <Card title={T.logical.title} wide actions={can && <Button onClick={() => setOpen({ kind: "add" })}>{T.logical.add}</Button>}>
        <Loaded of={names}>
          {(all) => (
            <Table
              label={T.logical.title}
              rows={all}
              id={(d) => d.name}
              columns={[
                { head: T.logical.name, by: (d) => d.name, cell: (d) => plain(d.name) },
                { head: T.logical.owner, cell: (d) => plain(d.owner ?? T.none) },
                { head: T.logical.encoding, cell: (d) => plain(`${d.encoding}, ${d.collation}`) },
                { head: T.act, cell: (d) => can && d.name !== db.database_name && <Button label={T.contacts.deleteOf(d.name)} onClick={() => setOpen({ kind: "drop", name: d.name })}>{T.delete}</Button> },
              ]}
            />
          )}
        </Loaded>
      </Card>
      <Card title={T.logical.users} wide actions={can && <Button onClick={() => setOpen({ kind: "user" })}>{T.logical.addUser}</Button>}>
        {made && (
          <Alert kind="good">
            <p>{T.logical.once(plain(made.username))}</p>
            <Code what={T.account.password} text={made.password} />
            <Button onClick={() => setMade(undefined)}>{T.account.haveIt}</Button>
          </Alert>
        )}
        <Loaded of={users}>
          {(all) => (
            <Table
              label={T.logical.users}
              rows={all}
              id={(u) => u.username}
              empty={<p>{T.logical.noUsers}</p>}
              columns={[
                { head: T.account.name, by: (u) => u.username, cell: (u) => plain(u.username) },
                { head: T.logical.rights, cell: (u) => (u.grants.length === 0 ? T.none : u.grants.map((g) => T.logical.grant(plain(g.database), T.logical.privileges[g.privilege] ?? g.privilege)).join(", ")) },
                {
                  head: T.act,
                  cell: (u) =>
                    can && (
                      <div class="actions">
                        <Button label={T.account.grantsOf(u.username)} onClick={() => setOpen({ kind: "grants", user: u })}>
                          {T.account.grants}
                        </Button>
                        <Button label={T.logical.resetOf(u.username)} onClick={() => setOpen({ kind: "reset", user: u })}>
                          {T.logical.reset}
                        </Button>
                        <Button label={T.contacts.deleteOf(u.username)} onClick={() => setOpen({ kind: "remove", user: u })}>
                          {T.delete}
                        </Button>
                      </div>
                    ),
                },
              ]}
            />
          )}
        </Loaded>
      </Card>
      {db.engine === "postgresql" && <Extensions {...props} />}
      {open?.kind === "add" && <AddDatabase {...props} close={close} done={again} />}
      {(open?.kind === "user" || open?.kind === "grants") && (
        <UserForm
          {...props}
          user={open.kind === "grants" ? open.user : undefined}
          databases={offered}
          close={close}
          done={(m) => {
            setMade(m);
            again();
          }}
        />
      )}
      {open?.kind === "drop" && (
        <Danger
          title={T.logical.dropTitle}
          text={<p>{T.logical.dropText}</p>}
          name={open.name}
          action={T.delete}
          close={close}
          run={async () => {
            await call(`DELETE ${at}/databases/{databaseName}`, { path: { ...path, databaseName: open.name } });
            again();
          }}
        />
      )}
      {open?.kind === "remove" && (
        <Danger
          title={T.account.deleteUser}
          text={<p>{T.logical.removeText}</p>}
          name={open.user.username}
          action={T.delete}
          close={close}
          run={async () => {
            await call(`DELETE ${at}/users/{databaseUser}`, { path: { ...path, databaseUser: open.user.username } });
            again();
          }}
        />
      )}
      {open?.kind === "reset" && (
        <Sure
          title={T.logical.resetOf(open.user.username)}
          text={<p>{T.logical.resetText}</p>}
          action={T.logical.reset}
          close={close}
          run={async () => setMade(await call(`POST ${at}/users/{databaseUser}/credentials/reset`, { path: { ...path, databaseUser: open.user.username } }))}
        />
      )}
    </>
  );
}

function AddDatabase({ db, path, close, done }: Props & { close: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (await doing.run(() => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/databases`, { path, body: { name } }), T.settings.saved)) {
      done();
      close();
    }
  };
  return (
    <Dialog title={T.logical.add} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <Field label={T.logical.name} name="name" failure={doing.failure}>
          {(p) => <input {...p} value={name} autocomplete="off" spellcheck={false} onInput={(e) => setName(e.currentTarget.value)} />}
        </Field>
        <Problems failure={doing.failure} fields={["name"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {T.logical.add}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

// UserForm adds a user, or changes what one may.
function UserForm({ db, path, user, databases, close, done }: Props & { user?: LoginUserView; databases: string[]; close: () => void; done: (made?: { username: string; password: string }) => void }) {
  const [username, setUsername] = useState(user?.username ?? "");
  const [chosen, setChosen] = useState<Record<string, string>>(Object.fromEntries((user?.grants ?? []).map((g) => [g.database, g.privilege])));
  const doing = useAction();
  const at = `/v4/databases/${db.engine}/instances/{instanceId}/users` as const;
  const submit = async (e: Event) => {
    e.preventDefault();
    const grants = Object.entries(chosen)
      .filter(([, privilege]) => privilege !== "")
      .map(([database, privilege]) => ({ database, privilege }) as GrantedView);
    const finished = await doing.run(async () => {
      if (user) {
        await call(`PUT ${at}/{databaseUser}`, { path: { ...path, databaseUser: user.username }, body: { grants } });
        done();
      } else {
        done(await call(`POST ${at}`, { path, body: { username, grants } }));
      }
    });
    if (finished) close();
  };
  return (
    <Dialog title={user ? T.account.grantsOf(plain(user.username)) : T.logical.addUser} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        {!user && (
          <Field label={T.account.name} name="username" failure={doing.failure}>
            {(p) => <input {...p} value={username} autocomplete="off" spellcheck={false} onInput={(e) => setUsername(e.currentTarget.value)} />}
          </Field>
        )}
        {databases.map((d) => (
          <Field key={d} label={plain(d)} name={"grants." + d} failure={doing.failure}>
            {(p) => (
              <select {...p} value={chosen[d] ?? ""} onChange={(e) => setChosen({ ...chosen, [d]: e.currentTarget.value })}>
                <option value="">{T.account.nothing}</option>
                {Object.entries(T.logical.privileges).map(([value, text]) => (
                  <option key={value} value={value}>
                    {text}
                  </option>
                ))}
              </select>
            )}
          </Field>
        ))}
        <Problems failure={doing.failure} fields={["username"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {user ? T.save : T.logical.addUser}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Extensions({ db, path }: Props) {
  const [database, setDatabase] = useState(db.database_name);
  const [removing, setRemoving] = useState<string>();
  const [adding, setAdding] = useState("");
  const doing = useAction();
  const can = may.change(db.id);
  const at = "/v4/databases/postgresql/instances/{instanceId}/extensions" as const;
  const names = useReader(`logical/${db.engine}/${db.id}`, (background) => whole((page) => call("GET /v4/databases/postgresql/instances/{instanceId}/databases", { path, query: { page, page_size: 500 }, background })));
  const read = useReader(`extensions/${db.id}/${database}`, (background) => whole((page) => call(`GET ${at}`, { path, query: { page, page_size: 500, database }, background })));
  const all = read.data ?? [];
  const installed = all.filter((e) => e.installed_version !== null);
  const rest = all.filter((e) => e.installed_version === null && e.offered);
  const add = async (e: Event) => {
    e.preventDefault();
    if (await doing.run(() => call(`POST ${at}`, { path, body: { name: adding, database } }), T.settings.saved)) {
      setAdding("");
      read.read();
    }
  };
  const update = (x: ExtensionView) => doing.run(() => call(`PUT ${at}/{extensionName}`, { path: { ...path, extensionName: x.name }, body: { database } }), T.settings.saved).then(() => read.read());
  return (
    <Card title={T.extensions.title} wide>
      <div class="filters">
        <Field label={T.extensions.of} name="database">
          {(p) => (
            <select {...p} value={database} onChange={(e) => setDatabase(e.currentTarget.value)}>
              {[...new Set([db.database_name, ...(names.data ?? []).map((n) => n.name)])].map((n) => (
                <option key={n} value={n}>
                  {plain(n)}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <Loaded of={read}>
        {() => (
          <Table
            label={T.extensions.title}
            rows={installed}
            id={(x) => x.name}
            empty={<p>{T.extensions.none}</p>}
            columns={[
              { head: T.logical.name, by: (x) => x.name, cell: (x) => plain(x.name) },
              { head: T.database.version, cell: (x) => plain(x.installed_version ?? "") },
              { head: T.extensions.what, cell: (x) => plain(x.comment) },
              {
                head: T.act,
                cell: (x) =>
                  can &&
                  x.offered && (
                    <div class="actions">
                      {x.installed_version !== x.version && (
                        <Button disabled={doing.busy} label={T.extensions.updateOf(x.name, x.version)} onClick={() => void update(x)}>
                          {T.extensions.update}
                        </Button>
                      )}
                      <Button label={T.contacts.deleteOf(x.name)} onClick={() => setRemoving(x.name)}>
                        {T.delete}
                      </Button>
                    </div>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {can && rest.length > 0 && (
        <form onSubmit={(e) => void add(e)}>
          <Field label={T.extensions.add} name="name" failure={doing.failure} hint={plain(rest.find((x) => x.name === adding)?.comment ?? "") || undefined}>
            {(p) => (
              <select {...p} value={adding} onChange={(e) => setAdding(e.currentTarget.value)}>
                <option value="">{T.extensions.choose}</option>
                {rest.map((x) => (
                  <option key={x.name} value={x.name}>
                    {x.name} {x.version}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Problems failure={doing.failure} fields={["name"]} />
          <Button submit disabled={doing.busy || adding === ""}>
            {T.extensions.add}
          </Button>
        </form>
      )}
      {removing && (
        <Danger
          title={T.extensions.removeTitle}
          text={<p>{T.extensions.removeText}</p>}
          name={removing}
          action={T.delete}
          close={() => setRemoving(undefined)}
          run={async () => {
            await call(`DELETE ${at}/{extensionName}`, { path: { ...path, extensionName: removing }, query: { database } });
            say(T.extensions.removed);
            read.read();
          }}
        />
      )}
    </Card>
  );
}
