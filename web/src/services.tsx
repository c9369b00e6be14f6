// Services that are watched: the list, one of them, and the form.
import { useState } from "preact/hooks";
import type { CheckView, ChecksView, ServiceCreate, ServiceView, UptimeView } from "./api";
import { call, whole } from "./call";
import { plain, round } from "./format";
import { useReader, type Reader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { Alert, Button, Card, Choice, Danger, Facts, Field, Loaded, Page, Problems, say, Status, Table, Text, Time, useAction } from "./ui";
import { may } from "./who";

export function Services() {
  const read = useReader("services", (background) => whole((page) => call("GET /v4/managed/services", { query: { page, page_size: 500 }, background })));
  return (
    <Page title={T.services.title} actions={may.managed() && <a class="button main" href="/console/services/add">{T.services.add}</a>}>
      <Loaded of={read}>
        {(all) => (
          <Table
            label={T.services.title}
            rows={all}
            id={(s) => s.id}
            empty={<p>{T.services.none}</p>}
            columns={[
              { head: T.databases.label, by: (s) => s.label, cell: (s) => <a href={`/console/services/${s.id}`}>{plain(s.label)}</a> },
              { head: T.databases.status, by: (s) => s.status, cell: (s) => <Status of={s.status} /> },
              { head: T.services.since, by: (s) => s.status_since, cell: (s) => <Time at={s.status_since} relative /> },
              { head: T.services.address, cell: (s) => plain(s.address) },
              { head: T.services.certificate, by: (s) => s.certificate_expires ?? "", cell: (s) => <Time at={s.certificate_expires} /> },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}

const back: [string, string] = ["/console/services", T.services.title];

export function AddService() {
  return (
    <Page title={T.services.add} back={back}>
      {may.managed() ? (
        <Card title={T.services.what}>
          <Form
            save={async (body) => {
              const made = await call("POST /v4/managed/services", { body });
              say(T.services.added);
              go(`/console/services/${made.id}`);
            }}
          />
        </Card>
      ) : (
        <Alert kind="warn">{T.forbidden}</Alert>
      )}
    </Page>
  );
}

export function Service({ id }: { id: number }) {
  const path = { serviceId: id };
  const read = useReader(`service/${id}`, (background) => call("GET /v4/managed/services/{serviceId}", { path, background }), 10_000); // no event tells of a first good check
  const checks = useReader(`checks/${id}`, (background) => call("GET /v4/managed/services/{serviceId}/checks", { path, query: { page_size: 100 }, background }), 30_000);
  return (
    <Page title={read.data?.label ?? T.services.one} back={back}>
      <Loaded of={read}>
        {(s) => (
          <>
            <div class="columns">
              <State service={s} reader={read} checked={() => checks.read()} />
              <Card title={T.services.uptime}>
                <Loaded of={checks}>{(c) => <Uptime of={c} />}</Loaded>
              </Card>
            </div>
            <Card title={T.services.checks} wide>
              <Loaded of={checks}>{(c) => <Checks of={c} />}</Loaded>
            </Card>
            {may.managed() && (
              <Card title={T.services.change} wide>
                <Form
                  key={s.updated}
                  of={s}
                  save={async (body) => {
                    await call("PUT /v4/managed/services/{serviceId}", { path, body });
                    say(T.settings.saved);
                    read.read();
                  }}
                />
              </Card>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function State({ service: s, reader, checked }: { service: ServiceView; reader: Reader<ServiceView>; checked: () => void }) {
  const [deleting, setDeleting] = useState(false);
  const doing = useAction();
  const path = { serviceId: s.id };
  const turn = () => doing.run(() => (s.status === "disabled" ? call("POST /v4/managed/services/{serviceId}/enable", { path }) : call("POST /v4/managed/services/{serviceId}/disable", { path }))).then(() => reader.read());
  return (
    <Card title={T.database.state}>
      {s.status === "problem" && s.status_reason && <Alert>{plain(s.status_reason)}</Alert>}
      <Facts
        of={[
          [T.databases.status, <Status of={s.status} />],
          [T.services.since, <Time at={s.status_since} />],
          [T.services.address, plain(s.address)],
          [T.services.interval, s.interval ? T.alerts.length(s.interval) : T.services.usual],
          [T.services.certificate, <Time at={s.certificate_expires} />],
          [T.services.notes, plain(s.notes ?? T.none)],
        ]}
      />
      <Problems failure={doing.failure} />
      {may.managed() && (
        <div class="actions">
          {s.status !== "disabled" && (
            <Button onClick={() => void doing.run(() => call("POST /v4/managed/services/{serviceId}/check", { path }), T.services.checking).then(() => setTimeout(checked, 3000))} disabled={doing.busy}>
              {T.services.checkNow}
            </Button>
          )}
          <Button onClick={() => void turn()} disabled={doing.busy}>
            {s.status === "disabled" ? T.services.enable : T.services.disable}
          </Button>
          <Button kind="danger" onClick={() => setDeleting(true)}>
            {T.delete}
          </Button>
        </div>
      )}
      {deleting && (
        <Danger
          title={T.services.deleteTitle}
          text={<p>{T.services.deleteText}</p>}
          name={s.label}
          action={T.delete}
          close={() => setDeleting(false)}
          run={async () => {
            await call("DELETE /v4/managed/services/{serviceId}", { path });
            go("/console/services");
          }}
        />
      )}
    </Card>
  );
}

function milliseconds(seconds: number): string {
  return `${round(1000 * seconds)} ms`;
}

function Uptime({ of }: { of: ChecksView }) {
  const rows: [string, UptimeView][] = [[T.services.day, of.last_24_hours], [T.services.week, of.last_7_days], [T.services.month, of.last_30_days]];
  return (
    <Table
      label={T.services.uptime}
      rows={rows}
      id={([name]) => name}
      columns={[
        { head: T.metrics.span, cell: ([name]) => name },
        { head: T.services.up, number: true, cell: ([, u]) => (u.uptime === null ? T.none : `${round(u.uptime)} %`) },
        { head: T.services.failures, number: true, cell: ([, u]) => `${u.failures} / ${u.checks}` },
        { head: T.services.mean, number: true, cell: ([, u]) => (u.checks === 0 ? T.none : milliseconds(u.mean_response_time)) },
        { head: T.services.longest, number: true, cell: ([, u]) => (u.checks === 0 ? T.none : milliseconds(u.longest_response_time)) },
      ]}
    />
  );
}

function Checks({ of }: { of: ChecksView }) {
  const last = [...of.data].slice(0, 60).reverse();
  return (
    <>
      <svg class="timeline" viewBox={`0 0 ${Math.max(last.length, 1)} 1`} preserveAspectRatio="none" aria-hidden="true">
        {last.map((c, i) => (
          <rect key={c.started + i} x={i + 0.1} y="0" width="0.8" height="1" class={c.result === "ok" ? "covered" : "missed"} />
        ))}
      </svg>
      <details>
        <summary>{T.services.table}</summary>
        <Table
          label={T.services.checks}
          rows={of.data.map((c, n) => ({ ...c, n }))}
          id={(c) => c.n}
          empty={<p>{T.services.noChecks}</p>}
          columns={[
            { head: T.metrics.time, cell: (c: CheckView) => <Time at={c.started} /> },
            { head: T.services.result, cell: (c: CheckView) => plain(c.result.replaceAll("_", " ")) },
            { head: T.services.response, number: true, cell: (c: CheckView) => milliseconds(c.response_time) },
          ]}
        />
      </details>
    </>
  );
}

function Form({ of, save }: { of?: ServiceView; save: (body: ServiceCreate) => Promise<unknown> }) {
  const [body, setBody] = useState<ServiceCreate>(
    of
      ? { label: of.label, service_type: of.service_type, address: of.address, timeout: of.timeout, body: of.body, interval: of.interval, region: of.region, notes: of.notes, consultation_group: of.consultation_group }
      : { label: "", service_type: "url", address: "", timeout: 10 },
  );
  const doing = useAction();
  const regions = useReader("regions", (background) => call("GET /v4/regions", { background }));
  const text = (name: "label" | "address" | "body" | "notes" | "consultation_group", label: string, hint?: string) => (
    <Text label={label} name={name} failure={doing.failure} hint={hint} value={body[name] ?? ""} set={(to) => setBody({ ...body, [name]: to })} />
  );
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        void doing.run(() => save(body));
      }}
    >
      {text("label", T.databases.label)}
      <Choice label={T.services.type} name="service_type" failure={doing.failure} value={body.service_type} set={(to) => setBody({ ...body, service_type: to === "tcp" ? "tcp" : "url" })} of={[["url", T.services.url], ["tcp", T.services.tcp]]} />
      {text("address", T.services.address, body.service_type === "url" ? T.services.urlHint : T.services.tcpHint)}
      <Choice label={T.create.region} name="region" failure={doing.failure} hint={T.services.regionHint} value={body.region ?? ""} set={(to) => setBody({ ...body, region: to || null })} of={[["", T.any], ...(regions.data?.data ?? []).map((r) => [r.id, r.label] as const)]} />
      <Field label={T.services.timeout} name="timeout" failure={doing.failure}>
        {(p) => <input {...p} type="number" min={1} max={255} value={body.timeout} onInput={(e) => setBody({ ...body, timeout: Number(e.currentTarget.value) })} />}
      </Field>
      <Field label={T.services.intervalSeconds} name="interval" failure={doing.failure} hint={T.services.intervalHint}>
        {(p) => <input {...p} type="number" min={10} value={body.interval ?? ""} onInput={(e) => setBody({ ...body, interval: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) })} />}
      </Field>
      {body.service_type === "url" && text("body", T.services.body, T.services.bodyHint)}
      {text("consultation_group", T.services.group, T.services.groupHint)}
      {text("notes", T.services.notes)}
      <Problems failure={doing.failure} fields={["label", "service_type", "address", "timeout", "interval", "region", "body", "consultation_group", "notes"]} />
      <Button submit kind="main" disabled={doing.busy}>
        {T.save}
      </Button>
    </form>
  );
}
