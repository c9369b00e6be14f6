// Settings: plan, window, parameters, and what stops or ends a database.
import { useState } from "preact/hooks";
import type { DatabaseUpdate } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { plain } from "./format";
import { useReader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { Alert, Button, Card, Choice, Danger, Field, Loaded, Problems, Sure, Text, Tick, Time, say, useAction } from "./ui";
import { Version } from "./version";
import { may } from "./who";

type Open = "suspend" | "resume" | "restart" | "switchover" | "patch" | "reset" | "delete";

export function Settings(props: Props) {
  const { db } = props;
  if (!may.change(db.id)) return <Alert kind="warn">{T.readOnly}</Alert>;
  return (
    <>
      <div class="columns">
        <General {...props} />
        <Window {...props} />
      </div>
      <Parameters {...props} />
      {props.db.engine === "postgresql" && <Version {...props} />}
      <Verbs {...props} />
    </>
  );
}

function save({ db, path, reader }: Props, body: DatabaseUpdate) {
  return async () => {
    await call(`PUT /v4/databases/${db.engine}/instances/{instanceId}`, { path, body });
    reader.read();
  };
}

function General(props: Props) {
  const { db } = props;
  const [label, setLabel] = useState(db.label);
  const [type, setType] = useState(db.type);
  const [size, setSize] = useState(String(db.cluster_size));
  const [protection, setProtection] = useState(db.deletion_protection);
  const [idle, setIdle] = useState(String(db.auto_suspend.idle_minutes));
  const [grow, setGrow] = useState(db.autoscale.enabled);
  const [most, setMost] = useState(db.autoscale.max_type ?? "");
  const [threshold, setThreshold] = useState(String(db.autoscale.threshold_percent));
  const doing = useAction();
  const types = useReader("types", (background) => call("GET /v4/databases/types", { background }));
  const body: DatabaseUpdate = {};
  if (label !== db.label) body.label = label;
  if (type !== db.type) body.type = type;
  if (size !== String(db.cluster_size)) body.cluster_size = size === "3" ? 3 : 1;
  if (protection !== db.deletion_protection) body.deletion_protection = protection;
  if (idle !== String(db.auto_suspend.idle_minutes)) body.auto_suspend = { idle_minutes: Number(idle) };
  const autoscale: DatabaseUpdate["autoscale"] = {};
  if (grow !== db.autoscale.enabled) autoscale.enabled = grow;
  if (most !== (db.autoscale.max_type ?? "") && most !== "") autoscale.max_type = most;
  if (threshold !== String(db.autoscale.threshold_percent)) autoscale.threshold_percent = Number(threshold);
  if (Object.keys(autoscale).length > 0) body.autoscale = autoscale;
  const fields = ["label", "type", "cluster_size", "deletion_protection", "auto_suspend", "autoscale.max_type", "autoscale.threshold_percent"];
  return (
    <Card title={T.settings.general}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void doing.run(save(props, body), T.settings.saved);
        }}
      >
        <Text label={T.create.label} name="label" failure={doing.failure} value={label} set={setLabel} />
        <Choice
          label={T.create.plan}
          name="type"
          failure={doing.failure}
          hint={T.settings.planHint}
          value={type}
          set={setType}
          of={types.data ? types.data.data.map((t) => [t.id, T.create.planText(t.label, t.vcpus, t.memory / 1024, t.disk / 1024)] as const) : [[db.type, db.type]]}
        />
        <Choice label={T.create.nodes} name="cluster_size" failure={doing.failure} value={size} set={setSize} of={[["1", T.create.one], ["3", T.create.three]]} />
        <Text label={T.settings.idle} name="auto_suspend" type="number" failure={doing.failure} hint={T.settings.idleHint} value={idle} set={setIdle} />
        <Tick label={T.settings.protection} on={protection} set={setProtection} />
        <Tick label={T.settings.grow} on={grow} set={setGrow} />
        {grow && (
          <>
            <Choice label={T.settings.growTo} name="autoscale.max_type" failure={doing.failure} value={most} set={setMost} of={[["", T.extensions.choose], ...(types.data?.data ?? []).map((t) => [t.id, t.label] as const)]} />
            <Text label={T.settings.growAt} name="autoscale.threshold_percent" type="number" failure={doing.failure} value={threshold} set={setThreshold} />
          </>
        )}
        <Problems failure={doing.failure} fields={fields} />
        <Button submit kind="main" disabled={doing.busy || Object.keys(body).length === 0}>
          {T.save}
        </Button>
      </form>
    </Card>
  );
}

function Window(props: Props) {
  const { updates } = props.db;
  const [day, setDay] = useState(updates.day_of_week);
  const [hour, setHour] = useState(updates.hour_of_day);
  const [hours, setHours] = useState(updates.duration);
  const [monthly, setMonthly] = useState(updates.frequency === "monthly");
  const [week, setWeek] = useState(updates.week_of_month ?? 1);
  const doing = useAction();
  const body: DatabaseUpdate = { updates: { day_of_week: day, hour_of_day: hour, duration: hours, frequency: monthly ? "monthly" : "weekly", week_of_month: monthly ? week : null } };
  const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const number = (name: string, label: string, value: number, set: (n: number) => void, all: number[], text: (n: number) => string) => (
    <Choice label={label} name={name} failure={doing.failure} value={String(value)} set={(to) => set(Number(to))} of={all.map((n) => [String(n), text(n)] as const)} />
  );
  return (
    <Card title={T.settings.window}>
      {updates.pending.length > 0 && (
        <Alert kind="warn">
          <ul>
            {updates.pending.map((p) => (
              <li key={p.description}>
                {plain(p.description)} {p.planned_for && <Time at={p.planned_for} />}
              </li>
            ))}
          </ul>
        </Alert>
      )}
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void doing.run(save(props, body), T.settings.saved);
        }}
      >
        <Choice label={T.settings.often} name="updates.frequency" failure={doing.failure} value={monthly ? "monthly" : "weekly"} set={(to) => setMonthly(to === "monthly")} of={[["weekly", T.settings.weekly], ["monthly", T.settings.monthly]]} />
        {monthly && number("updates.week_of_month", T.settings.week, week, setWeek, numbers(1, 4), String)}
        {number("updates.day_of_week", T.settings.day, day, setDay, numbers(1, 7), (n) => T.settings.days[n - 1] ?? "")}
        {number("updates.hour_of_day", T.settings.hour, hour, setHour, numbers(0, 23), (n) => `${String(n).padStart(2, "0")}:00`)}
        {number("updates.duration", T.settings.length, hours, setHours, numbers(1, 4), (n) => T.settings.hours(n))}
        <Problems failure={doing.failure} fields={["updates"]} />
        <Button submit kind="main" disabled={doing.busy}>
          {T.save}
        </Button>
      </form>
    </Card>
  );
}

interface Parameter {
  // path is the section, when there is one, and the name.
  path: string[];
  description: string;
  type: string;
  minimum?: number;
  maximum?: number;
  enum?: string[];
  restart: boolean;
}

// parametersOf reads the sections of the API's list of settings.
function parametersOf(sections: Record<string, unknown>, path: string[] = []): Parameter[] {
  return Object.entries(sections).flatMap(([name, value]) => {
    if (typeof value !== "object" || value === null) return [];
    const v = value as Record<string, unknown>;
    if (typeof v["description"] !== "string" || typeof v["type"] !== "string") return parametersOf(v, [...path, name]);
    return [
      {
        path: [...path, name], description: v["description"], type: v["type"], minimum: v["minimum"] as number | undefined, maximum: v["maximum"] as number | undefined,
        enum: v["enum"] as string[] | undefined, restart: v["requires_restart"] === true,
      },
    ];
  });
}

function valueAt(config: unknown, path: string[]): unknown {
  return path.reduce<unknown>((at, name) => (typeof at === "object" && at !== null ? (at as Record<string, unknown>)[name] : undefined), config);
}

function textOf(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

function parse(p: Parameter, text: string): unknown {
  if (text === "") return null;
  if (p.type === "boolean") return text === "true";
  if ((p.type === "integer" || p.type === "number") && !Number.isNaN(Number(text))) return Number(text);
  return text;
}

function Parameters(props: Props) {
  const { db } = props;
  const [edited, setEdited] = useState<Record<string, string>>({});
  const [filter, setFilter] = useState("");
  const doing = useAction();
  const known = useReader(`config/${db.engine}`, (background) => call(`GET /v4/databases/${db.engine}/config`, { background }));
  return (
    <Card title={T.settings.parameters} wide>
      <Loaded of={known}>
        {(sections) => {
          const all = parametersOf(sections);
          const changes = all.filter((p) => {
            const text = edited[p.path.join(".")];
            return text !== undefined && text !== textOf(valueAt(db.engine_config, p.path));
          });
          const body: Record<string, unknown> = {};
          for (const p of changes) {
            let at = body;
            for (const name of p.path.slice(0, -1)) at = (at[name] ??= {}) as Record<string, unknown>;
            at[p.path.at(-1) as string] = parse(p, edited[p.path.join(".")] ?? "");
          }
          const shown = all.filter((p) => p.path.join(".").includes(filter) || changes.includes(p));
          return (
            <form
              onSubmit={(e) => {
                e.preventDefault();
                void doing.run(save(props, { engine_config: body }), T.settings.saved).then((done) => done && setEdited({}));
              }}
            >
              <Field label={T.settings.find} name="find">
                {(p) => <input {...p} type="search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />}
              </Field>
              <div class="parameters">
                {shown.map((p) => {
                  const name = p.path.join(".");
                  const value = edited[name] ?? textOf(valueAt(db.engine_config, p.path));
                  const set = (text: string) => setEdited({ ...edited, [name]: text });
                  const options = p.type === "boolean" ? ["true", "false"] : p.enum;
                  return (
                    <Field key={name} label={name} name={"engine_config." + name} failure={doing.failure} hint={plain(p.description) + (p.restart ? " " + T.settings.restarts : "")}>
                      {(f) =>
                        options ? (
                          <select {...f} value={value} onChange={(e) => set(e.currentTarget.value)}>
                            <option value="">{T.settings.default}</option>
                            {options.map((o) => (
                              <option key={o}>{o}</option>
                            ))}
                          </select>
                        ) : (
                          <input {...f} value={value} placeholder={T.settings.default} inputMode={p.type === "string" ? undefined : "decimal"} autocomplete="off" onInput={(e) => set(e.currentTarget.value)} />
                        )
                      }
                    </Field>
                  );
                })}
              </div>
              {changes.length > 0 && (
                <ul class="diff" aria-label={T.access.changes}>
                  {changes.map((p) => (
                    <li key={p.path.join(".")}>
                      {T.settings.change(p.path.join("."), textOf(valueAt(db.engine_config, p.path)) || T.settings.default, edited[p.path.join(".")] || T.settings.default)}
                      {p.restart && ` ${T.settings.restarts}`}
                    </li>
                  ))}
                </ul>
              )}
              <Problems failure={doing.failure} fields={shown.map((p) => "engine_config." + p.path.join("."))} />
              <div class="actions">
                <Button submit kind="main" disabled={doing.busy || changes.length === 0}>
                  {T.save}
                </Button>
                {changes.length > 0 && <Button onClick={() => setEdited({})}>{T.cancel}</Button>}
              </div>
            </form>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Verbs({ db, path, reader }: Props) {
  const [open, setOpen] = useState<Open>();
  const [kept, setKept] = useState(false);
  const close = () => setOpen(undefined);
  const at = `/v4/databases/${db.engine}/instances/{instanceId}` as const;
  const verbs: { [k in Exclude<Open, "delete">]: { run: () => Promise<unknown>; when: boolean } } = {
    suspend: { run: () => call(`POST ${at}/suspend`, { path }), when: db.status === "active" },
    resume: { run: () => call(`POST ${at}/resume`, { path }), when: db.status === "suspended" },
    restart: { run: () => call(`POST ${at}/restart`, { path }), when: db.status === "active" },
    switchover: { run: () => call(`POST ${at}/switchover`, { path }), when: db.status === "active" && db.cluster_size === 3 },
    patch: { run: () => call(`POST ${at}/patch`, { path }), when: db.status === "active" },
    reset: { run: () => call(`POST ${at}/credentials/reset`, { path }), when: db.status === "active" },
  };
  return (
    <Card title={T.settings.more} wide>
      <ul class="verbs">
        {(Object.keys(verbs) as Exclude<Open, "delete">[])
          .filter((v) => verbs[v].when)
          .map((v) => (
            <li key={v}>
              <p>{T.settings.verbs[v].text}</p>
              <Button onClick={() => setOpen(v)}>{T.settings.verbs[v].name}</Button>
            </li>
          ))}
        <li>
          <p>{db.deletion_protection ? T.settings.protected : T.settings.deleteText}</p>
          <Button kind="danger" disabled={db.deletion_protection} onClick={() => setOpen("delete")}>
            {T.settings.delete}
          </Button>
        </li>
      </ul>
      {open && open !== "delete" && (
        <Sure
          title={T.settings.verbs[open].name}
          text={<p>{T.settings.verbs[open].text}</p>}
          action={T.settings.verbs[open].name}
          close={close}
          run={async () => {
            await verbs[open].run();
            say(T.settings.asked);
            reader.read();
          }}
        />
      )}
      {open === "delete" && (
        <Danger
          title={T.settings.delete}
          text={<p>{kept ? T.settings.deleteKept : T.settings.deleteSure}</p>}
          name={db.label}
          action={T.settings.delete}
          close={close}
          run={async () => {
            await call(`DELETE ${at}`, { path, query: { final_backup: kept ? "true" : undefined } });
            say(T.settings.deleted(db.label));
            go("/console/databases");
          }}
        >
          <Tick label={T.settings.finalBackup} on={kept} set={setKept} />
        </Danger>
      )}
    </Card>
  );
}
