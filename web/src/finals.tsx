// Finals: the last backups of deleted databases.
import { useState } from "preact/hooks";
import type { FinalView } from "./api";
import { call } from "./call";
import { engineName, isEngine, pageOf } from "./db";
import { bytes, plain } from "./format";
import { useReader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { FormDialog, Items, Text, Time } from "./ui";
import { may } from "./who";

// Finals shows nothing while there is none.
export function Finals() {
  const read = useReader(may.create() ? "finals" : null, (background) => call("GET /v4/databases/final-backups", { background }).then((found) => found.data));
  if (!read.data?.length) return null;
  return (
    <Items
      title={T.finals.title}
      read={read}
      id={(f) => f.id}
      name={(f) => f.label}
      columns={[
        { head: T.databases.label, by: (f) => f.label, cell: (f) => plain(f.label) },
        { head: T.databases.engine, by: (f) => engineName(f), cell: engineName },
        { head: T.backups.taken, by: (f) => f.created, cell: (f) => <Time at={f.created} /> },
        { head: T.backups.size, by: (f) => f.size_bytes, number: true, cell: (f) => bytes(f.size_bytes) },
        { head: T.finals.until, by: (f) => f.expires, cell: (f) => <Time at={f.expires} /> },
      ]}
      can
      more={[{ text: T.backups.fork, label: (f) => T.finals.forkOf(f.label), dialog: (f, close) => <Fork of={f} close={close} /> }]}
      remove={{ title: T.finals.deleteTitle, text: T.finals.deleteText, run: (f) => call("DELETE /v4/databases/final-backups/{databaseId}", { path: { databaseId: f.id } }) }}
    />
  );
}

function Fork({ of, close }: { of: FinalView; close: () => void }) {
  const [label, setLabel] = useState(of.label);
  const save = async () => {
    if (!isEngine(of.engine)) return;
    const body = { label, region: of.region, type: of.type, engine: `${of.engine}/${of.version}`, allow_list: [], fork: { source: of.id } };
    go(pageOf(await call(`POST /v4/databases/${of.engine}/instances`, { body })));
  };
  return (
    <FormDialog title={T.finals.forkOf(plain(of.label))} action={T.backups.fork} fields={["label"]} close={close} save={save} saved={T.backups.forking}>
      {(failure) => (
        <>
          <p>{T.finals.forkText}</p>
          <Text label={T.backups.newLabel} name="label" failure={failure} hint={T.create.labelHint} value={label} set={setLabel} />
        </>
      )}
    </FormDialog>
  );
}
