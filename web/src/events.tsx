// Events: what happened.
import { useState } from "preact/hooks";
import type { EventView } from "./api";
import { call } from "./call";
import { plain } from "./format";
import { soon, useReader } from "./live";
import { T } from "./text";
import { Button, Card, Choice, Dialog, Loaded, Page, Pager, Problems, Status, Table, Text, Time, useAction } from "./ui";
import { may } from "./who";

// pages are where the entities of events are seen, those with a page of their own by their number.
const pages: [RegExp, string][] = [
  [/^\/v4\/databases\/((?:mysql|postgresql)\/)instances\/(\d+)$/, "databases/$1$2"],
  [/^\/v4\/managed\/(services|issues)\/(\d+)$/, "$1/$2"],
  [/^\/v4\/managed\/(status-pages|contacts)\/.*/, "$1"],
  [/^\/v4\/managed\/credentials\/.*/, "machines/credentials"],
  [/^\/v4\/managed\/compute-settings\/.*/, "machines"],
  [/^\/v4\/monitor\/alert-channels\/.*/, "alerts/channels"],
  [/^\/v4\/monitor\/.*\/alert-definitions\/.*/, "alerts"],
  [/^\/v4\/support\/tickets\/.*/, "issues"],
  [/^\/v4\/profile\/tokens\/.*/, "account/tokens"],
  [/^\/v4\/account\/oauth-clients\/.*/, "account/clients"],
  [/^\/v4\/account\/users\/.*/, "account"],
];

function linkOf(e: EventView): string | undefined {
  const found = pages.find(([is]) => is.test(e.entity.url));
  return found && "/console/" + e.entity.url.replace(found[0], found[1]);
}

export function actionName(e: EventView): string {
  return T.actions[e.action] ?? e.action.replaceAll("_", " ");
}

type Asked = { limit: number; page?: number; filter?: Record<string, unknown> };

export function useEvents({ limit, page = 1, filter }: Asked) {
  const query = { page, page_size: Math.max(25, limit) };
  return useReader("events" + JSON.stringify([query, filter]), (background) => call("GET /v4/account/events", { query, filter, background }));
}

export function EventTable({ rows }: { rows: EventView[] }) {
  return (
    <Table
      label={T.events.title}
      rows={rows}
      id={(e) => e.id}
      empty={<p>{T.events.none}</p>}
      columns={[
        { head: T.events.when, cell: (e) => <Time at={e.created} relative /> },
        { head: T.events.what, cell: (e) => plain(actionName(e)) },
        { head: T.events.about, cell: (e) => (linkOf(e) ? <a href={linkOf(e)}>{plain(e.entity.label)}</a> : plain(e.entity.label)) },
        { head: T.events.who, cell: (e) => plain(e.username ?? T.events.steward) },
        {
          head: T.events.state,
          cell: (e) => (
            <>
              <Status of={e.status} percent={e.status === "started" ? e.percent_complete : undefined} /> {!e.seen && <span class="new">{T.events.new}</span>} {e.message && <span class="quiet">{plain(e.message)}</span>}
            </>
          ),
        },
      ]}
    />
  );
}

// Doing is what is done just now, and how far it is.
export function Doing({ event: e, bare }: { event: EventView; bare?: boolean }) {
  const name = actionName(e);
  return (
    <>
      {!bare && name}{" "}
      <span class="metered">
        <progress max={100} value={e.percent_complete > 0 ? e.percent_complete : undefined} aria-label={name} />
        {e.percent_complete > 0 && `${e.percent_complete} %`}
      </span>{" "}
      {e.message && <span class="quiet">{plain(e.message)}</span>}
    </>
  );
}

// Feed is events as a list, for where there is no room for a table.
function Feed({ rows, empty }: { rows: EventView[]; empty: string }) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    <ul class="feed">
      {rows.map((e) => (
        <li key={e.id}>
          <p>
            <strong>{plain(actionName(e))}</strong> {linkOf(e) ? <a href={linkOf(e)}>{plain(e.entity.label)}</a> : plain(e.entity.label)}
          </p>
          <p class="quiet">
            {e.status === "started" ? <Doing event={e} bare /> : <Status of={e.status} />} {plain(e.username ?? T.events.steward)}, <Time at={e.created} relative /> {!e.seen && <span class="new">{T.events.new}</span>} {e.status !== "started" && plain(e.message ?? "")}
          </p>
        </li>
      ))}
    </ul>
  );
}

export function EventList(asked: Asked) {
  const read = useEvents(asked);
  return <Loaded of={read}>{(list) => <Feed rows={list.data.slice(0, asked.limit)} empty={T.events.none} />}</Loaded>;
}

const started = { status: "started" };

// Drawer is what is under way and what happened last, over whichever page is open. Until it is opened nobody asks for it.
export function Drawer({ close }: { close: () => void }) {
  const doing = useEvents({ limit: 100, filter: started });
  const last = useEvents({ limit: 25 });
  return (
    <Dialog title={T.drawer.title} kind="drawer" close={close}>
      <div class="actions">
        <Button onClick={close}>{T.close}</Button>
        <a href="/console/events">{T.home.allEvents}</a>
      </div>
      {/* Who follows a link has left, even to the page that is open. */}
      <div onClick={(e) => (e.target as Element).closest("a") && close()}>
        <h3>{T.drawer.doing}</h3>
        <div role="status">
          <Loaded of={doing}>{(list) => <Feed rows={list.data} empty={T.drawer.idle} />}</Loaded>
        </div>
        <h3>{T.drawer.last}</h3>
        <Loaded of={last}>{(list) => <Feed rows={list.data.filter((e) => e.status !== "started")} empty={T.events.none} />}</Loaded>
      </div>
    </Dialog>
  );
}

const perPage = 50;

// EventPages are all events that a filter lets through, page by page.
export function EventPages({ filter }: { filter?: Record<string, unknown> }) {
  const [at, setAt] = useState({ filter: "", page: 1 });
  const key = JSON.stringify(filter);
  const page = at.filter === key ? at.page : 1;
  const read = useEvents({ limit: perPage, page, filter });
  return (
    <Loaded of={read}>
      {(list) => (
        <>
          <EventTable rows={list.data} />
          <Pager page={page} pages={list.pages} set={(to) => setAt({ filter: key, page: to })} />
        </>
      )}
    </Loaded>
  );
}

export function Events() {
  const [status, setStatus] = useState("");
  const [kind, setKind] = useState("");
  const [person, setPerson] = useState("");
  const doing = useAction();
  const newest = useEvents({ limit: 1 });
  const filter: Record<string, unknown> = {};
  if (status) filter["status"] = status;
  if (kind) filter["entity.type"] = kind;
  if (person) filter["username"] = { "+contains": person };
  const last = newest.data?.data[0];
  const seen = () => doing.run(() => call("POST /v4/account/events/{eventId}/seen", { path: { eventId: last?.id ?? 0 } }).then(soon), T.events.marked);
  return (
    <Page title={T.events.title}>
      <Card title={T.events.all} wide actions={may.managed() && <Button disabled={doing.busy || !last || last.seen} onClick={() => void seen()}>{T.events.mark}</Button>}>
        <Problems failure={doing.failure} />
        <div class="filters">
          <Choice label={T.events.state} name="status" value={status} set={setStatus} of={[["", T.any], ...["started", "finished", "failed", "scheduled", "notification"].map((s): [string, string] => [s, T.status[s] ?? s])]} />
          <Choice label={T.events.kind} name="kind" value={kind} set={setKind} of={[["", T.any], ...Object.entries(T.events.kinds)]} />
          <Text label={T.events.who} name="username" value={person} set={setPerson} />
        </div>
        <EventPages filter={filter} />
      </Card>
    </Page>
  );
}
