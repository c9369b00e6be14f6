// One stream of events for all tabs of a browser, and readers that read anew when something happened.
import { signal } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { EventView } from "./api";
import { Failure } from "./call";
import { profile, readWho } from "./who";

export const connected = signal<boolean | null>(null);
// underWay are the operations that the stream told of as begun, and not yet as ended.
export const underWay = signal<ReadonlySet<number>>(new Set());

// List is one that changes without an event of its own.
export type List = "audit" | "logins" | "apps" | "accounts";

type Message = { kind: "event"; event: EventView } | { kind: "list"; list: List } | { kind: "state"; open: boolean };

const channel = new BroadcastChannel("steward");
// readers are those on the page, each with the lists that it reads, too.
const readers = new Map<() => void, readonly List[]>();
let due: ReturnType<typeof setTimeout> | undefined;

// soon has everything on the page read anew, once for all that happens within a moment.
export function soon(): void {
  due ??= setTimeout(() => {
    due = undefined;
    for (const read of readers.keys()) read();
  }, 100);
}

const changed = new Set<List>();
let listsDue: ReturnType<typeof setTimeout> | undefined;

// soonOf has those read anew who read a list, once for all that changes within a moment: an account's requests may be many.
function soonOf(list: List): void {
  changed.add(list);
  listsDue ??= setTimeout(() => {
    listsDue = undefined;
    for (const [read, lists] of readers) if (lists.some((l) => changed.has(l))) read();
    changed.clear();
  }, 250);
}

// myself reads anew who is logged in, and what that may.
function myself(): void {
  readWho().catch(() => undefined); // what is known stays
}

function take(m: Message): void {
  if (m.kind === "event") {
    const others = [...underWay.value].filter((id) => id !== m.event.id);
    underWay.value = new Set(m.event.status === "started" ? [...others, m.event.id] : others);
    if (m.event.entity.type === "user" && m.event.entity.id === profile.value?.uid) myself();
    soon();
    return;
  }
  if (m.kind === "list") return soonOf(m.list);
  if (m.open && connected.value !== true) {
    myself(); // what happened meanwhile, also since the page was read and before the stream was there
    soon();
  }
  connected.value = m.open;
}

function tell(m: Message): void {
  take(m);
  channel.postMessage(m);
}

// follow holds the stream for as long as this tab lives.
function follow(): void {
  const source = new EventSource("/console/v4/account/events/stream?lists=true");
  source.onopen = () => tell({ kind: "state", open: true });
  source.onmessage = (e: MessageEvent<string>) => tell({ kind: "event", event: JSON.parse(e.data) as EventView });
  source.addEventListener("list", (e: MessageEvent<List>) => tell({ kind: "list", list: e.data }));
  source.onerror = () => {
    tell({ kind: "state", open: false });
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    source.close();
    setTimeout(follow, 2000);
  };
}

export function startLive(): void {
  channel.onmessage = (e: MessageEvent<Message>) => take(e.data);
  void navigator.locks.request("steward-events", () => {
    follow();
    return new Promise(() => undefined); // until the tab closes: then another one's turn comes
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) soon();
  });
}

export interface Reader<T> {
  data?: T;
  failure?: Failure;
  read: () => void;
}

const none: readonly List[] = [];

// useReader reads now, when something happened or one of the lists changed, and each so many milliseconds while the page is seen.
export function useReader<T>(key: string | null, get: (background: boolean) => Promise<T>, every = 0, lists = none): Reader<T> {
  const [state, set] = useState<{ key: string | null; data?: T; failure?: Failure }>({ key });
  const latest = useRef(get);
  latest.current = get;
  const turn = useRef(0);
  const wanted = useRef(key);
  wanted.current = key;
  const read = useCallback(
    (background = false) => {
      if (key === null) return;
      const mine = ++turn.current;
      // An answer to what was wanted before may come between the page's drawing and the effect that ends waiting for it.
      const late = () => mine !== turn.current || wanted.current !== key;
      latest.current(background).then(
        (data) => late() || set({ key, data }),
        (failure: unknown) => {
          if (late()) return;
          const f = failure instanceof Failure ? failure : new Failure(0, [{ reason: String(failure) }]);
          const away = f.status === 0 || f.status >= 500;
          set((old) => ({ key, data: old.key === key && away ? old.data : undefined, failure: f }));
          // What the state of things doesn't allow may pass without an event: a database that was too busy to answer in time.
          if (away || f.status === 400) setTimeout(() => late() || read(true), away ? 2000 : 10_000);
        },
      );
    },
    [key],
  );
  useEffect(() => {
    read();
    const again = () => read(true);
    readers.set(again, lists);
    const timer = every > 0 ? setInterval(() => document.hidden || again(), every) : undefined;
    return () => {
      turn.current++;
      readers.delete(again);
      clearInterval(timer);
    };
  }, [read, every, lists]);
  return state.key === key ? { data: state.data, failure: state.failure, read } : { read };
}
