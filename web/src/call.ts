// Requests to the public API, by the console's own door: the cookie stands for the token.
import { signal } from "@preact/signals";
import type { Operations, Problem } from "./api";
import { T } from "./text";

export type Operation = keyof Operations;
export type In<K extends Operation> = Operations[K]["in"];
export type Out<K extends Operation> = Operations[K]["out"];

export interface Args<K extends Operation> {
  path?: Record<string, string | number>;
  query?: Record<string, string | number | undefined>;
  filter?: unknown;
  body?: In<K>;
  // Nobody asked for it: it keeps no session alive.
  background?: boolean;
}

// Failure is an answer that says no, or that never came (status 0).
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly problems: Problem[],
  ) {
    super(problems.map((p) => p.reason).join(" ") || T.answered(status));
  }

  // of is what was wrong with a field, or with one below it.
  of(field: string): string | undefined {
    const found = this.problems.filter((p) => p.field === field || p.field?.startsWith(field + ".") || p.field?.startsWith(field + "["));
    return found.length > 0 ? found.map((p) => p.reason).join(" ") : undefined;
  }

  // general is what was wrong with none of the fields.
  general(fields: string[]): string[] {
    return this.problems
      .filter((p) => !fields.some((f) => p.field === f || p.field?.startsWith(f + ".") || p.field?.startsWith(f + "[")))
      .map((p) => (p.field ? `${p.field}: ${p.reason}` : p.reason));
  }
}

// wanted is set while a request waits for the password.
export const wanted = signal<{ given: () => void; refused: () => void } | null>(null);

// calls are the last requests that people asked for, for those who want to do the same by hand.
export const calls = signal<{ method: string; path: string; body?: string }[]>([]);

export function pathOf<K extends Operation>(op: K, args: Args<K>): string {
  const [, template] = op.split(" ") as [string, string];
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(args.path?.[name])));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(args.query ?? {})) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  return query.size > 0 ? `${path}?${query}` : path;
}

// secret are paths whose bodies have what isn't shown again, not even in the list of calls.
const secret = /^\/v4\/(managed\/credentials|monitor\/alert-channels)|\/migrations/;

const tags = new Map<string, { tag: string; value: unknown }>();

// leaving is set once somebody logs out: what is refused from then on doesn't have whoever logs in next begin on this page.
let leaving = false;

export function toLogin(): void {
  if (!leaving) location.assign("/console/login?to=" + encodeURIComponent(location.pathname));
}

export async function logOut(): Promise<void> {
  leaving = true;
  await post("logout", {}).catch(() => undefined);
  location.assign("/console/login");
}

export async function call<K extends Operation>(op: K, args: Args<K> = {}): Promise<Out<K>> {
  const [method] = op.split(" ") as [string];
  const path = pathOf(op, args);
  const headers: Record<string, string> = {};
  if (args.filter) headers["X-Filter"] = JSON.stringify(args.filter);
  if (args.background) headers["X-Console-Background"] = "1";
  const body = args.body === undefined ? undefined : JSON.stringify(args.body);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const key = path + (headers["X-Filter"] ?? "");
  const known = method === "GET" ? tags.get(key) : undefined;
  if (known) headers["If-None-Match"] = known.tag;
  if (!args.background && method !== "GET") calls.value = [...calls.value.slice(-19), { method, path, body: secret.test(path) ? undefined : body }];
  for (;;) {
    let answer: Response;
    try {
      answer = await fetch("/console" + path, { method, headers, body, cache: "no-store", signal: AbortSignal.timeout(60_000) });
    } catch {
      throw new Failure(0, [{ reason: T.silent }]);
    }
    if (answer.status === 401) {
      toLogin();
      return new Promise(() => undefined);
    }
    if (answer.status === 403 && answer.headers.get("X-Console-Confirm")) {
      await new Promise<void>((given, refused) => {
        wanted.value = { given, refused: () => refused(new Failure(403, [{ reason: T.confirm.refused }])) };
      });
      continue;
    }
    if (answer.status === 304 && known) return known.value as Out<K>;
    const kind = answer.headers.get("Content-Type") ?? "";
    const value: unknown = answer.status === 204 ? undefined : kind.includes("json") ? await answer.json() : await answer.text();
    if (!answer.ok) {
      const errors = (value as { errors?: Problem[] } | undefined)?.errors;
      throw new Failure(answer.status, errors ?? [{ reason: T.answered(answer.status) }]);
    }
    const tag = answer.headers.get("ETag");
    if (method === "GET" && tag) {
      tags.set(key, { tag, value });
      if (tags.size > 100) tags.delete(tags.keys().next().value as string);
    }
    return value as Out<K>;
  }
}

// post sends the console itself a form.
export async function post(path: string, body: unknown): Promise<void> {
  let answer: Response;
  try {
    answer = await fetch("/console/" + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Failure(0, [{ reason: T.silent }]);
  }
  const value = (await answer.json().catch(() => ({}))) as { errors?: Problem[] };
  if (!answer.ok) throw new Failure(answer.status, value.errors ?? []);
}

// whole reads all pages of a list, a hundred pages at most.
export async function whole<T>(page: (n: number) => Promise<{ data: T[]; pages: number }>): Promise<T[]> {
  const first = await page(1);
  const all = [...first.data];
  for (let n = 2; n <= Math.min(first.pages, 100); n++) all.push(...(await page(n)).data);
  return all;
}
