// Contacts: who is told of issues.
import { useState } from "preact/hooks";
import type { ContactView } from "./api";
import { call, whole } from "./call";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { FormDialog, Items, Page, Text } from "./ui";
import { may } from "./who";

export function Contacts() {
  const read = useReader("contacts", (background) => whole((page) => call("GET /v4/managed/contacts", { query: { page, page_size: 500 }, background })));
  return (
    <Page title={T.contacts.title}>
      <Items
        title={T.contacts.all}
        label={T.contacts.title}
        read={read}
        id={(c) => c.id}
        name={(c) => c.name}
        empty={T.contacts.none}
        columns={[
          { head: T.contacts.name, by: (c) => c.name, cell: (c) => plain(c.name) },
          { head: T.contacts.email, by: (c) => c.email, cell: (c) => plain(c.email) },
          { head: T.contacts.group, by: (c) => c.group ?? "", cell: (c) => plain(c.group ?? T.none) },
          { head: T.contacts.phone, cell: (c) => plain([c.phone.primary, c.phone.secondary].filter(Boolean).join(", ") || T.none) },
        ]}
        can={may.managed()}
        add={T.contacts.add}
        form={(of, close) => <Form contact={of} close={close} done={() => read.read()} />}
        remove={{ title: T.contacts.deleteTitle, text: T.contacts.deleteText, run: (c) => call("DELETE /v4/managed/contacts/{contactId}", { path: { contactId: c.id } }) }}
      />
    </Page>
  );
}

function Form({ contact, close, done }: { contact?: ContactView; close: () => void; done: () => void }) {
  const [name, setName] = useState(contact?.name ?? "");
  const [email, setEmail] = useState(contact?.email ?? "");
  const [group, setGroup] = useState(contact?.group ?? "");
  const [phone, setPhone] = useState(contact?.phone.primary ?? "");
  const save = async () => {
    const body = { name, email, group: group || null, phone: { primary: phone || null, secondary: contact?.phone.secondary ?? null } };
    await (contact ? call("PUT /v4/managed/contacts/{contactId}", { path: { contactId: contact.id }, body }) : call("POST /v4/managed/contacts", { body }));
    done();
  };
  return (
    <FormDialog title={contact ? T.contacts.changeOf(plain(contact.name)) : T.contacts.add} fields={["name", "email", "group", "phone"]} close={close} save={save} saved={T.settings.saved}>
      {(failure) => (
        <>
          <Text label={T.contacts.name} name="name" failure={failure} value={name} set={setName} />
          <Text label={T.contacts.email} name="email" failure={failure} value={email} set={setEmail} />
          <Text label={T.contacts.group} name="group" failure={failure} hint={T.contacts.groupHint} value={group} set={setGroup} />
          <Text label={T.contacts.phone} name="phone" failure={failure} value={phone} set={setPhone} />
        </>
      )}
    </FormDialog>
  );
}
