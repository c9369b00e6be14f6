// One stream of events for all tabs of a browser, and readers that read anew when something happened.
import { signal } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { EventView } from "./api";
import { Failure } from "./call";

export const connected = signal<boolean | null>(null);
// underWay are the operations that the stream told of as begun, and not yet as ended.
export const underWay = signal<ReadonlySet<number>>(new Set());

type Message = { kind: "event"; event: EventView } | { kind: "state"; open: boolean };

const channel = new BroadcastChannel("steward");
const readers = new Set<() => void>();
let due: ReturnType<typeof setTimeout> | undefined;

// soon has everything on the page read anew, once for all that happens within a moment.
export function soon(): void {
  due ??= setTimeout(() => {
    due = undefined;
    for (const read of readers) read();
  }, 100);
}

function take(m: Message): void {
  if (m.kind === "event") {
    const others = [...underWay.value].filter((id) => id !== m.event.id);
    underWay.value = new Set(m.event.status === "started" ? [...others, m.event.id] : others);
    soon();
    return;
  }
  if (m.open && connected.value !== true) soon(); // what happened meanwhile
  connected.value = m.open;
}

function tell(m: Message): void {
  take(m);
  channel.postMessage(m);
}

// follow holds the stream for as long as this tab lives.
function follow(): void {
  const source = new EventSource("/console/v4/account/events/stream");
  source.onopen = () => tell({ kind: "state", open: true });
  source.onmessage = (e: MessageEvent<string>) => tell({ kind: "event", event: JSON.parse(e.data) as EventView });
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

// useReader reads now, when something happened, and each so many milliseconds while the page is seen.
export function useReader<T>(key: string | null, get: (background: boolean) => Promise<T>, every = 0): Reader<T> {
  const [state, set] = useState<{ key: string | null; data?: T; failure?: Failure }>({ key });
  const latest = useRef(get);
  latest.current = get;
  const turn = useRef(0);
  const read = useCallback(
    (background = false) => {
      if (key === null) return;
      const mine = ++turn.current;
      latest.current(background).then(
        (data) => mine === turn.current && set({ key, data }),
        (failure: unknown) => {
          if (mine !== turn.current) return;
          const f = failure instanceof Failure ? failure : new Failure(0, [{ reason: String(failure) }]);
          const away = f.status === 0 || f.status >= 500;
          set((old) => ({ key, data: old.key === key && away ? old.data : undefined, failure: f }));
          if (away) setTimeout(() => mine === turn.current && read(true), 2000);
        },
      );
    },
    [key],
  );
  useEffect(() => {
    read();
    const again = () => read(true);
    readers.add(again);
    const timer = every > 0 ? setInterval(() => document.hidden || again(), every) : undefined;
    return () => {
      turn.current++;
      readers.delete(again);
      clearInterval(timer);
    };
  }, [read, every]);
  return state.key === key ? { data: state.data, failure: state.failure, read } : { read };
}
