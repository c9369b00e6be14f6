// The list of databases.
import { useEffect, useRef, useState } from "preact/hooks";
import type { AnyDatabaseView } from "./api";
import { call, whole } from "./call";
import { engineName, nodesOf, pageOf } from "./db";
import { Finals } from "./finals";
import { plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { type Column, Field, Loaded, Meter, Page, Status, Table, Time } from "./ui";
import { may } from "./who";

export function Databases() {
  const [text, setText] = useState("");
  const read = useReader("databases", (background) => whole((page) => call("GET /v4/databases/instances", { query: { page, page_size: 500 }, background })));
  const search = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && e.target.matches("input, textarea, select");
      if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "/") {
        e.preventDefault();
        search.current?.focus();
      } else if (e.key === "j" || e.key === "k") {
        const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>("tbody tr td:first-child a") ?? [])].filter((a) => a.checkVisibility());
        const at = links.indexOf(document.activeElement as HTMLAnchorElement);
        links[Math.max(0, Math.min(links.length - 1, at + (e.key === "j" ? 1 : -1)))]?.focus();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  return (
    <Page title={T.databases.title} actions={may.create() && <a class="button main" href="/console/databases/create">{T.databases.create}</a>}>
      <Loaded of={read}>
        {(all) => (
          <div ref={list}>
            {all.length > 0 && (
              <Field label={T.databases.filter} name="filter" hint={T.databases.keys}>
                {(p) => <input {...p} ref={search} type="search" value={text} onInput={(e) => setText(e.currentTarget.value)} />}
              </Field>
            )}
            <List all={all} text={text} />
          </div>
        )}
      </Loaded>
      <Finals />
    </Page>
  );
}

const columns: Column<AnyDatabaseView>[] = [
  { head: T.databases.label, by: (d) => d.label, cell: (d) => <a href={pageOf(d)}>{plain(d.label)}</a> },
  { head: T.databases.status, by: (d) => d.status, cell: (d) => <Status of={d.status} /> },
  { head: T.databases.engine, by: (d) => engineName(d), cell: engineName },
  { head: T.databases.plan, by: (d) => d.type, cell: (d) => d.type },
  { head: T.databases.nodes, by: (d) => d.cluster_size, number: true, cell: nodesOf },
  {
    head: T.databases.disk,
    by: (d) => (d.used_disk_size_gb ?? 0) / (d.total_disk_size_gb ?? 1),
    cell: (d) => <Meter used={d.used_disk_size_gb} total={d.total_disk_size_gb} label={T.databases.diskOf(d.label)} />,
  },
  { head: T.databases.restorable, by: (d) => d.oldest_restore_time ?? "", cell: (d) => (d.oldest_restore_time ? <Time at={d.oldest_restore_time} relative /> : T.database.noBackup) },
  { head: T.databases.proven, by: (d) => d.last_proven_backup ?? "", cell: (d) => (d.last_proven_backup ? <Time at={d.last_proven_backup} relative /> : T.databases.unproven) },
  { head: T.databases.region, by: (d) => d.region, cell: (d) => d.region },
];

function List({ all, text }: { all: AnyDatabaseView[]; text: string }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = all.filter((d) => words.every((w) => `${d.label} ${engineName(d)} ${d.status} ${d.type} ${d.region}`.toLowerCase().includes(w)));
  return (
    <Table
      label={T.databases.title}
      rows={rows}
      id={(d) => d.id}
      empty={
        all.length > 0 ? (
          <p>{T.databases.noMatch}</p>
        ) : (
          <>
            <p>{T.databases.none}</p>
            {may.create() && <a href="/console/databases/create">{T.databases.create}</a>}
          </>
        )
      }
      columns={columns}
    />
  );
}
