// The account's usage by month, its OAuth clients, and regions.
import { useState } from "preact/hooks";
import type { ClientView, UsageView } from "./api";
import { call, whole } from "./call";
import { bytes, plain, round } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Button, Card, Code, Danger, Dialog, Field, Loaded, Problems, Status, Sure, Table, useAction } from "./ui";
import { may } from "./who";

interface Sum {
  id: number;
  label: string;
  engine: string;
  type: string;
  hours: number;
  suspended: number;
  disk: number;
  backup: number;
  cost: number | null;
}

// sums adds the days of a month up, by database and plan.
function sums(days: UsageView[]): Sum[] {
  const found = new Map<string, Sum>();
  for (const d of days) {
    const key = `${d.database_id} ${d.type} ${d.cluster_size}`;
    const s = found.get(key) ?? { id: d.database_id, label: d.label, engine: d.engine, type: `${d.type} × ${d.cluster_size}`, hours: 0, suspended: 0, disk: 0, backup: 0, cost: null };
    s.hours += d.hours;
    s.suspended += d.suspended_hours;
    s.disk = Math.max(s.disk, d.used_disk_bytes);
    s.backup = Math.max(s.backup, d.backup_bytes);
    if (d.cost !== null) s.cost = (s.cost ?? 0) + d.cost;
    found.set(key, s);
  }
  return [...found.values()];
}

export function Usage() {
  const now = new Date();
  const months = Array.from({ length: 13 }, (_, i) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - i, 1)).toISOString().slice(0, 7));
  const [month, setMonth] = useState(months[0] ?? "");
  const read = useReader(may.account() ? `usage/${month}` : null, (background) =>
    whole((page) => call("GET /v4/account/usage", { filter: { day: { "+contains": month } }, query: { page, page_size: 500 }, background })),
  );
  if (!may.account()) return <Alert kind="warn">{T.forbidden}</Alert>;
  return (
    <Card title={T.account.tab.usage} wide>
      <Field label={T.usage.month} name="month">
        {(p) => (
          <select {...p} value={month} onChange={(e) => setMonth(e.currentTarget.value)}>
            {months.map((m) => (
              <option key={m}>{m}</option>
            ))}
          </select>
        )}
      </Field>
      <Loaded of={read}>
        {(days) => (
          <Table
            label={T.account.tab.usage}
            rows={sums(days)}
            id={(s) => `${s.id} ${s.type}`}
            empty={<p>{T.usage.none}</p>}
            columns={[
              { head: T.databases.label, by: (s) => s.label, cell: (s) => plain(s.label) },
              { head: T.databases.engine, by: (s) => s.engine, cell: (s) => s.engine },
              { head: T.databases.plan, by: (s) => s.type, cell: (s) => s.type },
              { head: T.usage.ran, number: true, by: (s) => s.hours, cell: (s) => `${round(s.hours)} h` },
              { head: T.usage.suspended, number: true, by: (s) => s.suspended, cell: (s) => `${round(s.suspended)} h` },
              { head: T.usage.disk, number: true, by: (s) => s.disk, cell: (s) => bytes(s.disk) },
              { head: T.usage.backups, number: true, by: (s) => s.backup, cell: (s) => bytes(s.backup) },
              { head: T.usage.cost, number: true, by: (s) => s.cost ?? 0, cell: (s) => (s.cost === null ? T.none : s.cost.toFixed(2)) },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

type Open = { kind: "add" } | { kind: "change" | "reset" | "delete"; of: ClientView };

export function Clients() {
  const [open, setOpen] = useState<Open>();
  const [made, setMade] = useState<ClientView>();
  const read = useReader(may.account() ? "clients" : null, (background) => whole((page) => call("GET /v4/account/oauth-clients", { query: { page, page_size: 500 }, background })));
  const close = () => setOpen(undefined);
  if (!may.account()) return <Alert kind="warn">{T.forbidden}</Alert>;
  return (
    <Card title={T.account.tab.clients} wide actions={<Button kind="main" onClick={() => setOpen({ kind: "add" })}>{T.clients.add}</Button>}>
      <p class="hint">{T.clients.text}</p>
      {made && (
        <Alert kind="good">
          <p>{made.public ? T.clients.made : T.clients.once}</p>
          <Code what={T.clients.id} text={made.id} />
          {!made.public && <Code what={T.clients.secret} text={made.secret} />}
          <Button onClick={() => setMade(undefined)}>{T.account.haveIt}</Button>
        </Alert>
      )}
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.account.tab.clients}
            rows={all}
            id={(c) => c.id}
            empty={<p>{T.clients.none}</p>}
            columns={[
              { head: T.databases.label, by: (c) => c.label, cell: (c) => plain(c.label) },
              { head: T.clients.id, cell: (c) => <code>{c.id}</code> },
              { head: T.clients.redirect, cell: (c) => plain(c.redirect_uri) },
              { head: T.clients.kind, by: (c) => Number(c.public), cell: (c) => (c.public ? T.clients.public : T.clients.confidential) },
              {
                head: T.act,
                cell: (c) => (
                  <div class="actions">
                    <Button label={T.contacts.changeOf(c.label)} onClick={() => setOpen({ kind: "change", of: c })}>
                      {T.contacts.change}
                    </Button>
                    {!c.public && (
                      <Button label={T.clients.resetOf(c.label)} onClick={() => setOpen({ kind: "reset", of: c })}>
                        {T.clients.reset}
                      </Button>
                    )}
                    <Button label={T.contacts.deleteOf(c.label)} onClick={() => setOpen({ kind: "delete", of: c })}>
                      {T.delete}
                    </Button>
                  </div>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {(open?.kind === "add" || open?.kind === "change") && (
        <ClientForm
          of={open.kind === "change" ? open.of : undefined}
          close={close}
          done={(c) => {
            if (open.kind === "add") setMade(c);
            read.read();
          }}
        />
      )}
      {open?.kind === "reset" && (
        <Sure
          title={T.clients.resetOf(plain(open.of.label))}
          text={<p>{T.clients.resetText}</p>}
          action={T.clients.reset}
          close={close}
          run={async () => setMade(await call("POST /v4/account/oauth-clients/{clientId}/reset-secret", { path: { clientId: open.of.id } }))}
        />
      )}
      {open?.kind === "delete" && (
        <Danger
          title={T.clients.deleteTitle}
          text={<p>{T.clients.deleteText}</p>}
          name={open.of.label}
          action={T.delete}
          close={close}
          run={async () => {
            await call("DELETE /v4/account/oauth-clients/{clientId}", { path: { clientId: open.of.id } });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function ClientForm({ of, close, done }: { of?: ClientView; close: () => void; done: (c: ClientView) => void }) {
  const [label, setLabel] = useState(of?.label ?? "");
  const [redirect, setRedirect] = useState(of?.redirect_uri ?? "");
  const [open, setOpen] = useState(false);
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const finished = await doing.run(async () =>
      done(
        of
          ? await call("PUT /v4/account/oauth-clients/{clientId}", { path: { clientId: of.id }, body: { label, redirect_uri: redirect } })
          : await call("POST /v4/account/oauth-clients", { body: { label, redirect_uri: redirect, public: open } }),
      ),
    );
    if (finished) close();
  };
  return (
    <Dialog title={of ? T.contacts.changeOf(plain(of.label)) : T.clients.add} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <Field label={T.databases.label} name="label" failure={doing.failure}>
          {(p) => <input {...p} value={label} autocomplete="off" onInput={(e) => setLabel(e.currentTarget.value)} />}
        </Field>
        <Field label={T.clients.redirect} name="redirect_uri" failure={doing.failure} hint={T.clients.redirectHint}>
          {(p) => <input {...p} value={redirect} autocomplete="off" spellcheck={false} onInput={(e) => setRedirect(e.currentTarget.value)} />}
        </Field>
        {!of && (
          <p class="check">
            <label>
              <input type="checkbox" checked={open} onChange={(e) => setOpen(e.currentTarget.checked)} /> {T.clients.publicText}
            </label>
          </p>
        )}
        <Problems failure={doing.failure} fields={["label", "redirect_uri"]} />
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

// Regions are where databases can be, how each is, and for which plans it has room.
export function Regions() {
  const read = useReader("regions-all", async (background) => {
    const [regions, rooms] = await Promise.all([
      whole((page) => call("GET /v4/regions", { query: { page, page_size: 500 }, background })),
      whole((page) => call("GET /v4/regions/availability", { query: { page, page_size: 500 }, background })),
    ]);
    return regions.map((r) => ({ ...r, plans: rooms.filter((x) => x.region === r.id && x.available).map((x) => x.plan) }));
  });
  return (
    <Card title={T.account.tab.regions} wide>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.account.tab.regions}
            rows={all}
            id={(r) => r.id}
            columns={[
              { head: T.databases.region, by: (r) => r.id, cell: (r) => r.id },
              { head: T.databases.label, by: (r) => r.label, cell: (r) => plain(r.label) },
              { head: T.databases.status, by: (r) => r.status, cell: (r) => <Status of={r.status} /> },
              { head: T.regions.offers, cell: (r) => r.capabilities.join(", ") },
              { head: T.regions.plans, cell: (r) => r.plans.join(", ") || T.none },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}
