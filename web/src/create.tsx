// Create a database: one page, with what it comes to beside it.
import { useState } from "preact/hooks";
import type { EngineView, LoginView, PostgresqlCreate, RegionView, TypeView } from "./api";
import { call } from "./call";
import { engineName, isEngine, pageOf } from "./db";
import { useReader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { Button, Card, Code, Facts, Field, Loaded, Page, Problems, say, useAction } from "./ui";

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
  const offer = useReader("offer", readOffer);
  return (
    <Page title={T.create.title} back={["/console/databases", T.databases.title]}>
      <Loaded of={offer}>{(o) => <Form offer={o} />}</Loaded>
    </Page>
  );
}

export function lines(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
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
  const body: PostgresqlCreate = { label, engine, type, region, cluster_size: size, allow_list: lines(allow), ...(kind === "mysql" && encrypted ? { encrypted } : {}) };
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
        <Field label={T.create.engine} name="engine" failure={doing.failure}>
          {(p) => (
            <select {...p} value={engine} onChange={(e) => setEngine(e.currentTarget.value)}>
              {offer.engines.map((e) => (
                <option key={e.id} value={e.id}>
                  {engineName(e)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.create.plan} name="type" failure={doing.failure}>
          {(p) => (
            <select {...p} value={type} onChange={(e) => setType(e.currentTarget.value)}>
              {offer.types.map((t) => (
                <option key={t.id} value={t.id}>
                  {T.create.planText(t.label, t.vcpus, t.memory / 1024, t.disk / 1024)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.create.nodes} name="cluster_size" failure={doing.failure} hint={size === 1 ? T.create.oneNode : kind === "postgresql" ? T.create.threeNodes : T.create.threeNodesMysql}>
          {(p) => (
            <select {...p} value={size} onChange={(e) => setSize(e.currentTarget.value === "3" ? 3 : 1)}>
              <option value="1">{T.create.one}</option>
              <option value="3">{T.create.three}</option>
            </select>
          )}
        </Field>
        <Field label={T.create.region} name="region" failure={doing.failure}>
          {(p) => (
            <select {...p} value={region} onChange={(e) => setRegion(e.currentTarget.value)}>
              {offer.regions.map((r) => (
                <option key={r.id} value={r.id}>
                  {r.label}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.create.allow} name="allow_list" failure={doing.failure} hint={lines(allow).length === 0 ? T.create.allowNone : T.create.allowHint}>
          {(p) => <textarea {...p} rows={3} value={allow} spellcheck={false} onInput={(e) => setAllow(e.currentTarget.value)} />}
        </Field>
        {offer.address && (
          <p>
            <Button onClick={() => setAllow([...new Set([...lines(allow), network(offer.address as string)])].join("\n"))}>{T.create.addMine(offer.address)}</Button>
          </p>
        )}
        {kind === "mysql" && (
          <p class="check">
            <label>
              <input type="checkbox" checked={encrypted} onChange={(e) => setEncrypted(e.currentTarget.checked)} /> {T.create.encrypted}
            </label>
          </p>
        )}
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
  if (b.encrypted) words.push("--encrypted");
  return words.map(quote).join(" ");
}

// terraform is the same for the provider that the vendor's API has; a string of its language
// has ${ and %{ in it doubled.
function terraform(b: PostgresqlCreate, kind: string): string {
  const text = (s: string) => JSON.stringify(s).replaceAll(/[$%]\{/g, (found) => found.charAt(0) + found);
  const name = (b.label || "database").replaceAll(/[^\w-]/g, "_");
  const series = (b.engine ?? "").split("/").at(-1) ?? "";
  const lines = [
    `resource "linode_database_${kind}_v2" ${text(name)} {`,
    `  label        = ${text(b.label || "LABEL")}`,
    `  engine_id    = ${text(`${kind}/${series.split(".")[0]}`)}`,
    `  region       = ${text(b.region ?? "")}`,
    `  type         = ${text(b.type ?? "")}`,
    `  cluster_size = ${b.cluster_size ?? 1}`,
    `  allow_list   = [${(b.allow_list ?? []).map(text).join(", ")}]`,
    "}",
  ];
  return `provider "linode" {\n  url   = ${text(location.origin)}\n  token = var.steward_token\n}\n\n${lines.join("\n")}`;
}
