// What is inside a database server: logical databases, users and extensions.
import { useState } from "preact/hooks";
import type { ExtensionView, GrantedView, LoginUserView } from "./api";
import { call, whole } from "./call";
import type { Props } from "./database";
import { offered, useLogical } from "./db";
import { plain } from "./format";
import { Imports } from "./imports";
import { useReader } from "./live";
import { Pools } from "./pools";
import { T } from "./text";
import { Button, Card, Choice, Danger, FormDialog, Items, Loaded, Once, Problems, say, Sure, Table, Text, useAction } from "./ui";
import { may } from "./who";

export function Inside(props: Props) {
  const { db, path } = props;
  const [made, setMade] = useState<{ username: string; password: string }>();
  const at = `/v4/databases/${db.engine}/instances/{instanceId}` as const;
  const names = useLogical(props);
  const users = useReader(`users/${db.engine}/${db.id}`, (background) => whole((page) => call(`GET ${at}/users`, { path, query: { page, page_size: 500 }, background })));
  const can = may.change(db.id);
  return (
    <>
      <Items
        title={T.logical.title}
        read={names}
        id={(d) => d.name}
        name={(d) => d.name}
        columns={[
          { head: T.logical.name, by: (d) => d.name, cell: (d) => plain(d.name) },
          { head: T.logical.owner, cell: (d) => plain(d.owner ?? T.none) },
          { head: T.logical.encoding, cell: (d) => plain(`${d.encoding}, ${d.collation}`) },
        ]}
        can={can}
        add={T.logical.add}
        change={false}
        form={(_, close) => <AddDatabase {...props} close={close} done={() => names.read()} />}
        remove={{
          title: T.logical.dropTitle, text: T.logical.dropText, when: (d) => d.name !== db.database_name,
          run: (d) => call(`DELETE ${at}/databases/{databaseName}`, { path: { ...path, databaseName: d.name } }).then(() => users.read()),
        }}
      />
      <Items
        title={T.logical.users}
        read={users}
        id={(u) => u.username}
        name={(u) => u.username}
        empty={T.logical.noUsers}
        columns={[
          { head: T.account.name, by: (u) => u.username, cell: (u) => plain(u.username) },
          { head: T.logical.rights, cell: (u) => (u.grants.length === 0 ? T.none : u.grants.map((g) => T.logical.grant(plain(g.database), T.logical.privileges[g.privilege] ?? g.privilege)).join(", ")) },
        ]}
        can={can}
        add={T.logical.addUser}
        change={false}
        form={(_, close) => (
          <UserForm
            {...props}
            close={close}
            done={(m) => {
              setMade(m);
              users.read();
            }}
          />
        )}
        more={[
          { text: T.account.grants, label: (u) => T.account.grantsOf(u.username), dialog: (u, close) => <UserForm {...props} user={u} close={close} done={() => users.read()} /> },
          {
            text: T.logical.reset,
            label: (u) => T.logical.resetOf(u.username),
            dialog: (u, close) => (
              <Sure
                title={T.logical.resetOf(u.username)}
                text={<p>{T.logical.resetText}</p>}
                action={T.logical.reset}
                close={close}
                run={async () => setMade(await call(`POST ${at}/users/{databaseUser}/credentials/reset`, { path: { ...path, databaseUser: u.username } }))}
              />
            ),
          },
        ]}
        remove={{ title: T.account.deleteUser, text: T.logical.removeText, run: (u) => call(`DELETE ${at}/users/{databaseUser}`, { path: { ...path, databaseUser: u.username } }) }}
      >
        {made && <Once text={T.logical.once(plain(made.username))} secrets={[[T.account.password, made.password]]} close={() => setMade(undefined)} />}
      </Items>
      <Imports {...props} done={() => names.read()} />
      {db.engine === "postgresql" && <Pools {...props} />}
      {db.engine === "postgresql" && <Extensions {...props} />}
    </>
  );
}

function AddDatabase({ db, path, close, done }: Props & { close: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const save = () => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/databases`, { path, body: { name } }).then(done);
  return (
    <FormDialog title={T.logical.add} action={T.logical.add} fields={["name"]} close={close} save={save} saved={T.settings.saved}>
      {(failure) => <Text label={T.logical.name} name="name" failure={failure} value={name} set={setName} />}
    </FormDialog>
  );
}

// UserForm adds a user, or changes what one may.
function UserForm({ user, close, done, ...props }: Props & { user?: LoginUserView; close: () => void; done: (made?: { username: string; password: string }) => void }) {
  const { db, path } = props;
  const [username, setUsername] = useState(user?.username ?? "");
  const [chosen, setChosen] = useState<Record<string, string>>(Object.fromEntries((user?.grants ?? []).map((g) => [g.database, g.privilege])));
  const names = useLogical(props);
  const at = `/v4/databases/${db.engine}/instances/{instanceId}/users` as const;
  const save = async () => {
    const grants = Object.entries(chosen)
      .filter(([, privilege]) => privilege !== "")
      .map(([database, privilege]) => ({ database, privilege }) as GrantedView);
    if (user) {
      await call(`PUT ${at}/{databaseUser}`, { path: { ...path, databaseUser: user.username }, body: { grants } });
      done();
    } else {
      done(await call(`POST ${at}`, { path, body: { username, grants } }));
    }
  };
  return (
    <FormDialog title={user ? T.account.grantsOf(plain(user.username)) : T.logical.addUser} action={user ? T.save : T.logical.addUser} fields={["username"]} close={close} save={save}>
      {(failure) => (
        <>
          {!user && <Text label={T.account.name} name="username" failure={failure} value={username} set={setUsername} />}
          {offered(db, names.data).map(([d]) => (
            <Choice key={d} label={plain(d)} name={"grants." + d} failure={failure} value={chosen[d] ?? ""} set={(to) => setChosen({ ...chosen, [d]: to })} of={[["", T.account.nothing], ...Object.entries(T.logical.privileges)]} />
          ))}
        </>
      )}
    </FormDialog>
  );
}

function Extensions(props: Props) {
  const { db, path } = props;
  const [database, setDatabase] = useState(db.database_name);
  const [removing, setRemoving] = useState<string>();
  const [adding, setAdding] = useState("");
  const doing = useAction();
  const can = may.change(db.id);
  const at = "/v4/databases/postgresql/instances/{instanceId}/extensions" as const;
  const names = useLogical(props);
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
        <Choice label={T.extensions.of} name="database" value={database} set={setDatabase} of={offered(db, names.data)} />
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
          <Choice
            label={T.extensions.add}
            name="name"
            failure={doing.failure}
            hint={plain(rest.find((x) => x.name === adding)?.comment ?? "") || undefined}
            value={adding}
            set={setAdding}
            of={[["", T.extensions.choose], ...rest.map((x) => [x.name, `${x.name} ${x.version}`] as const)]}
          />
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
