// Machines with their load, credentials that staff may use, and the key that staff log in with.
import { useState } from "preact/hooks";
import type { ComputeView, CredentialView, StatView } from "./api";
import { call, whole } from "./call";
import { measured, plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Button, Card, Code, Danger, Dialog, Field, Loaded, Page, Problems, Table, Tabs, Time, useAction } from "./ui";
import { may } from "./who";

const tabs = ["", "credentials"] as const;

export function Machines({ tab }: { tab: string }) {
  const at = (t: string) => "/console/machines" + (t && "/" + t);
  return (
    <Page title={T.machines.title}>
      <Tabs label={T.machines.parts} at={at(tab)} all={tabs.map((t) => [at(t), T.machines.tab[t]])} />
      {tab === "" ? (
        <>
          <Load />
          <List />
          <Key />
        </>
      ) : tab === "credentials" ? (
        <Credentials />
      ) : (
        <Alert>{T.gone}</Alert>
      )}
    </Page>
  );
}

// Load draws what all machines together did in a day.
function Load() {
  const read = useReader("stats", (background) => call("GET /v4/managed/stats", { background }), 300_000);
  const rows: [keyof typeof T.machines.load, string][] = [["cpu", ""], ["disk", "bytes_per_second"], ["swap", "byte"], ["net_in", "bits"], ["net_out", "bits"]];
  return (
    <Card title={T.machines.loadTitle} wide>
      <Loaded of={read}>
        {({ data }) =>
          rows.every(([name]) => data[name].length === 0) ? (
            <p>{T.machines.noLoad}</p>
          ) : (
            <div class="plots">
              {rows.map(([name, unit]) => (
                <Line key={name} label={T.machines.load[name]} points={data[name]} unit={unit} />
              ))}
            </div>
          )
        }
      </Loaded>
    </Card>
  );
}

function amount(y: number, unit: string): string {
  return unit === "bits" ? `${measured(y, "")} bit/s` : measured(y, unit);
}

function Line({ label, points, unit }: { label: string; points: StatView[]; unit: string }) {
  const top = Math.max(...points.map((p) => p.y), 1e-9);
  const [first, last] = [points[0]?.x ?? 0, points.at(-1)?.x ?? 1];
  const path = points.map((p) => `${(((p.x - first) / Math.max(last - first, 1)) * 1000).toFixed(1)},${(100 - (p.y / top) * 98).toFixed(1)}`).join(" ");
  return (
    <section aria-label={label}>
      <h3>{label}</h3>
      <svg class="spark" viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">
        <polyline points={path} />
      </svg>
      <details>
        <summary>{T.metrics.table(label)}</summary>
        <Table
          label={label}
          rows={[...points].reverse()}
          id={(p) => p.x}
          columns={[
            { head: T.metrics.time, cell: (p) => new Date(p.x).toLocaleString("en-GB") },
            { head: label, number: true, cell: (p) => amount(p.y, unit) },
          ]}
        />
      </details>
    </section>
  );
}

function List() {
  const [open, setOpen] = useState<ComputeView>();
  const read = useReader("machines", (background) => whole((page) => call("GET /v4/managed/compute-settings", { query: { page, page_size: 500 }, background })));
  return (
    <Card title={T.machines.all} wide>
      <p class="hint">{T.machines.text}</p>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.machines.all}
            rows={all}
            id={(m) => m.id}
            empty={<p>{T.machines.none}</p>}
            columns={[
              { head: T.databases.label, by: (m) => m.label, cell: (m) => plain(m.label) },
              { head: T.contacts.group, by: (m) => m.group, cell: (m) => plain(m.group || T.none) },
              { head: T.machines.ssh, cell: (m) => (m.ssh.access ? T.machines.sshText(plain(m.ssh.user ?? "root"), plain(m.ssh.ip), m.ssh.port ?? 22) : T.machines.closed) },
              { head: T.act, cell: (m) => may.managed() && <Button label={T.contacts.changeOf(m.label)} onClick={() => setOpen(m)}>{T.contacts.change}</Button> },
            ]}
          />
        )}
      </Loaded>
      {open && <Ssh machine={open} close={() => setOpen(undefined)} done={() => read.read()} />}
    </Card>
  );
}

function Ssh({ machine, close, done }: { machine: ComputeView; close: () => void; done: () => void }) {
  const [access, setAccess] = useState(machine.ssh.access);
  const [user, setUser] = useState(machine.ssh.user ?? "");
  const [ip, setIP] = useState(machine.ssh.ip);
  const [port, setPort] = useState(machine.ssh.port === null ? "" : String(machine.ssh.port));
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    const body = { ssh: { access, user: user || null, ip, port: port === "" ? null : Number(port) } };
    if (await doing.run(() => call("PUT /v4/managed/compute-settings/{computeId}", { path: { computeId: machine.id }, body }), T.settings.saved)) {
      done();
      close();
    }
  };
  const field = (label: string, name: string, value: string, set: (text: string) => void, hint?: string) => (
    <Field label={label} name={"ssh." + name} failure={doing.failure} hint={hint}>
      {(p) => <input {...p} value={value} autocomplete="off" spellcheck={false} onInput={(e) => set(e.currentTarget.value)} />}
    </Field>
  );
  return (
    <Dialog title={T.contacts.changeOf(plain(machine.label))} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <p class="check">
          <label>
            <input type="checkbox" checked={access} onChange={(e) => setAccess(e.currentTarget.checked)} /> {T.machines.access}
          </label>
        </p>
        {field(T.account.name, "user", user, setUser, T.machines.userHint)}
        {field(T.services.address, "ip", ip, setIP, T.machines.ipHint)}
        {field(T.machines.port, "port", port, setPort, T.machines.portHint)}
        <Problems failure={doing.failure} fields={["ssh.user", "ssh.ip", "ssh.port"]} />
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

function Key() {
  const read = useReader(may.managed() ? "sshkey" : null, (background) => call("GET /v4/managed/credentials/sshkey", { background }));
  if (!may.managed()) return null;
  return (
    <Card title={T.machines.key} wide>
      <p>{T.machines.keyText}</p>
      <Loaded of={read}>{(k) => <Code what={T.machines.key} text={k.ssh_key} />}</Loaded>
    </Card>
  );
}

type Open = { kind: "add" } | { kind: "label" | "login" | "delete"; of: CredentialView };

function Credentials() {
  const [open, setOpen] = useState<Open>();
  const read = useReader("credentials", (background) => whole((page) => call("GET /v4/managed/credentials", { query: { page, page_size: 500 }, background })));
  const close = () => setOpen(undefined);
  return (
    <Card title={T.credentials.title} wide actions={may.managed() && <Button kind="main" onClick={() => setOpen({ kind: "add" })}>{T.credentials.add}</Button>}>
      <p class="hint">{T.credentials.text}</p>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.credentials.title}
            rows={all}
            id={(c) => c.id}
            empty={<p>{T.credentials.none}</p>}
            columns={[
              { head: T.databases.label, by: (c) => c.label, cell: (c) => plain(c.label) },
              { head: T.credentials.read, by: (c) => c.last_decrypted ?? "", cell: (c) => (c.last_decrypted ? <Time at={c.last_decrypted} relative /> : T.account.never) },
              {
                head: T.act,
                cell: (c) =>
                  may.managed() && (
                    <div class="actions">
                      <Button label={T.contacts.changeOf(c.label)} onClick={() => setOpen({ kind: "label", of: c })}>
                        {T.contacts.change}
                      </Button>
                      <Button label={T.credentials.loginOf(c.label)} onClick={() => setOpen({ kind: "login", of: c })}>
                        {T.credentials.login}
                      </Button>
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
      {open && open.kind !== "delete" && <CredentialForm kind={open.kind} of={open.kind === "add" ? undefined : open.of} close={close} done={() => read.read()} />}
      {open?.kind === "delete" && (
        <Danger
          title={T.credentials.deleteTitle}
          text={<p>{T.credentials.deleteText}</p>}
          name={open.of.label}
          action={T.delete}
          close={close}
          run={async () => {
            await call("POST /v4/managed/credentials/{credentialId}/revoke", { path: { credentialId: open.of.id } });
            read.read();
          }}
        />
      )}
    </Card>
  );
}

function CredentialForm({ kind, of, close, done }: { kind: "add" | "label" | "login"; of?: CredentialView; close: () => void; done: () => void }) {
  const [label, setLabel] = useState(of?.label ?? "");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const doing = useAction();
  const path = { credentialId: of?.id ?? 0 };
  const submit = async (e: Event) => {
    e.preventDefault();
    const save = (): Promise<unknown> => {
      if (kind === "add") return call("POST /v4/managed/credentials", { body: { label, username: username || null, password } });
      if (kind === "label") return call("PUT /v4/managed/credentials/{credentialId}", { path, body: { label } });
      return call("POST /v4/managed/credentials/{credentialId}/update", { path, body: { username: username || null, password } });
    };
    if (await doing.run(save, T.settings.saved)) {
      done();
      close();
    }
  };
  const title = of ? (kind === "label" ? T.contacts.changeOf(plain(of.label)) : T.credentials.loginOf(plain(of.label))) : T.credentials.add;
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        {kind !== "login" && (
          <Field label={T.databases.label} name="label" failure={doing.failure}>
            {(p) => <input {...p} value={label} autocomplete="off" onInput={(e) => setLabel(e.currentTarget.value)} />}
          </Field>
        )}
        {kind !== "label" && (
          <>
            <Field label={T.account.name} name="username" failure={doing.failure}>
              {(p) => <input {...p} value={username} autocomplete="off" onInput={(e) => setUsername(e.currentTarget.value)} />}
            </Field>
            <Field label={T.account.password} name="password" failure={doing.failure}>
              {(p) => <input {...p} type="password" value={password} autocomplete="new-password" onInput={(e) => setPassword(e.currentTarget.value)} />}
            </Field>
          </>
        )}
        <Problems failure={doing.failure} fields={["label", "username", "password"]} />
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
