// Connection pools, which let many clients share a few connections to PostgreSQL.
import { useState } from "preact/hooks";
import type { PoolView } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { offered, poolEndpoint, useLogical, usePools } from "./db";
import { plain } from "./format";
import { T } from "./text";
import { Choice, FormDialog, Items, Text } from "./ui";
import { may } from "./who";

const at = "/v4/databases/postgresql/instances/{instanceId}/connection-pools";

export function Pools(props: Props) {
  const { db, path, reader } = props;
  const read = usePools(props);
  const done = () => {
    read.read();
    reader.read();
  };
  const endpoint = poolEndpoint(db);
  return (
    <Items
      title={T.pools.title}
      read={read}
      id={(p) => p.label}
      name={(p) => p.label}
      empty={T.pools.none}
      columns={[
        { head: T.databases.label, by: (p) => p.label, cell: (p) => plain(p.label) },
        { head: T.pools.database, by: (p) => p.database, cell: (p) => plain(p.database) },
        { head: T.pools.mode, by: (p) => p.mode, cell: (p) => T.pools.modes[p.mode] },
        { head: T.pools.size, number: true, by: (p) => p.size, cell: (p) => String(p.size) },
        { head: T.pools.user, cell: (p) => (p.username ? plain(p.username) : T.pools.anyone) },
        { head: T.pools.prepared, cell: (p) => (p.prepared_statements ? T.pools.can : T.pools.cannot) },
      ]}
      can={may.change(db.id)}
      add={T.pools.add}
      form={(of, close) => <PoolForm {...props} pool={of} close={close} done={done} />}
      remove={{ title: T.pools.deleteTitle, text: T.pools.deleteText, run: (p) => call(`DELETE ${at}/{poolLabel}`, { path: { ...path, poolLabel: p.label } }).then(() => reader.read()) }}
    >
      <p class="hint">
        {T.pools.text} {endpoint && T.pools.at(plain(endpoint.address), endpoint.port)}
      </p>
    </Items>
  );
}

function PoolForm({ pool, close, done, ...props }: Props & { pool?: PoolView; close: () => void; done: () => void }) {
  const { db, path } = props;
  const [label, setLabel] = useState(pool?.label ?? "");
  const [database, setDatabase] = useState(pool?.database ?? db.database_name);
  const [mode, setMode] = useState<string>(pool?.mode ?? "transaction");
  const [size, setSize] = useState(String(pool?.size ?? 10));
  const [username, setUsername] = useState(pool?.username ?? "");
  const names = useLogical(props);
  const save = async () => {
    const body = { database, mode: mode as PoolView["mode"], size: Number(size), username: username || null };
    await (pool ? call(`PUT ${at}/{poolLabel}`, { path: { ...path, poolLabel: pool.label }, body }) : call(`POST ${at}`, { path, body: { label, ...body } }));
    done();
  };
  return (
    <FormDialog title={pool ? T.contacts.changeOf(plain(pool.label)) : T.pools.add} fields={["label", "database", "mode", "size", "username"]} close={close} save={save} saved={T.settings.asked}>
      {(failure) => (
        <>
          {!pool && <Text label={T.databases.label} name="label" failure={failure} hint={T.pools.labelHint} value={label} set={setLabel} />}
          <Choice label={T.pools.database} name="database" failure={failure} value={database} set={setDatabase} of={offered(db, names.data)} />
          <Choice label={T.pools.mode} name="mode" failure={failure} value={mode} set={setMode} of={Object.entries(T.pools.modes)} />
          <Text label={T.pools.size} name="size" type="number" failure={failure} hint={T.pools.sizeHint} value={size} set={setSize} />
          <Text label={T.pools.user} name="username" failure={failure} hint={T.pools.userHint} value={username} set={setUsername} />
        </>
      )}
    </FormDialog>
  );
}
