// The account's usage by month, its OAuth clients, and regions.
import { useState } from "preact/hooks";
import type { ClientView, UsageView } from "./api";
import { call, whole } from "./call";
import { bytes, plain, round } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Card, Field, FormDialog, Items, Loaded, Once, Status, Sure, Table, Text, Tick } from "./ui";
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

export function Clients() {
  const [made, setMade] = useState<ClientView>();
  const read = useReader(may.account() ? "clients" : null, (background) => whole((page) => call("GET /v4/account/oauth-clients", { query: { page, page_size: 500 }, background })));
  if (!may.account()) return <Alert kind="warn">{T.forbidden}</Alert>;
  return (
    <Items
      title={T.account.tab.clients}
      read={read}
      id={(c) => c.id}
      name={(c) => c.label}
      empty={T.clients.none}
      columns={[
        { head: T.databases.label, by: (c) => c.label, cell: (c) => plain(c.label) },
        { head: T.clients.id, cell: (c) => <code>{c.id}</code> },
        { head: T.clients.redirect, cell: (c) => plain(c.redirect_uri) },
        { head: T.clients.kind, by: (c) => Number(c.public), cell: (c) => (c.public ? T.clients.public : T.clients.confidential) },
      ]}
      can
      add={T.clients.add}
      form={(of, close) => (
        <ClientForm
          of={of}
          close={close}
          done={(c) => {
            if (!of) setMade(c);
            read.read();
          }}
        />
      )}
      more={[
        {
          text: T.clients.reset,
          label: (c) => T.clients.resetOf(c.label),
          when: (c) => !c.public,
          dialog: (c, close) => (
            <Sure
              title={T.clients.resetOf(plain(c.label))}
              text={<p>{T.clients.resetText}</p>}
              action={T.clients.reset}
              close={close}
              run={async () => setMade(await call("POST /v4/account/oauth-clients/{clientId}/reset-secret", { path: { clientId: c.id } }))}
            />
          ),
        },
      ]}
      remove={{ title: T.clients.deleteTitle, text: T.clients.deleteText, run: (c) => call("DELETE /v4/account/oauth-clients/{clientId}", { path: { clientId: c.id } }) }}
    >
      <p class="hint">{T.clients.text}</p>
      {made && <Once text={made.public ? T.clients.made : T.clients.once} secrets={made.public ? [[T.clients.id, made.id]] : [[T.clients.id, made.id], [T.clients.secret, made.secret]]} close={() => setMade(undefined)} />}
    </Items>
  );
}

function ClientForm({ of, close, done }: { of?: ClientView; close: () => void; done: (c: ClientView) => void }) {
  const [label, setLabel] = useState(of?.label ?? "");
  const [redirect, setRedirect] = useState(of?.redirect_uri ?? "");
  const [open, setOpen] = useState(false);
  const save = async () =>
    done(
      of
        ? await call("PUT /v4/account/oauth-clients/{clientId}", { path: { clientId: of.id }, body: { label, redirect_uri: redirect } })
        : await call("POST /v4/account/oauth-clients", { body: { label, redirect_uri: redirect, public: open } }),
    );
  return (
    <FormDialog title={of ? T.contacts.changeOf(plain(of.label)) : T.clients.add} fields={["label", "redirect_uri"]} close={close} save={save}>
      {(failure) => (
        <>
          <Text label={T.databases.label} name="label" failure={failure} value={label} set={setLabel} />
          <Text label={T.clients.redirect} name="redirect_uri" failure={failure} hint={T.clients.redirectHint} value={redirect} set={setRedirect} />
          {!of && <Tick label={T.clients.publicText} on={open} set={setOpen} />}
        </>
      )}
    </FormDialog>
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
