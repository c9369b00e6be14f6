// Events: what happened.
import { useState } from "preact/hooks";
import type { EventView } from "./api";
import { call } from "./call";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Card, Field, Loaded, Page, Status, Table, Time } from "./ui";

function linkOf(e: EventView): string | undefined {
  const found = /^\/v4\/databases\/(mysql|postgresql)\/instances\/(\d+)$/.exec(e.entity.url);
  if (found) return `/console/databases/${found[1]}/${found[2]}`;
  if (/^\/v4\/managed\/status-pages\//.test(e.entity.url)) return "/console/status-pages";
  const managed = /^\/v4\/managed\/(services|issues)\/(\d+)$/.exec(e.entity.url);
  return managed ? `/console/${managed[1]}/${managed[2]}` : undefined;
}

export function EventList({ limit, filter }: { limit: number; filter?: Record<string, unknown> }) {
  const query = { page_size: Math.max(25, limit) };
  const read = useReader("events" + JSON.stringify([limit, filter]), (background) =>
    call("GET /v4/account/events", { query, filter, background }),
  );
  return (
    <Loaded of={read}>
      {(list) => (
        <Table
          label={T.events.title}
          rows={list.data.slice(0, limit)}
          id={(e) => e.id}
          empty={<p>{T.events.none}</p>}
          columns={[
            { head: T.events.when, cell: (e) => <Time at={e.created} relative /> },
            { head: T.events.what, cell: (e) => plain(T.actions[e.action] ?? e.action.replaceAll("_", " ")) },
            { head: T.events.about, cell: (e) => (linkOf(e) ? <a href={linkOf(e)}>{plain(e.entity.label)}</a> : plain(e.entity.label)) },
            { head: T.events.who, cell: (e) => plain(e.username ?? T.events.steward) },
            {
              head: T.events.state,
              cell: (e) => (
                <>
                  <Status of={e.status} percent={e.status === "started" ? e.percent_complete : undefined} /> {e.message && <span class="quiet">{plain(e.message)}</span>}
                </>
              ),
            },
          ]}
        />
      )}
    </Loaded>
  );
}

export function Events() {
  const [status, setStatus] = useState("");
  const [kind, setKind] = useState("");
  const filter: Record<string, unknown> = {};
  if (status) filter["status"] = status;
  if (kind) filter["entity.type"] = kind;
  return (
    <Page title={T.events.title}>
      <Card title={T.events.all} wide>
        <div class="filters">
          <Field label={T.events.state} name="status">
            {(p) => (
              <select {...p} value={status} onChange={(e) => setStatus(e.currentTarget.value)}>
                <option value="">{T.any}</option>
                {["started", "finished", "failed", "scheduled", "notification"].map((s) => (
                  <option key={s} value={s}>
                    {T.status[s]}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label={T.events.kind} name="kind">
            {(p) => (
              <select {...p} value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
                <option value="">{T.any}</option>
                <option value="database">{T.nav.databases}</option>
                <option value="managed_service">{T.nav.services}</option>
              </select>
            )}
          </Field>
        </div>
        <EventList limit={100} filter={filter} />
      </Card>
    </Page>
  );
}
