// What all screens of a database share.
import type { AnyDatabaseView, DatabaseView } from "./api";

export type Engine = "mysql" | "postgresql";

export function isEngine(text: string | undefined): text is Engine {
  return text === "mysql" || text === "postgresql";
}

export function pageOf(d: { engine: Engine; id: number }, tab = ""): string {
  return `/console/databases/${d.engine}/${d.id}${tab && "/" + tab}`;
}

export function engineName(d: { engine: string; version: string }): string {
  const name = d.engine === "postgresql" ? "PostgreSQL" : mysqlName(d.version);
  return `${name} ${d.version}`;
}

// mysqlName tells MariaDB, whose versions are 10 and more, from MySQL.
export function mysqlName(version: string): string {
  return Number.parseInt(version, 10) >= 10 ? "MariaDB" : "MySQL";
}

export function nodesOf(d: AnyDatabaseView | DatabaseView): string {
  return `${Object.keys(d.members).length} / ${d.cluster_size}`;
}
