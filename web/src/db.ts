// What all screens of a database share.
import type { AnyDatabaseView, DatabaseView, EndpointView } from "./api";
import { call, whole } from "./call";
import { useReader } from "./live";

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

// useLogical reads the logical databases, which several parts of a page need.
export function useLogical({ db, path }: { db: DatabaseView; path: { instanceId: number } }) {
  return useReader(`logical/${db.engine}/${db.id}`, (background) => whole((page) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/databases`, { path, query: { page, page_size: 500 }, background })));
}

// offered are the logical databases that can be chosen, also before they have been read.
export function offered(db: DatabaseView, names?: { name: string }[]): [string, string][] {
  return [...new Set([db.database_name, ...(names ?? []).map((n) => n.name)])].map((n) => [n, n]);
}

// poolEndpoint is where the database's connection pools are reached; undefined while it has none.
export function poolEndpoint(db: DatabaseView): EndpointView | undefined {
  return db.hosts.endpoints.find((e) => e.role === "primary-connection-pool");
}

// usePools reads the connection pools of PostgreSQL's databases; others have none.
export function usePools({ db, path }: { db: DatabaseView; path: { instanceId: number } }) {
  return useReader(db.engine === "postgresql" ? `pools/${db.id}` : null, (background) => whole((page) => call("GET /v4/databases/postgresql/instances/{instanceId}/connection-pools", { path, query: { page, page_size: 500 }, background })));
}
