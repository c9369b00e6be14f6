// Status pages: what is shown to everybody.
import { useState } from "preact/hooks";
import type { StatusPageView } from "./api";
import { call, whole } from "./call";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Code, Dialog, Field, FormDialog, Items, Loaded, Page, Pick, Text, Tick } from "./ui";
import { may } from "./who";

export function StatusPages() {
  const read = useReader("status-pages", (background) => whole((page) => call("GET /v4/managed/status-pages", { query: { page, page_size: 500 }, background })));
  return (
    <Page title={T.pages.title}>
      <Items
        title={T.pages.all}
        label={T.pages.title}
        read={read}
        id={(p) => p.id}
        name={(p) => p.title}
        empty={T.pages.none}
        columns={[
          { head: T.pages.name, by: (p) => p.title, cell: (p) => plain(p.title) },
          { head: T.pages.at, by: (p) => p.slug, cell: (p) => <a href={"/status/" + p.slug}>/status/{p.slug}</a> },
          { head: T.pages.shows, cell: (p) => T.pages.count(p.services.length, p.databases.length) },
          { head: T.pages.days, number: true, by: (p) => p.days, cell: (p) => String(p.days) },
        ]}
        can={may.managed()}
        add={T.pages.add}
        form={(of, close) => <Form page={of} close={close} done={() => read.read()} />}
        more={[{ text: T.pages.badge, label: (p) => T.pages.badgeOf(p.title), dialog: (p, close) => <Badge slug={p.slug} close={close} /> }]}
        remove={{ title: T.pages.deleteTitle, text: T.pages.deleteText, typed: (p) => p.slug, run: (p) => call("DELETE /v4/managed/status-pages/{pageId}", { path: { pageId: p.id } }) }}
      />
    </Page>
  );
}

function Badge({ slug, close }: { slug: string; close: () => void }) {
  const at = `${location.origin}/status/${slug}`;
  return (
    <Dialog title={T.pages.badge} close={close}>
      <p>{T.pages.badgeText}</p>
      <Code what={T.pages.badge} text={`[![status](${at}/badge.svg)](${at})`} />
      <Code what="Atom" text={at + ".atom"} />
      <Code what="JSON" text={at + ".json"} />
      <div class="actions">
        <Button onClick={close}>{T.close}</Button>
      </div>
    </Dialog>
  );
}

function Form({ page, close, done }: { page?: StatusPageView; close: () => void; done: () => void }) {
  const [slug, setSlug] = useState(page?.slug ?? "");
  const [title, setTitle] = useState(page?.title ?? "");
  const [services, setServices] = useState(page?.services ?? []);
  const [databases, setDatabases] = useState(page?.databases ?? []);
  const [days, setDays] = useState(page?.days ?? 90);
  const [times, setTimes] = useState(page?.show_response_times ?? false);
  const offer = useReader("status-offer", async (background) => {
    const [s, d] = await Promise.all([
      whole((n) => call("GET /v4/managed/services", { query: { page: n, page_size: 500 }, background })),
      whole((n) => call("GET /v4/databases/instances", { query: { page: n, page_size: 500 }, background })),
    ]);
    return { services: s, databases: d };
  });
  const save = async () => {
    const body = { slug, title, services, databases, days, show_response_times: times };
    await (page ? call("PUT /v4/managed/status-pages/{pageId}", { path: { pageId: page.id }, body }) : call("POST /v4/managed/status-pages", { body }));
    done();
  };
  return (
    <FormDialog title={page ? T.contacts.changeOf(plain(page.title)) : T.pages.add} fields={["title", "slug", "services", "databases", "days"]} close={close} save={save} saved={T.settings.saved}>
      {(failure) => (
        <>
          <Text label={T.pages.name} name="title" failure={failure} value={title} set={setTitle} />
          <Text label={T.pages.slug} name="slug" failure={failure} hint={T.pages.slugHint(location.origin + "/status/" + (slug || "…"))} value={slug} set={setSlug} />
          <Loaded of={offer}>
            {(o) => (
              <>
                <Pick legend={T.services.title} name="services" failure={failure} all={o.services} chosen={services} set={setServices} />
                <Pick legend={T.databases.title} name="databases" failure={failure} all={o.databases} chosen={databases} set={setDatabases} />
              </>
            )}
          </Loaded>
          <Field label={T.pages.days} name="days" failure={failure}>
            {(p) => <input {...p} type="number" min={1} max={400} value={days} onInput={(e) => setDays(Number(e.currentTarget.value))} />}
          </Field>
          <Tick label={T.pages.times} on={times} set={setTimes} />
        </>
      )}
    </FormDialog>
  );
}
