// Pieces that all screens are made of.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure } from "./call";
import { ago, plain, timeText, utcText } from "./format";
import type { Reader } from "./live";
import { T } from "./text";

// said is read out by screen readers, and shown for some seconds.
export const said = signal("");
let silence: ReturnType<typeof setTimeout> | undefined;

export function say(text: string): void {
  said.value = text;
  clearTimeout(silence);
  silence = setTimeout(() => (said.value = ""), 6000);
}

export function Page({ title, back, actions, children }: { title: string; back?: [string, string]; actions?: ComponentChildren; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${plain(title)} · steward`;
  }, [title]);
  return (
    <>
      {back && (
        <p class="back">
          <a href={back[0]}>{back[1]}</a>
        </p>
      )}
      <div class="title">
        <h1 ref={heading} tabIndex={-1}>
          {plain(title)}
        </h1>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </>
  );
}

export function Card({ title, actions, children, wide }: { title: string; actions?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  const id = useId();
  return (
    <section class={wide ? "card wide" : "card"} aria-labelledby={id}>
      <div class="head">
        <h2 id={id}>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  );
}

// Loaded shows what was read, that it is being read, or why it can't be.
export function Loaded<T>({ of, children }: { of: Reader<T>; children: (data: T) => ComponentChildren }) {
  if (of.data !== undefined) {
    return (
      <>
        {of.failure && <Alert>{of.failure.message}</Alert>}
        {children(of.data)}
      </>
    );
  }
  if (of.failure) {
    return (
      <Alert>
        {of.failure.status === 404 ? T.gone : of.failure.status === 403 ? T.forbidden : of.failure.message}{" "}
        {of.failure.status !== 404 && of.failure.status !== 403 && <Button onClick={() => of.read()}>{T.again}</Button>}
      </Alert>
    );
  }
  return <p class="wait">{T.reading}</p>;
}

export function Alert({ children, kind = "bad" }: { children: ComponentChildren; kind?: "bad" | "warn" | "good" }) {
  return (
    <div class={"alert " + kind} role={kind === "bad" ? "alert" : undefined}>
      {children}
    </div>
  );
}

type ButtonProps = { onClick?: () => void; kind?: "main" | "danger"; disabled?: boolean; submit?: boolean; label?: string; why?: string; children: ComponentChildren };

export function Button({ onClick, kind, disabled, submit, label, why, children }: ButtonProps) {
  return (
    <button type={submit ? "submit" : "button"} class={kind} onClick={onClick} disabled={disabled} aria-label={label} title={why}>
      {children}
    </button>
  );
}

// useAction runs one thing at a time and keeps why it failed.
export function useAction(): { busy: boolean; failure?: Failure; run: (f: () => Promise<unknown>, done?: string) => Promise<boolean>; clear: () => void } {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const run = async (f: () => Promise<unknown>, done?: string) => {
    setBusy(true);
    setFailure(undefined);
    try {
      await f();
      if (done) say(done);
      return true;
    } catch (e) {
      setFailure(e instanceof Failure ? e : new Failure(0, [{ reason: String(e) }]));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, failure, run, clear: () => setFailure(undefined) };
}

export function Problems({ failure, fields = [] }: { failure?: Failure; fields?: string[] }) {
  const texts = failure?.general(fields) ?? [];
  if (!failure) return null;
  return (
    <Alert>
      {texts.length > 0 ? texts.map((t) => <p key={t}>{plain(t)}</p>) : <p>{T.see}</p>}
    </Alert>
  );
}

type FieldProps = { label: string; name: string; failure?: Failure; hint?: ComponentChildren; children: (props: { id: string; name: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => JSX.Element };

// Field is a control with its label, its hint and what was wrong with it.
export function Field({ label, name, failure, hint, children }: FieldProps) {
  const id = useId();
  const problem = failure?.of(name);
  const described = [hint ? id + "h" : "", problem ? id + "p" : ""].filter(Boolean).join(" ");
  return (
    <div class={problem ? "field bad" : "field"}>
      <label for={id}>{label}</label>
      {children({ id, name, "aria-describedby": described || undefined, "aria-invalid": problem ? true : undefined })}
      {hint && (
        <p class="hint" id={id + "h"}>
          {hint}
        </p>
      )}
      {problem && (
        <p class="problem" id={id + "p"}>
          {plain(problem)}
        </p>
      )}
    </div>
  );
}

export function Time({ at, relative }: { at: string | null | undefined; relative?: boolean }) {
  if (!at) return <>{T.none}</>;
  const utc = utcText(at);
  return (
    <time dateTime={at + "Z"} title={relative ? timeText(at) + (utc && `, ${utc}`) : utc || undefined}>
      {relative ? ago(at) : timeText(at)}
      {!relative && utc && <span class="utc"> {utc}</span>}
    </time>
  );
}

const good = ["active", "finished", "ok", "healthy", "complete", "passed", "closed", "enabled", "successful", "primary"];
const bad = ["failed", "problem", "down", "unhealthy", "open", "timed_out"];

export function Status({ of, percent }: { of: string; percent?: number }) {
  const kind = good.includes(of) ? "good" : bad.includes(of) ? "bad" : ["suspended", "asleep", "disabled", "pending", "notification"].includes(of) ? "quiet" : "warn";
  return (
    <span class={"status " + kind}>
      {T.status[of] ?? of.replaceAll("_", " ")}
      {percent !== undefined && percent < 100 ? ` ${percent} %` : ""}
    </span>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(T.copied(what));
    } catch {
      say(T.notCopied);
    }
  };
  return (
    <button type="button" class="copy" onClick={() => void copy()} aria-label={T.copyOf(what)}>
      {T.copy}
    </button>
  );
}

export function Code({ text, what }: { text: string; what: string }) {
  return (
    <div class="code">
      <pre tabIndex={0} aria-label={what}>
        {plain(text)}
      </pre>
      <Copy text={text} what={what} />
    </div>
  );
}

export function Meter({ used, total, label }: { used: number | null; total: number | null; label: string }) {
  if (used === null || total === null || total <= 0) return <>{T.none}</>;
  const part = used / total;
  return (
    <span class="metered">
      <meter min={0} max={1} low={0.8} high={0.9} optimum={0} value={Math.min(part, 1)} aria-label={label} />
      {Math.round(part * 100)} %
    </span>
  );
}

export interface Column<R> {
  head: string;
  cell: (row: R) => ComponentChildren;
  // by orders rows; a column without can't be ordered by.
  by?: (row: R) => string | number;
  number?: boolean;
}

export function Table<R>({ label, rows, columns, id, empty }: { label: string; rows: R[]; columns: Column<R>[]; id: (row: R) => string | number; empty?: ComponentChildren }) {
  const [order, setOrder] = useState<{ at: number; down: boolean }>();
  if (rows.length === 0 && empty) return <div class="empty">{empty}</div>;
  const by = order && columns[order.at]?.by;
  const shown = by
    ? [...rows].sort((a, b) => {
        const [x, y] = [by(a), by(b)];
        return (x < y ? -1 : x > y ? 1 : 0) * (order.down ? -1 : 1);
      })
    : rows;
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <caption>{label}</caption>
        <thead>
          <tr>
            {columns.map((c, i) => (
              <th key={c.head} scope="col" class={c.number ? "number" : undefined} aria-sort={order?.at === i ? (order.down ? "descending" : "ascending") : undefined}>
                {c.by ? (
                  <button type="button" class="sort" onClick={() => setOrder({ at: i, down: order?.at === i && !order.down })}>
                    {c.head}
                    <span aria-hidden="true">{order?.at === i ? (order.down ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  c.head
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={id(row)}>
              {columns.map((c) => (
                <td key={c.head} class={c.number ? "number" : undefined}>
                  {c.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => (before as HTMLElement | null)?.focus?.();
  }, []);
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        close();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

// Danger asks for the name to be typed before something is destroyed.
export function Danger({ title, text, name, action, close, run }: { title: string; text: ComponentChildren; name: string; action: string; close: () => void; run: () => Promise<unknown> }) {
  const [typed, setTyped] = useState("");
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (typed === name && (await doing.run(run))) close();
  };
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div>{text}</div>
        <Field label={T.typeName(name)} name="name">
          {(p) => <input {...p} value={typed} autocomplete="off" spellcheck={false} onInput={(e) => setTyped(e.currentTarget.value)} />}
        </Field>
        <Problems failure={doing.failure} />
        <div class="actions">
          <Button submit kind="danger" disabled={typed !== name || doing.busy}>
            {action}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

// Sure asks once before something that can be undone.
export function Sure({ title, text, action, close, run, kind }: { title: string; text: ComponentChildren; action: string; close: () => void; run: () => Promise<unknown>; kind?: "danger" }) {
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (await doing.run(run)) close();
  };
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <div>{text}</div>
        <Problems failure={doing.failure} />
        <div class="actions">
          <Button submit kind={kind ?? "main"} disabled={doing.busy}>
            {action}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

export function Tabs({ label, all, at }: { label: string; all: [string, string][]; at: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {all.map(([to, text]) => (
        <a key={to} href={to} aria-current={to === at ? "page" : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
