// Home: what needs a person.
import { call, whole } from "./call";
import { pageOf } from "./db";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Card, Code, Loaded, Page, Time } from "./ui";
import { EventList } from "./events";
import { may } from "./who";

interface Need {
  key: string;
  link?: string;
  text: string;
  // at is since when.
  at?: string;
  bad: boolean;
}

// readNeeds gathers what a person should look at.
async function readNeeds(background: boolean): Promise<{ needs: Need[]; databases: number }> {
  const [databases, issues, services] = await Promise.all([
    whole((page) => call("GET /v4/databases/instances", { query: { page, page_size: 500 }, background })),
    may.managed() ? call("GET /v4/managed/issues", { filter: { closed: null }, background }).then((l) => l.data) : [],
    may.managed() ? whole((page) => call("GET /v4/managed/services", { query: { page, page_size: 500 }, background })) : [],
  ]);
  const needs: Need[] = [];
  for (const d of databases) {
    const link = pageOf(d);
    if (d.status === "failed" || d.status === "degraded") needs.push({ key: "s" + d.id, link, text: T.home.status(d.label, T.status[d.status] ?? d.status), bad: true });
    if (d.used_disk_size_gb !== null && d.total_disk_size_gb && d.used_disk_size_gb / d.total_disk_size_gb > 0.8) {
      needs.push({ key: "d" + d.id, link, text: T.home.disk(d.label, Math.round((100 * d.used_disk_size_gb) / d.total_disk_size_gb)), bad: true });
    }
    if (d.backup_problem) needs.push({ key: "b" + d.id, link: pageOf(d, "backups"), text: T.home.backup[d.backup_problem](d.label), bad: true });
    if (d.allow_list.length === 0 && d.status === "active") needs.push({ key: "a" + d.id, link: pageOf(d, "access"), text: T.home.closed(d.label), bad: false });
    for (const p of d.updates.pending) needs.push({ key: "p" + d.id + p.description, link: pageOf(d, "settings"), text: T.home.pending(d.label, p.description), bad: false });
  }
  for (const i of issues) needs.push({ key: "i" + i.id, link: `/console/issues/${i.id}`, text: T.home.issue(plain(i.entity.label)), at: i.created, bad: true });
  for (const s of services) {
    const days = s.certificate_expires ? (new Date(s.certificate_expires + "Z").getTime() - Date.now()) / 86_400_000 : Infinity;
    if (days < 21) needs.push({ key: "c" + s.id, link: `/console/services/${s.id}`, text: T.home.certificate(s.label, Math.floor(days)), bad: days < 7 });
  }
  return { needs: needs.sort((a, b) => Number(b.bad) - Number(a.bad)), databases: databases.length };
}

export function Home() {
  const read = useReader("home", readNeeds);
  return (
    <Page title={T.home.title}>
      <Loaded of={read}>
        {({ needs, databases }) =>
          databases === 0 && needs.length === 0 ? (
            <First />
          ) : (
            <Card title={T.home.needs} wide>
              {needs.length === 0 ? (
                <p class="good">{T.home.nothing}</p>
              ) : (
                <ul class="needs">
                  {needs.map((n) => (
                    <li key={n.key} class={n.bad ? "bad" : undefined}>
                      {n.link ? <a href={n.link}>{n.text}</a> : n.text} {n.at && <Time at={n.at} relative />}
                    </li>
                  ))}
                </ul>
              )}
            </Card>
          )
        }
      </Loaded>
      <Card title={T.home.latest} wide actions={<a href="/console/events">{T.home.allEvents}</a>}>
        <EventList limit={10} />
      </Card>
    </Page>
  );
}

function First() {
  return (
    <Card title={T.home.first} wide>
      <ol class="steps">
        <li>
          <p>
            <a href="/console/databases/create">{T.home.step1}</a>
          </p>
          <Code what={T.home.step1} text={"steward db create first --engine=postgresql/15 --allow=127.0.0.0/8"} />
        </li>
        <li>
          <p>{T.home.step2}</p>
        </li>
        <li>
          <p>
            <a href="/console/services/add">{T.home.step3}</a>
          </p>
        </li>
      </ol>
    </Card>
  );
}
