// Access: which addresses may connect.
import { useState } from "preact/hooks";
import { call } from "./call";
import { lines, network, noted, notesOf } from "./create";
import type { Props } from "./database";
import { useReader } from "./live";
import { Inside } from "./logical";
import { T } from "./text";
import { Alert, Button, Card, Field, Problems, useAction } from "./ui";
import { may } from "./who";

export function Access(props: Props) {
  return (
    <>
      <AllowList {...props} />
      <Inside {...props} />
    </>
  );
}

function AllowList({ db, path, reader }: Props) {
  const [edited, setEdited] = useState<string>();
  const doing = useAction();
  const mine = useReader("mine", (background) => call("GET /v4/profile/logins", { query: { page_size: 25 }, background }));
  const address = mine.data?.data.find((l) => l.status === "successful")?.ip;
  const text = edited ?? noted(db.allow_list, db.allow_list_notes);
  const wanted = lines(text);
  const notes = notesOf(text);
  const noting = wanted.filter((a) => db.allow_list.includes(a) && notes[a] !== db.allow_list_notes[a]);
  const added = wanted.filter((a) => !db.allow_list.includes(a));
  const gone = db.allow_list.filter((a) => !wanted.includes(a));
  const can = may.change(db.id);
  const save = async (e: Event) => {
    e.preventDefault();
    const done = await doing.run(() => call(`PUT /v4/databases/${db.engine}/instances/{instanceId}`, { path, body: { allow_list: wanted, allow_list_notes: notes } }), T.access.saved);
    if (done) {
      setEdited(undefined);
      reader.read();
    }
  };
  return (
    <Card title={T.access.title} wide>
      {db.allow_list.length === 0 && <Alert kind="warn">{T.database.closed}</Alert>}
      <p>{T.access.text}</p>
      <form onSubmit={(e) => void save(e)}>
        <Field label={T.create.allow} name="allow_list" failure={doing.failure} hint={T.create.allowHint}>
          {(p) => <textarea {...p} rows={8} value={text} readOnly={!can} spellcheck={false} onInput={(e) => setEdited(e.currentTarget.value)} />}
        </Field>
        {added.length + gone.length + noting.length > 0 && (
          <ul class="diff" aria-label={T.access.changes}>
            {added.map((a) => (
              <li key={"+" + a} class="added">
                {T.access.adds(a)}
              </li>
            ))}
            {gone.map((a) => (
              <li key={"-" + a} class="gone">
                {T.access.removes(a)}
              </li>
            ))}
            {noting.map((a) => (
              <li key={"#" + a}>{T.access.notes(a, notes[a] ?? T.none)}</li>
            ))}
          </ul>
        )}
        <Problems failure={doing.failure} fields={["allow_list"]} />
        {can ? (
          <div class="actions">
            <Button submit kind="main" disabled={doing.busy || added.length + gone.length + noting.length === 0}>
              {T.save}
            </Button>
            {address && !wanted.includes(network(address)) && <Button onClick={() => setEdited([text.trimEnd(), network(address)].filter(Boolean).join("\n"))}>{T.create.addMine(address)}</Button>}
            {edited !== undefined && <Button onClick={() => setEdited(undefined)}>{T.cancel}</Button>}
          </div>
        ) : (
          <p class="hint">{T.readOnly}</p>
        )}
      </form>
    </Card>
  );
}
