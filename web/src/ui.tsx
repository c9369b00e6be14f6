// Pieces that all screens are made of.
import { signal } from "@preact/signals";
import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure } from "./call";
import { ago, plain, timeText, utcText } from "./format";
import type { Reader } from "./live";
import { T } from "./text";

const said = signal({ text: "", turn: 0 });
let silence: ReturnType<typeof setTimeout> | undefined;

export function say(text: string): void {
  said.value = { text, turn: said.value.turn + 1 };
  clearTimeout(silence);
  silence = setTimeout(() => (said.value = { ...said.value, text: "" }), 6000);
}

// Said is what was said last, which is read out by screen readers, and shown for some seconds: anew each time, also when it is the same again.
export function Said({ unseen }: { unseen?: boolean }) {
  const { text, turn } = said.value;
  return (
    <div class={unseen ? "unseen" : text ? "said on" : "said"} role="status">
      <span key={turn}>{text}</span>
    </div>
  );
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

const good = ["serving", "sent", "active", "finished", "ok", "healthy", "complete", "passed", "closed", "enabled", "successful", "primary"];
const bad = ["failed", "problem", "down", "unhealthy", "open", "timed_out"];

export function Status({ of, percent }: { of: string; percent?: number }) {
  const kind = good.includes(of) ? "good" : bad.includes(of) ? "bad" : ["suspended", "asleep", "disabled", "off", "pending", "notification"].includes(of) ? "quiet" : "warn";
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
      <pre role="group" tabIndex={0} aria-label={what}>
        {plain(text)}
      </pre>
      <Copy text={text} what={what} />
    </div>
  );
}

// Meter shows which part of total is in use; with a unit it says of how much, too.
export function Meter({ used, total, label, unit }: { used: number | null; total: number | null; label: string; unit?: string }) {
  if (used === null || total === null || total <= 0) return <>{T.none}</>;
  const part = used / total;
  return (
    <span class="metered">
      <meter min={0} max={1} low={0.8} high={0.9} optimum={0} value={Math.min(part, 1)} aria-label={label} />
      {unit ? T.part(Math.round(part * 100), `${total} ${unit}`) : `${Math.round(part * 100)} %`}
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

// Row is drawn again only for another row or other columns: long lists have theirs once for all.
interface RowProps {
  row: unknown;
  columns: Column<unknown>[];
  rest?: boolean;
}

class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps) {
    return next.row !== this.props.row || next.columns !== this.props.columns || next.rest !== this.props.rest;
  }

  override render() {
    return (
      <tr class={this.props.rest ? "rest" : undefined}>
        {this.props.columns.map((c) => (
          <td key={c.head} class={c.number ? "number" : undefined} data-head={c.head}>
            {c.cell(this.props.row)}
          </td>
        ))}
      </tr>
    );
  }
}

interface TableProps<R> {
  label: string;
  rows: R[];
  columns: Column<R>[];
  id: (row: R) => string | number;
  empty?: ComponentChildren;
  // tight has few words for a row in narrow windows, where a row is a block.
  tight?: boolean;
  // few is how many rows narrow windows have at first.
  few?: number;
}

// Table is a list.
export function Table<R>({ label, rows, columns, id, empty, tight, few = 10 }: TableProps<R>) {
  const [order, setOrder] = useState<{ at: number; down: boolean }>();
  const [whole, setWhole] = useState(false);
  if (rows.length === 0 && empty) return <div class="empty">{empty}</div>;
  const by = order && columns[order.at]?.by;
  const shown = by
    ? [...rows].sort((a, b) => {
        const [x, y] = [by(a), by(b)];
        return (x < y ? -1 : x > y ? 1 : 0) * (order.down ? -1 : 1);
      })
    : rows;
  return (
    <>
      <div class={tight ? "scroll tight" : "scroll"} role="region" aria-label={label} tabIndex={0}>
        <table>
          <caption>{label}</caption>
          <thead>
            <tr>
              {columns.map((c, i) => (
                <th key={c.head} scope="col" class={[c.number ? "number" : "", c.by ? "" : "fixed"].join(" ").trim() || undefined} aria-sort={order?.at === i ? (order.down ? "descending" : "ascending") : undefined}>
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
            {shown.map((row, n) => (
              <Row key={id(row)} row={row} columns={columns as Column<unknown>[]} rest={n >= few && !whole} />
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > few && (
        <p class={whole ? "narrow" : "narrow less"}>
          <button type="button" aria-expanded={whole} aria-label={whole ? T.lessOf(label) : T.allOf(rows.length, label)} onClick={() => setWhole(!whole)}>
            {whole ? T.less : T.all(rows.length)}
          </button>
        </p>
      )}
    </>
  );
}

// Long is a text of code of any length: of more than some lines the rest is shown when somebody asks.
export function Long({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  const letters = [...plain(text)];
  if (letters.length <= longest) return <code>{plain(text)}</code>;
  return (
    <code>
      {whole ? plain(text) : letters.slice(0, longest - 20).join("").trimEnd() + "…"}{" "}
      <button type="button" aria-expanded={whole} onClick={() => setWhole(!whole)}>
        {whole ? T.less : T.more}
      </button>
    </code>
  );
}

// longest is how many letters of code are shown at once: some four lines of a phone.
const longest = 160;

// Dialog gives the focus back to where it was; once what had it is gone for good, to the page's heading.
export function Dialog({ title, kind, close, gone, children }: { title: string; kind?: "drawer"; close: () => void; gone?: { current: boolean }; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const shown = element.current;
    shown?.showModal();
    return () => {
      shown?.close(); // until then nothing else can have the focus
      (gone?.current || !before?.isConnected ? document.querySelector<HTMLElement>("main h1") : before)?.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={kind}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        close();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
      <Said unseen /* what is told outside isn't read out while a dialog is open */ />
    </dialog>
  );
}

type FormProps = {
  title: string; action?: string; kind?: "main" | "danger"; ready?: boolean; fields?: string[]; close: () => void; gone?: { current: boolean };
  // save sends the form; saved is read out afterwards.
  save: () => Promise<unknown>; saved?: string; children: (failure?: Failure) => ComponentChildren;
};

// FormDialog is a form in a dialog, which closes when what it asks for is done.
export function FormDialog({ title, action = T.save, kind = "main", ready = true, fields, close, gone, save, saved, children }: FormProps) {
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (ready && (await doing.run(save, saved))) close();
  };
  return (
    <Dialog title={title} close={close} gone={gone}>
      <form noValidate onSubmit={(e) => void submit(e)}>
        {children(doing.failure)}
        <Problems failure={doing.failure} fields={fields} />
        <div class="actions">
          <Button submit kind={kind} disabled={!ready || doing.busy}>
            {action}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

type AskProps = { title: string; text: ComponentChildren; action: string; close: () => void; run: () => Promise<unknown> };

// Danger asks for the name to be typed before something is destroyed; its children are what else can be chosen.
export function Danger({ text, name, run, children, ...rest }: AskProps & { name: string; children?: ComponentChildren }) {
  const [typed, setTyped] = useState("");
  const gone = useRef(false);
  return (
    <FormDialog {...rest} kind="danger" ready={typed === name} gone={gone} save={() => run().then(() => (gone.current = true))}>
      {() => (
        <>
          <div>{text}</div>
          <Text label={T.typeName(name)} name="name" value={typed} set={setTyped} />
          {children}
        </>
      )}
    </FormDialog>
  );
}

// Sure asks once before something that can be undone.
export function Sure({ text, run, ...rest }: AskProps & { kind?: "danger" }) {
  const gone = useRef(false);
  return (
    <FormDialog {...rest} gone={gone} save={() => run().then(() => (gone.current = rest.kind === "danger"))}>
      {() => <div>{text}</div>}
    </FormDialog>
  );
}

type Named = { label: string; name: string; failure?: Failure; hint?: ComponentChildren; value: string; set: (value: string) => void };

// Text is a field that is typed into; with rows it has several lines.
export function Text({ value, set, type, rows, ...rest }: Named & { type?: string; rows?: number }) {
  const common = { value, autocomplete: type === "password" ? "new-password" : "off", spellcheck: false, onInput: (e: { currentTarget: { value: string } }) => set(e.currentTarget.value) };
  return <Field {...rest}>{(p) => (rows ? <textarea {...p} {...common} rows={rows} /> : <input {...p} {...common} type={type} />)}</Field>;
}

// Choice is a field that one of several is chosen in, each with its text.
export function Choice({ value, set, of, ...rest }: Named & { of: readonly (readonly [string, string])[] }) {
  return (
    <Field {...rest}>
      {(p) => (
        <select {...p} value={value} onChange={(e) => set(e.currentTarget.value)}>
          {of.map(([one, text]) => (
            <option key={one} value={one}>
              {plain(text)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Tick({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <p class="check">
      <label>
        <input type="checkbox" checked={on} onChange={(e) => set(e.currentTarget.checked)} /> {label}
      </label>
    </p>
  );
}

// Pick is a group of boxes, of which any may be ticked.
export function Pick<K extends string | number>({ legend, name, failure, all, chosen, set }: { legend: string; name: string; failure?: Failure; all: { id: K; label: string }[]; chosen: K[]; set: (ids: K[]) => void }) {
  const problem = failure?.of(name);
  return (
    <fieldset class="pick">
      <legend>{legend}</legend>
      {all.length === 0 && <p class="hint">{T.pages.nothing}</p>}
      {all.map(({ id, label }) => (
        <label key={id}>
          <input type="checkbox" checked={chosen.includes(id)} onChange={(e) => set(e.currentTarget.checked ? [...chosen, id] : chosen.filter((c) => c !== id))} /> {plain(label)}
        </label>
      ))}
      {problem && <p class="problem">{plain(problem)}</p>}
    </fieldset>
  );
}

// Once shows a secret that is never shown again.
export function Once({ text, secrets, close }: { text: string; secrets: [string, string][]; close: () => void }) {
  return (
    <Alert kind="good">
      <p>{text}</p>
      {secrets.map(([what, secret]) => (
        <Code key={what} what={what} text={secret} />
      ))}
      <Button onClick={close}>{T.account.haveIt}</Button>
    </Alert>
  );
}

export interface ItemsProps<R> {
  title: string;
  // label is the table's, where it isn't the title.
  label?: string;
  read: Reader<R[]>;
  id: (row: R) => string | number;
  name: (row: R) => string;
  columns: Column<R>[];
  empty?: string;
  children?: ComponentChildren;
  // can is false when the caller may only see; add is the text of the button.
  can: boolean;
  add?: string;
  form?: (of: R | undefined, close: () => void) => ComponentChildren;
  // more are further things to do with a row, each a button with its own dialog.
  more?: { text: string; label: (row: R) => string; when?: (row: R) => boolean; dialog: (row: R, close: () => void) => ComponentChildren }[];
  // change is false where the form only adds, and else for which rows it changes one.
  change?: boolean | ((row: R) => boolean);
  remove?: { title: string; text: string; typed?: (row: R) => string; when?: (row: R) => boolean; run: (row: R) => Promise<unknown> };
}

// Items is a list whose items are added, changed and deleted one at a time, in dialogs.
export function Items<R>({ title, label = title, read, id, name, columns, empty, children, can, add, form, more = [], change = true, remove }: ItemsProps<R>) {
  const [open, setOpen] = useState<{ what: "form" | "remove" | number; of?: R }>();
  const close = () => setOpen(undefined);
  const act = (r: R) => (
    <div class="actions">
      {form && (typeof change === "function" ? change(r) : change) && (
        <Button label={T.contacts.changeOf(name(r))} onClick={() => setOpen({ what: "form", of: r })}>
          {T.contacts.change}
        </Button>
      )}
      {more.map(
        (m, n) =>
          (m.when?.(r) ?? true) && (
            <Button key={n} label={m.label(r)} onClick={() => setOpen({ what: n, of: r })}>
              {m.text}
            </Button>
          ),
      )}
      {remove && (remove.when?.(r) ?? true) && (
        <Button label={T.contacts.deleteOf(name(r))} onClick={() => setOpen({ what: "remove", of: r })}>
          {T.delete}
        </Button>
      )}
    </div>
  );
  const of = open?.of;
  return (
    <Card title={title} wide actions={can && add && <Button kind="main" onClick={() => setOpen({ what: "form" })}>{add}</Button>}>
      {children}
      <Loaded of={read}>
        {(all) => <Table label={label} rows={all} id={id} empty={empty && <p>{empty}</p>} columns={can ? [...columns, { head: T.act, cell: act }] : columns} />}
      </Loaded>
      {open?.what === "form" && form?.(of, close)}
      {typeof open?.what === "number" && of !== undefined && more[open.what]?.dialog(of, close)}
      {open?.what === "remove" && of !== undefined && remove && (
        <Danger title={remove.title} text={<p>{remove.text}</p>} name={(remove.typed ?? name)(of)} action={T.delete} close={close} run={() => remove.run(of).then(() => read.read())} />
      )}
    </Card>
  );
}

// Pager goes through the pages of a list, of which the first has the newest; one page needs none.
export function Pager({ page, pages, set }: { page: number; pages: number; set: (page: number) => void }) {
  if (pages <= 1) return null;
  return (
    <div class="actions">
      <Button disabled={page <= 1} onClick={() => set(page - 1)}>
        {T.newer}
      </Button>
      <Button disabled={page >= pages} onClick={() => set(page + 1)}>
        {T.older}
      </Button>
      <span class="hint">{T.page(page, pages)}</span>
    </div>
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
      {of.map(([name, value], n) => (
        <div key={name + n}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
