// Machines with their load, credentials that staff may use, and the key that staff log in with.
import { useState } from "preact/hooks";
import type { ComputeView, CredentialView, StatView } from "./api";
import { call, whole } from "./call";
import { measured, plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Card, Code, FormDialog, Items, Loaded, Page, Table, Tabs, Text, Tick, Time } from "./ui";
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
      <h3>
        {label}: {amount(points.at(-1)?.y ?? 0, unit)}
      </h3>
      {points.length > 1 ? (
        <svg class="spark" viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">
          <polyline points={path} />
        </svg>
      ) : (
        <p class="hint">{T.machines.short}</p>
      )}
      <details>
        <summary>{T.metrics.table(label)}</summary>
        <Table
          label={label}
          rows={[...points].reverse()}
          id={(p) => p.x}
          columns={[
            { head: T.metrics.time, cell: (p) => <Time at={new Date(p.x).toISOString().slice(0, 19)} /> },
            { head: label, number: true, cell: (p) => amount(p.y, unit) },
          ]}
        />
      </details>
    </section>
  );
}

function List() {
  const read = useReader("machines", (background) => whole((page) => call("GET /v4/managed/compute-settings", { query: { page, page_size: 500 }, background })));
  return (
    <Items
      title={T.machines.all}
      read={read}
      id={(m) => m.id}
      name={(m) => m.label}
      empty={T.machines.none}
      columns={[
        { head: T.databases.label, by: (m) => m.label, cell: (m) => plain(m.label) },
        { head: T.contacts.group, by: (m) => m.group, cell: (m) => plain(m.group || T.none) },
        { head: T.machines.ssh, cell: (m) => (m.ssh.access ? T.machines.sshText(plain(m.ssh.user ?? "root"), plain(m.ssh.ip), m.ssh.port ?? 22) : T.machines.closed) },
      ]}
      can={may.managed()}
      form={(of, close) => of && <Ssh machine={of} close={close} done={() => read.read()} />}
    >
      <p class="hint">{T.machines.text}</p>
    </Items>
  );
}

function Ssh({ machine, close, done }: { machine: ComputeView; close: () => void; done: () => void }) {
  const [access, setAccess] = useState(machine.ssh.access);
  const [user, setUser] = useState(machine.ssh.user ?? "");
  const [ip, setIP] = useState(machine.ssh.ip);
  const [port, setPort] = useState(machine.ssh.port === null ? "" : String(machine.ssh.port));
  const save = async () => {
    const body = { ssh: { access, user: user || null, ip, port: port === "" ? null : Number(port) } };
    await call("PUT /v4/managed/compute-settings/{computeId}", { path: { computeId: machine.id }, body });
    done();
  };
  return (
    <FormDialog title={T.contacts.changeOf(plain(machine.label))} fields={["ssh.user", "ssh.ip", "ssh.port"]} close={close} save={save} saved={T.settings.saved}>
      {(failure) => (
        <>
          <Tick label={T.machines.access} on={access} set={setAccess} />
          <Text label={T.account.name} name="ssh.user" failure={failure} hint={T.machines.userHint} value={user} set={setUser} />
          <Text label={T.services.address} name="ssh.ip" failure={failure} hint={T.machines.ipHint} value={ip} set={setIP} />
          <Text label={T.machines.port} name="ssh.port" failure={failure} hint={T.machines.portHint} value={port} set={setPort} />
        </>
      )}
    </FormDialog>
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

function Credentials() {
  const read = useReader("credentials", (background) => whole((page) => call("GET /v4/managed/credentials", { query: { page, page_size: 500 }, background })));
  const done = () => read.read();
  return (
    <Items
      title={T.credentials.title}
      read={read}
      id={(c) => c.id}
      name={(c) => c.label}
      empty={T.credentials.none}
      columns={[
        { head: T.databases.label, by: (c) => c.label, cell: (c) => plain(c.label) },
        { head: T.credentials.read, by: (c) => c.last_decrypted ?? "", cell: (c) => (c.last_decrypted ? <Time at={c.last_decrypted} relative /> : T.account.never) },
      ]}
      can={may.managed()}
      add={T.credentials.add}
      form={(of, close) => <CredentialForm kind={of ? "label" : "add"} of={of} close={close} done={done} />}
      more={[{ text: T.credentials.login, label: (c) => T.credentials.loginOf(c.label), dialog: (c, close) => <CredentialForm kind="login" of={c} close={close} done={done} /> }]}
      remove={{ title: T.credentials.deleteTitle, text: T.credentials.deleteText, run: (c) => call("POST /v4/managed/credentials/{credentialId}/revoke", { path: { credentialId: c.id } }) }}
    >
      <p class="hint">{T.credentials.text}</p>
    </Items>
  );
}

function CredentialForm({ kind, of, close, done }: { kind: "add" | "label" | "login"; of?: CredentialView; close: () => void; done: () => void }) {
  const [label, setLabel] = useState(of?.label ?? "");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const path = { credentialId: of?.id ?? 0 };
  const save = async () => {
    if (kind === "add") await call("POST /v4/managed/credentials", { body: { label, username: username || null, password } });
    else if (kind === "label") await call("PUT /v4/managed/credentials/{credentialId}", { path, body: { label } });
    else await call("POST /v4/managed/credentials/{credentialId}/update", { path, body: { username: username || null, password } });
    done();
  };
  const title = of ? (kind === "label" ? T.contacts.changeOf(plain(of.label)) : T.credentials.loginOf(plain(of.label))) : T.credentials.add;
  return (
    <FormDialog title={title} fields={["label", "username", "password"]} close={close} save={save} saved={T.settings.saved}>
      {(failure) => (
        <>
          {kind !== "login" && <Text label={T.databases.label} name="label" failure={failure} value={label} set={setLabel} />}
          {kind !== "label" && (
            <>
              <Text label={T.account.name} name="username" failure={failure} value={username} set={setUsername} />
              <Text label={T.account.password} name="password" type="password" failure={failure} value={password} set={setPassword} />
            </>
          )}
        </>
      )}
    </FormDialog>
  );
}
