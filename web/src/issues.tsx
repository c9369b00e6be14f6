// Issues: outages with their tickets.
import { useState } from "preact/hooks";
import { call, whole } from "./call";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Card, Facts, Field, Loaded, Page, Problems, Status, Table, Time, useAction } from "./ui";
import { may } from "./who";

export function Issues() {
  const read = useReader("issues", (background) => whole((page) => call("GET /v4/managed/issues", { query: { page, page_size: 500 }, background })));
  return (
    <Page title={T.issues.title}>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.issues.title}
            rows={[...all].sort((a, b) => Number(a.closed !== null) - Number(b.closed !== null) || b.id - a.id)}
            id={(i) => i.id}
            empty={<p>{T.issues.none}</p>}
            columns={[
              { head: T.issues.what, by: (i) => i.entity.label, cell: (i) => <a href={`/console/issues/${i.id}`}>{plain(i.entity.label)}</a> },
              { head: T.databases.status, by: (i) => i.closed ?? "", cell: (i) => <Status of={i.closed === null ? "open" : "closed"} /> },
              { head: T.issues.opened, by: (i) => i.created, cell: (i) => <Time at={i.created} /> },
              { head: T.issues.closed, by: (i) => i.closed ?? "", cell: (i) => <Time at={i.closed} /> },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}

export function Issue({ id }: { id: number }) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const doing = useAction();
  const read = useReader(`issue/${id}`, async (background) => {
    const issue = await call("GET /v4/managed/issues/{issueId}", { path: { issueId: id }, background });
    const path = { ticketId: issue.entity.id };
    const [ticket, replies, services] = await Promise.all([
      call("GET /v4/support/tickets/{ticketId}", { path, background }),
      whole((page) => call("GET /v4/support/tickets/{ticketId}/replies", { path, query: { page, page_size: 500 }, background })),
      may.managed() && issue.services.length > 0 ? whole((page) => call("GET /v4/managed/services", { query: { page, page_size: 500 }, background })) : [],
    ]);
    const names = new Map(services.map((s) => [s.id, s.label]));
    return { issue, ticket, replies: [...replies].sort((a, b) => (a.created < b.created ? -1 : a.created > b.created ? 1 : a.id - b.id)), names };
  });
  const ticketId = read.data?.ticket.id;
  const send = async (e: Event) => {
    e.preventDefault();
    if (ticketId === undefined) return;
    if (await doing.run(() => call("POST /v4/support/tickets/{ticketId}/replies", { path: { ticketId }, body: { description: text, public: open } }), T.issues.sent)) {
      setText("");
      setOpen(false);
      read.read();
    }
  };
  const publish = (replyId: number, on: boolean) =>
    doing.run(() => call("PUT /v4/support/tickets/{ticketId}/replies/{replyId}", { path: { ticketId: ticketId ?? 0, replyId }, body: { public: on } })).then(() => read.read());
  return (
    <Page title={read.data?.ticket.summary ?? T.issues.one} back={["/console/issues", T.issues.title]}>
      <Loaded of={read}>
        {({ issue, replies, names }) => (
          <>
            <Card title={T.database.state} wide>
              <Facts
                of={[
                  [T.databases.status, <Status of={issue.closed === null ? "open" : "closed"} />],
                  [T.issues.opened, <Time at={issue.created} />],
                  [T.issues.closed, <Time at={issue.closed} />],
                  [
                    T.services.title,
                    issue.services.length === 0 ? T.none : issue.services.map((s, n) => <>{n > 0 && ", "}<a key={s} href={`/console/services/${s}`}>{plain(names.get(s) ?? T.issues.service(s))}</a></>),
                  ],
                ]}
              />
            </Card>
            <Card title={T.issues.course} wide>
              <ol class="course">
                {replies.map((r) => (
                  <li key={r.id}>
                    <p class="hint">
                      <Time at={r.created} /> {plain(r.created_by)}
                      {r.public && `, ${T.issues.public}`}
                    </p>
                    <pre>{plain(r.description)}</pre>
                    {may.managed() && r.kind === "reply" && (
                      <Button disabled={doing.busy} label={r.public ? T.issues.withdrawOf(r.id) : T.issues.publishOf(r.id)} onClick={() => void publish(r.id, !r.public)}>
                        {r.public ? T.issues.withdraw : T.issues.publish}
                      </Button>
                    )}
                  </li>
                ))}
              </ol>
              {may.managed() && (
                <form onSubmit={(e) => void send(e)}>
                  <Field label={T.issues.reply} name="description" failure={doing.failure}>
                    {(p) => <textarea {...p} rows={3} required value={text} onInput={(e) => setText(e.currentTarget.value)} />}
                  </Field>
                  <p class="check">
                    <label>
                      <input type="checkbox" checked={open} onChange={(e) => setOpen(e.currentTarget.checked)} /> {T.issues.showAll}
                    </label>
                  </p>
                  <Problems failure={doing.failure} fields={["description"]} />
                  <Button submit kind="main" disabled={doing.busy}>
                    {T.issues.send}
                  </Button>
                </form>
              )}
            </Card>
          </>
        )}
      </Loaded>
    </Page>
  );
}
