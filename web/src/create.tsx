// Create a database: one page, with what it comes to beside it.
import { useState } from "preact/hooks";
import type { EngineView, LoginView, PostgresqlCreate, RegionView, TypeView } from "./api";
import { call } from "./call";
import { engineName, isEngine, pageOf } from "./db";
import { useReader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { Alert, Button, Card, Choice, Code, Facts, Field, Loaded, Page, Problems, say, Text, Tick, useAction } from "./ui";
import { may } from "./who";

interface Offer {
  engines: EngineView[];
  types: TypeView[];
  regions: RegionView[];
  // address is where the last log-in of this user came from.
  address?: string;
}

async function readOffer(background: boolean): Promise<Offer> {
  const [engines, types, regions, logins] = await Promise.all([
    call("GET /v4/databases/engines", { background }),
    call("GET /v4/databases/types", { background }),
    call("GET /v4/regions", { background }),
    call("GET /v4/profile/logins", { background, query: { page_size: 25 } }),
  ]);
  const last = logins.data.find((l: LoginView) => l.status === "successful");
  return { engines: engines.data, types: types.data.filter((t) => !t.deprecated), regions: regions.data, address: last?.ip };
}

export function Create() {
  const offer = useReader(may.create() ? "offer" : null, readOffer);
  return (
    <Page title={T.create.title} back={["/console/databases", T.databases.title]}>
      {may.create() ? <Loaded of={offer}>{(o) => <Form offer={o} />}</Loaded> : <Alert kind="warn">{T.create.mayNot}</Alert>}
    </Page>
  );
}

export function lines(text: string): string[] {
  return text.replace(/#.*$/gm, "").split(/[\s,]+/).filter(Boolean);
}

// notesOf are the notes on addresses: what stands behind a # on the line of each.
export function notesOf(text: string): Record<string, string> {
  const notes: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf("#");
    const note = at < 0 ? "" : line.slice(at + 1).trim();
    if (note) for (const address of lines(line)) notes[address] = note;
  }
  return notes;
}

// noted is an allow list as it is typed, with its notes.
export function noted(list: string[], notes: Record<string, string>): string {
  return list.map((a) => (notes[a] ? `${a} # ${notes[a]}` : a)).join("\n");
}

// network is an address as the allow list wants it.
export function network(address: string): string {
  return address.includes("/") ? address : address + (address.includes(":") ? "/128" : "/32");
}

function Form({ offer }: { offer: Offer }) {
  const [label, setLabel] = useState("");
  const [engine, setEngine] = useState(offer.engines[0]?.id ?? "");
  const [type, setType] = useState(offer.types[0]?.id ?? "");
  const [region, setRegion] = useState(offer.regions[0]?.id ?? "");
  const [size, setSize] = useState<1 | 3>(1);
  const [allow, setAllow] = useState("");
  const [encrypted, setEncrypted] = useState(false);
  const doing = useAction();
  const chosen = offer.engines.find((e) => e.id === engine);
  const kind = isEngine(chosen?.engine) ? chosen.engine : "postgresql";
  const plan = offer.types.find((t) => t.id === type);
  const price = plan?.engines[kind].find((p) => p.quantity === size)?.price;
  const body: PostgresqlCreate = { label, engine, type, region, cluster_size: size, allow_list: lines(allow), ...(Object.keys(notesOf(allow)).length > 0 ? { allow_list_notes: notesOf(allow) } : {}), ...(kind === "mysql" && encrypted ? { encrypted } : {}) };
  const fields = ["label", "engine", "type", "region", "cluster_size", "allow_list", "encrypted"];
  const submit = async (e: Event) => {
    e.preventDefault();
    await doing.run(async () => {
      const made = kind === "mysql" ? await call("POST /v4/databases/mysql/instances", { body }) : await call("POST /v4/databases/postgresql/instances", { body });
      say(T.create.begun(label));
      go(pageOf(made));
    });
  };
  return (
    <form class="columns" onSubmit={(e) => void submit(e)}>
      <Card title={T.create.what}>
        <Field label={T.create.label} name="label" failure={doing.failure} hint={T.create.labelHint}>
          {(p) => <input {...p} value={label} required autocomplete="off" spellcheck={false} onInput={(e) => setLabel(e.currentTarget.value)} />}
        </Field>
        <Choice label={T.create.engine} name="engine" failure={doing.failure} value={engine} set={setEngine} of={offer.engines.map((e) => [e.id, engineName(e)] as const)} />
        <Choice label={T.create.plan} name="type" failure={doing.failure} value={type} set={setType} of={offer.types.map((t) => [t.id, T.create.planText(t.label, t.vcpus, t.memory / 1024, t.disk / 1024)] as const)} />
        <Choice
          label={T.create.nodes}
          name="cluster_size"
          failure={doing.failure}
          hint={size === 1 ? T.create.oneNode : kind === "postgresql" ? T.create.threeNodes : T.create.threeNodesMysql}
          value={String(size)}
          set={(n) => setSize(n === "3" ? 3 : 1)}
          of={[["1", T.create.one], ["3", T.create.three]]}
        />
        <Choice label={T.create.region} name="region" failure={doing.failure} value={region} set={setRegion} of={offer.regions.map((r) => [r.id, r.label] as const)} />
        <Text label={T.create.allow} name="allow_list" rows={3} failure={doing.failure} hint={lines(allow).length === 0 ? T.create.allowNone : T.create.allowHint} value={allow} set={setAllow} />
        {offer.address && (
          <p>
            <Button onClick={() => setAllow(lines(allow).includes(network(offer.address as string)) ? allow : [allow.trimEnd(), network(offer.address as string)].filter(Boolean).join("\n"))}>{T.create.addMine(offer.address)}</Button>
          </p>
        )}
        {kind === "mysql" && <Tick label={T.create.encrypted} on={encrypted} set={setEncrypted} />}
        <Problems failure={doing.failure} fields={fields} />
      </Card>
      <div>
        <Card title={T.create.summary}>
          <Facts
            of={[
              [T.create.engine, chosen ? engineName(chosen) : T.none],
              [T.create.plan, plan ? plan.label : T.none],
              [T.create.nodes, String(size)],
              [T.create.price, price && (price.hourly > 0 || price.monthly > 0) ? T.create.priceText(price.monthly, price.hourly) : T.create.free],
            ]}
          />
          <Button submit kind="main" disabled={doing.busy}>
            {T.create.create}
          </Button>
        </Card>
        <Card title={T.create.same}>
          <h3>curl</h3>
          <Code what="curl" text={curl("POST", `/v4/databases/${kind}/instances`, body)} />
          <h3>{T.create.line}</h3>
          <Code what={T.create.line} text={commandLine(body, kind)} />
          <h3>Terraform</h3>
          <Code what="Terraform" text={terraform(body, kind)} />
        </Card>
      </div>
    </form>
  );
}

function quote(text: string): string {
  return /^[\w./:,=-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

export function curl(method: string, path: string, body?: unknown): string {
  const data = body === undefined ? "" : ` \\\n  -d ${quote(JSON.stringify(body))}`;
  return `curl -s -H "Authorization: Bearer $STEWARD_TOKEN"${method === "GET" ? "" : " -X " + method} \\\n  ${location.origin}${path}${data}`;
}

function commandLine(b: PostgresqlCreate, kind: string): string {
  const words = ["steward", "db", "create", b.label || "LABEL", "--engine=" + (b.engine?.includes("/") ? b.engine : `${kind}/${b.engine}`), "--type=" + b.type, "--region=" + b.region, "--nodes=" + b.cluster_size];
  if (b.allow_list?.length) words.push("--allow=" + b.allow_list.join(","));
  for (const [address, note] of Object.entries(b.allow_list_notes ?? {})) words.push(`--allow-note=${address}=${note}`);
  if (b.encrypted) words.push("--encrypted");
  return words.map(quote).join(" ");
}

// terraform is the same for the provider that the vendor's API has; a string of its language
// has ${ and %{ in it doubled. What it has no argument for is told there.
function terraform(b: PostgresqlCreate, kind: string): string {
  const text = (s: string) => JSON.stringify(s).replaceAll(/[$%]\{/g, (found) => found.charAt(0) + found);
  const name = (b.label || "database").replaceAll(/[^\w-]/g, "_");
  const notes = Object.entries(b.allow_list_notes ?? {}).map(([address, note]) => `${address}: ${note.replaceAll(/\s+/g, " ")}`);
  const missing = [...(b.encrypted ? [T.create.unencrypted] : []), ...(notes.length > 0 ? [T.create.unnoted, ...notes] : [])];
  const series = (b.engine ?? "").split("/").at(-1) ?? "";
  const lines = [
    `resource "linode_database_${kind}_v2" ${text(name)} {`,
    `  label        = ${text(b.label || "LABEL")}`,
    `  engine_id    = ${text(`${kind}/${series.split(".")[0]}`)}`,
    `  region       = ${text(b.region ?? "")}`,
    `  type         = ${text(b.type ?? "")}`,
    `  cluster_size = ${b.cluster_size ?? 1}`,
    `  allow_list   = [${(b.allow_list ?? []).map(text).join(", ")}]`,
    ...missing.map((m) => `  # ${m}`),
    "}",
  ];
  return `provider "linode" {\n  url   = ${text(location.origin)}\n  token = var.steward_token\n}\n\n${lines.join("\n")}`;
}
