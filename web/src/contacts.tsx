// Contacts: who is told of issues.
import { useState } from "preact/hooks";
import type { ContactView } from "./api";
import { call, whole } from "./call";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Card, Danger, Dialog, Field, Loaded, Page, Problems, Table, useAction } from "./ui";
import { may } from "./who";

export function Contacts() {
  const [open, setOpen] = useState<{ kind: "form"; contact?: ContactView } | { kind: "delete"; contact: ContactView }>();
  const read = useReader("contacts", (background) => whole((page) => call("GET /v4/managed/contacts", { query: { page, page_size: 500 }, background })));
  const close = () => setOpen(undefined);
  return (
    <Page title={T.contacts.title} actions={may.managed() && <Button kind="main" onClick={() => setOpen({ kind: "form" })}>{T.contacts.add}</Button>}>
      <Card title={T.contacts.all} wide>
        <Loaded of={read}>
          {(all) => (
            <Table
              label={T.contacts.title}
              rows={all}
              id={(c) => c.id}
              empty={<p>{T.contacts.none}</p>}
              columns={[
                { head: T.contacts.name, by: (c) => c.name, cell: (c) => plain(c.name) },
                { head: T.contacts.email, by: (c) => c.email, cell: (c) => plain(c.email) },
                { head: T.contacts.group, by: (c) => c.group ?? "", cell: (c) => plain(c.group ?? T.none) },
                { head: T.contacts.phone, cell: (c) => plain([c.phone.primary, c.phone.secondary].filter(Boolean).join(", ") || T.none) },
                {
                  head: T.act,
                  cell: (c) =>
                    may.managed() && (
                      <div class="actions">
                        <Button label={T.contacts.changeOf(c.name)} onClick={() => setOpen({ kind: "form", contact: c })}>
                          {T.contacts.change}
                        </Button>
                        <Button label={T.contacts.deleteOf(c.name)} onClick={() => setOpen({ kind: "delete", contact: c })}>
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
      {open?.kind === "form" && <Form contact={open.contact} close={close} done={() => read.read()} />}
      {open?.kind === "delete" && (
        <Danger
          title={T.contacts.deleteTitle}
          text={<p>{T.contacts.deleteText}</p>}
          name={open.contact.name}
          action={T.delete}
          close={close}
          run={async () => {
            await call("DELETE /v4/managed/contacts/{contactId}", { path: { contactId: open.contact.id } });
            read.read();
          }}
        />
      )}
    </Page>
  );
}

function Form({ contact, close, done }: { contact?: ContactView; close: () => void; done: () => void }) {
  const [name, setName] = useState(contact?.name ?? "");
  const [email, setEmail] = useState(contact?.email ?? "");
  const [group, setGroup] = useState(contact?.group ?? "");
  const [phone, setPhone] = useState(contact?.phone.primary ?? "");
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const body = { name, email, group: group || null, phone: { primary: phone || null, secondary: contact?.phone.secondary ?? null } };
    const save = () => (contact ? call("PUT /v4/managed/contacts/{contactId}", { path: { contactId: contact.id }, body }) : call("POST /v4/managed/contacts", { body }));
    if (await doing.run(save, T.settings.saved)) {
      done();
      close();
    }
  };
  const field = (label: string, at: string, value: string, set: (text: string) => void, hint?: string) => (
    <Field label={label} name={at} failure={doing.failure} hint={hint}>
      {(p) => <input {...p} value={value} autocomplete="off" onInput={(e) => set(e.currentTarget.value)} />}
    </Field>
  );
  return (
    <Dialog title={contact ? T.contacts.changeOf(plain(contact.name)) : T.contacts.add} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        {field(T.contacts.name, "name", name, setName)}
        {field(T.contacts.email, "email", email, setEmail)}
        {field(T.contacts.group, "group", group, setGroup, T.contacts.groupHint)}
        {field(T.contacts.phone, "phone", phone, setPhone)}
        <Problems failure={doing.failure} fields={["name", "email", "group", "phone"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {T.save}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}
