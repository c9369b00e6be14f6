// Status pages: what is shown to everybody.
import { useState } from "preact/hooks";
import type { StatusPageView } from "./api";
import { call, whole } from "./call";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Card, Code, Danger, Dialog, Field, Loaded, Page, Problems, Table, useAction } from "./ui";
import { may } from "./who";

type Open = { kind: "form" | "delete" | "badge"; page?: StatusPageView };

export function StatusPages() {
  const [open, setOpen] = useState<Open>();
  const read = useReader("status-pages", (background) => whole((page) => call("GET /v4/managed/status-pages", { query: { page, page_size: 500 }, background })));
  const close = () => setOpen(undefined);
  return (
    <Page title={T.pages.title} actions={may.managed() && <Button kind="main" onClick={() => setOpen({ kind: "form" })}>{T.pages.add}</Button>}>
      <Card title={T.pages.all} wide>
        <Loaded of={read}>
          {(all) => (
            <Table
              label={T.pages.title}
              rows={all}
              id={(p) => p.id}
              empty={<p>{T.pages.none}</p>}
              columns={[
                { head: T.pages.name, by: (p) => p.title, cell: (p) => plain(p.title) },
                { head: T.pages.at, by: (p) => p.slug, cell: (p) => <a href={"/status/" + p.slug}>/status/{p.slug}</a> },
                { head: T.pages.shows, cell: (p) => T.pages.count(p.services.length, p.databases.length) },
                { head: T.pages.days, number: true, by: (p) => p.days, cell: (p) => String(p.days) },
                {
                  head: T.act,
                  cell: (p) =>
                    may.managed() && (
                      <div class="actions">
                        <Button label={T.contacts.changeOf(p.title)} onClick={() => setOpen({ kind: "form", page: p })}>
                          {T.contacts.change}
                        </Button>
                        <Button label={T.pages.badgeOf(p.title)} onClick={() => setOpen({ kind: "badge", page: p })}>
                          {T.pages.badge}
                        </Button>
                        <Button label={T.contacts.deleteOf(p.title)} onClick={() => setOpen({ kind: "delete", page: p })}>
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
      {open?.kind === "form" && <Form page={open.page} close={close} done={() => read.read()} />}
      {open?.kind === "badge" && open.page && (
        <Dialog title={T.pages.badge} close={close}>
          <p>{T.pages.badgeText}</p>
          <Code what={T.pages.badge} text={`[![status](${location.origin}/status/${open.page.slug}/badge.svg)](${location.origin}/status/${open.page.slug})`} />
          <Code what="Atom" text={`${location.origin}/status/${open.page.slug}.atom`} />
          <Code what="JSON" text={`${location.origin}/status/${open.page.slug}.json`} />
          <div class="actions">
            <Button onClick={close}>{T.close}</Button>
          </div>
        </Dialog>
      )}
      {open?.kind === "delete" && open.page && (
        <Danger
          title={T.pages.deleteTitle}
          text={<p>{T.pages.deleteText}</p>}
          name={open.page.slug}
          action={T.delete}
          close={close}
          run={async () => {
            await call("DELETE /v4/managed/status-pages/{pageId}", { path: { pageId: open.page?.id ?? 0 } });
            read.read();
          }}
        />
      )}
    </Page>
  );
}

function Form({ page, close, done }: { page?: StatusPageView; close: () => void; done: () => void }) {
  const [slug, setSlug] = useState(page?.slug ?? "");
  const [title, setTitle] = useState(page?.title ?? "");
  const [services, setServices] = useState(page?.services ?? []);
  const [databases, setDatabases] = useState(page?.databases ?? []);
  const [days, setDays] = useState(page?.days ?? 90);
  const [times, setTimes] = useState(page?.show_response_times ?? false);
  const doing = useAction();
  const offer = useReader("status-offer", async (background) => {
    const [s, d] = await Promise.all([
      whole((n) => call("GET /v4/managed/services", { query: { page: n, page_size: 500 }, background })),
      whole((n) => call("GET /v4/databases/instances", { query: { page: n, page_size: 500 }, background })),
    ]);
    return { services: s, databases: d };
  });
  const submit = async (e: Event) => {
    e.preventDefault();
    const body = { slug, title, services, databases, days, show_response_times: times };
    const save = () => (page ? call("PUT /v4/managed/status-pages/{pageId}", { path: { pageId: page.id }, body }) : call("POST /v4/managed/status-pages", { body }));
    if (await doing.run(save, T.settings.saved)) {
      done();
      close();
    }
  };
  const pick = (legend: string, name: string, all: { id: number; label: string }[], chosen: number[], set: (ids: number[]) => void) => (
    <fieldset class="pick">
      <legend>{legend}</legend>
      {all.length === 0 && <p class="hint">{T.pages.nothing}</p>}
      {all.map((one) => (
        <label key={one.id}>
          <input type="checkbox" checked={chosen.includes(one.id)} onChange={(e) => set(e.currentTarget.checked ? [...chosen, one.id] : chosen.filter((id) => id !== one.id))} /> {plain(one.label)}
        </label>
      ))}
      {doing.failure?.of(name) && <p class="problem">{plain(doing.failure.of(name) ?? "")}</p>}
    </fieldset>
  );
  return (
    <Dialog title={page ? T.contacts.changeOf(plain(page.title)) : T.pages.add} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <Field label={T.pages.name} name="title" failure={doing.failure}>
          {(p) => <input {...p} value={title} autocomplete="off" onInput={(e) => setTitle(e.currentTarget.value)} />}
        </Field>
        <Field label={T.pages.slug} name="slug" failure={doing.failure} hint={T.pages.slugHint(location.origin + "/status/" + (slug || "…"))}>
          {(p) => <input {...p} value={slug} autocomplete="off" spellcheck={false} onInput={(e) => setSlug(e.currentTarget.value)} />}
        </Field>
        <Loaded of={offer}>
          {(o) => (
            <>
              {pick(T.services.title, "services", o.services, services, setServices)}
              {pick(T.databases.title, "databases", o.databases, databases, setDatabases)}
            </>
          )}
        </Loaded>
        <Field label={T.pages.days} name="days" failure={doing.failure}>
          {(p) => <input {...p} type="number" min={1} max={400} value={days} onInput={(e) => setDays(Number(e.currentTarget.value))} />}
        </Field>
        <p class="check">
          <label>
            <input type="checkbox" checked={times} onChange={(e) => setTimes(e.currentTarget.checked)} /> {T.pages.times}
          </label>
        </p>
        <Problems failure={doing.failure} fields={["title", "slug", "services", "databases", "days"]} />
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
