// Backups: what can be restored, and restoring it.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { BackupView, RestoreWindowView } from "./api";
import { call, whole, type Failure } from "./call";
import type { Props } from "./database";
import { pageOf } from "./db";
import { bytes, plain, timeText, when } from "./format";
import { useReader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { Alert, Button, Card, Danger, Field, FormDialog, Loaded, say, Status, Table, Text, Time } from "./ui";
import { may } from "./who";

type Open = { kind: "restore" | "delete"; backup: BackupView } | { kind: "fork"; at?: string } | { kind: "take" | "moment" | "undo" };

export function Backups({ db, path, reader }: Props) {
  const [open, setOpen] = useState<Open>();
  const list = useReader(`backups/${db.engine}/${db.id}`, (background) =>
    whole((page) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/backups`, { path, query: { page, page_size: 100 }, background })),
  );
  const windows = useReader(`windows/${db.engine}/${db.id}`, (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/restore-windows`, { path, background }));
  const can = may.change(db.id);
  const close = () => setOpen(undefined);
  const again = () => {
    list.read();
    reader.read();
  };
  return (
    <>
      <Card
        title={T.backups.windows}
        wide
        actions={
          <div class="actions">
            {can && (
              <Button disabled={db.status !== "active"} onClick={() => setOpen({ kind: "undo" })}>
                {T.backups.undo}
              </Button>
            )}
            {can && (windows.data?.data.length ?? 0) > 0 && (
              <Button disabled={db.status !== "active"} onClick={() => setOpen({ kind: "moment" })}>
                {T.backups.restoreMoment}
              </Button>
            )}
            {may.create() && (windows.data?.data.length ?? 0) > 0 && <Button onClick={() => setOpen({ kind: "fork" })}>{T.backups.forkMoment}</Button>}
          </div>
        }
      >
        <Loaded of={windows}>{(w) => <Timeline windows={w.data} />}</Loaded>
      </Card>
      <Card
        title={T.backups.title}
        wide
        actions={
          can && (
            <Button kind="main" onClick={() => setOpen({ kind: "take" })} disabled={db.status !== "active"} why={db.status === "active" ? undefined : T.backups.notNow}>
              {T.backups.take}
            </Button>
          )
        }
      >
        <Loaded of={list}>
          {(all) => (
            <Table
              label={T.backups.title}
              rows={[...all].sort((a, b) => (a.created < b.created ? 1 : -1))}
              id={(b) => b.id}
              empty={<p>{T.backups.none}</p>}
              columns={[
                { head: T.backups.taken, by: (b) => b.created, cell: (b) => <Time at={b.created} /> },
                { head: T.backups.label, cell: (b) => plain(b.label) },
                { head: T.backups.kind, cell: (b) => T.backups.kinds[b.type] },
                {
                  head: T.databases.status,
                  cell: (b) => (
                    <>
                      <Status of={b.state} /> {b.problem && <span class="quiet">{plain(b.problem)}</span>}
                    </>
                  ),
                },
                { head: T.backups.size, by: (b) => b.size_bytes ?? 0, number: true, cell: (b) => bytes(b.size_bytes) },
                {
                  head: T.backups.proven,
                  cell: (b) =>
                    b.verification === null ? (
                      T.backups.unproven
                    ) : (
                      <>
                        <Status of={b.verification} /> {b.verified && <Time at={b.verified} relative />}
                      </>
                    ),
                },
                {
                  head: T.act,
                  cell: (b) =>
                    can && b.state === "complete" ? (
                      <div class="actions">
                        <Button label={T.backups.restoreOf(timeText(b.created))} onClick={() => setOpen({ kind: "restore", backup: b })}>
                          {T.backups.restore}
                        </Button>
                        {may.create() && (
                          <Button label={T.backups.forkOf(timeText(b.created))} onClick={() => setOpen({ kind: "fork", at: b.created })}>
                            {T.backups.fork}
                          </Button>
                        )}
                        <Button label={T.backups.deleteOf(timeText(b.created))} onClick={() => setOpen({ kind: "delete", backup: b })}>
                          {T.delete}
                        </Button>
                      </div>
                    ) : null,
                },
              ]}
            />
          )}
        </Loaded>
      </Card>
      {open?.kind === "restore" && (
        <Danger
          title={T.backups.restoreTitle}
          text={<p>{T.backups.restoreText(db.label, timeText(open.backup.created))}</p>}
          name={db.label}
          action={T.backups.restore}
          close={close}
          run={async () => {
            await call(`POST /v4/databases/${db.engine}/instances/{instanceId}/backups/{backupId}/restore`, { path: { ...path, backupId: open.backup.id } });
            say(T.backups.restoring);
            again();
          }}
        />
      )}
      {open?.kind === "delete" && (
        <Danger
          title={T.backups.deleteTitle}
          text={<p>{T.backups.deleteText(timeText(open.backup.created))}</p>}
          name={open.backup.label}
          action={T.delete}
          close={close}
          run={async () => {
            await call(`DELETE /v4/databases/${db.engine}/instances/{instanceId}/backups/{backupId}`, { path: { ...path, backupId: open.backup.id } });
            again();
          }}
        />
      )}
      {open?.kind === "undo" && (
        <Danger
          title={T.backups.undo}
          text={<p>{T.backups.undoText(db.label)}</p>}
          name={db.label}
          action={T.backups.undo}
          close={close}
          run={async () => {
            await call(`POST /v4/databases/${db.engine}/instances/{instanceId}/restore/undo`, { path });
            say(T.backups.restoring);
            again();
          }}
        />
      )}
      {open?.kind === "moment" && <RestoreMoment {...{ db, path, reader }} windows={windows.data?.data ?? []} close={close} done={again} />}
      {open?.kind === "take" && <Take {...{ db, path, reader }} close={close} done={again} />}
      {open?.kind === "fork" && <Fork db={db} at={open.at} windows={windows.data?.data ?? []} close={close} />}
    </>
  );
}

// spanOf is the time that windows lie in, in milliseconds.
function spanOf(windows: RestoreWindowView[]): [from: number, to: number] {
  return [Math.min(...windows.map((w) => when(w.from).getTime())), Math.max(...windows.map((w) => when(w.to).getTime()))];
}

// Bands draws what is covered.
function Bands({ windows }: { windows: RestoreWindowView[] }) {
  const [start, end] = spanOf(windows);
  const span = Math.max(end - start, 1);
  const x = (at: string) => ((when(at).getTime() - start) / span) * 1000;
  return (
    <svg class="timeline" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
      <rect x="0" y="0" width="1000" height="20" class="gap" />
      {windows.map((w) => (
        <rect key={w.from} x={Math.min(x(w.from), 997)} y="0" width={Math.max(3, x(w.to) - x(w.from))} height="20" class="covered" />
      ))}
    </svg>
  );
}

// Words say what is covered, and what lies between.
function Words({ windows }: { windows: RestoreWindowView[] }) {
  if (windows.length === 0) return <p>{T.backups.noWindow}</p>;
  return (
    <ul class="windows">
      {[...windows].sort((a, b) => (a.from < b.from ? -1 : 1)).map((w, n, all) => {
        const before = all[n - 1];
        return (
          <Fragment key={w.from}>
            {before && before.from !== before.to && (
              <li class="quiet">
                {T.backups.gap} <Time at={before.to} /> – <Time at={w.from} />
              </li>
            )}
            <li>
              <Time at={w.from} /> {w.from !== w.to && <>– <Time at={w.to} /></>}
            </li>
          </Fragment>
        );
      })}
    </ul>
  );
}

function Timeline({ windows }: { windows: RestoreWindowView[] }) {
  return (
    <>
      {windows.length > 0 && <Bands windows={windows} />}
      <Words windows={windows} />
    </>
  );
}

// momentOf is what was typed into a field of a moment, as the API has it; "" when it is none.
function momentOf(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 19);
}

// Moment is a moment that something was at: typed, or chosen along the timeline.
function Moment({ name, windows, failure, value, set }: { name: string; windows: RestoreWindowView[]; failure?: Failure; value: string; set: (to: string) => void }) {
  const utc = momentOf(value);
  const [start, end] = spanOf(windows).map((ms) => Math.floor(ms / 1000)) as [number, number];
  const chosen = utc === "" ? end : when(utc).getTime() / 1000;
  const kept = utc === "" || windows.some((w) => w.from.slice(0, 19) <= utc && utc <= w.to.slice(0, 19));
  return (
    <>
      <Field label={T.backups.moment} name={name} failure={failure} hint={T.backups.utc(utc.replace("T", " "))}>
        {(p) => <input {...p} type="datetime-local" step={1} required value={value} onInput={(e) => set(e.currentTarget.value)} />}
      </Field>
      {windows.length > 0 && (
        <Field label={T.backups.along} name="along">
          {(p) => (
            <>
              <Bands windows={windows} />
              <input {...p} type="range" min={start} max={end} step={1} value={chosen} aria-valuetext={utc && timeText(utc)} onInput={(e) => set(localInput(new Date(Number(e.currentTarget.value) * 1000)))} />
            </>
          )}
        </Field>
      )}
      <div role="status">{!kept && <Alert kind="warn">{T.backups.inGap}</Alert>}</div>
      <Words windows={windows} />
    </>
  );
}

function Take({ db, path, close, done }: Props & { close: () => void; done: () => void }) {
  const [label, setLabel] = useState("");
  const save = () => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/backups`, { path, body: { label } }).then(done);
  return (
    <FormDialog title={T.backups.take} action={T.backups.take} fields={["label"]} close={close} save={save} saved={T.backups.taking}>
      {(failure) => <Text label={T.backups.label} name="label" failure={failure} hint={T.backups.labelHint} value={label} set={setLabel} />}
    </FormDialog>
  );
}

// localInput is a moment as an input of type datetime-local has it.
function localInput(at: Date): string {
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// last is the newest moment that can be restored.
function last(windows: RestoreWindowView[]): string {
  return localInput(windows.length > 0 ? new Date(spanOf(windows)[1]) : new Date());
}

// RestoreMoment restores in place what was at a moment of the timeline.
function RestoreMoment({ db, path, windows, close, done }: Props & { windows: RestoreWindowView[]; close: () => void; done: () => void }) {
  const [moment, setMoment] = useState(last(windows));
  const [typed, setTyped] = useState("");
  const to = momentOf(moment);
  const save = () => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/restore`, { path, body: { to } }).then(done);
  return (
    <FormDialog title={T.backups.restoreMoment} action={T.backups.restore} kind="danger" ready={to !== "" && typed === db.label} fields={["to"]} close={close} save={save} saved={T.backups.restoring}>
      {(failure) => (
        <>
          <p>{T.backups.momentText(db.label)}</p>
          <Moment name="to" windows={windows} failure={failure} value={moment} set={setMoment} />
          <Text label={T.typeName(db.label)} name="name" value={typed} set={setTyped} />
        </>
      )}
    </FormDialog>
  );
}

function Fork({ db, at, windows, close }: { db: Props["db"]; at?: string; windows: RestoreWindowView[]; close: () => void }) {
  const [label, setLabel] = useState("");
  const [moment, setMoment] = useState(at ? localInput(when(at)) : last(windows));
  const to = momentOf(moment);
  const save = async () => {
    const body = { label, region: db.region, type: db.type, engine: `${db.engine}/${db.version}`, allow_list: db.allow_list, fork: { source: db.id, restore_time: to } };
    go(pageOf(await call(`POST /v4/databases/${db.engine}/instances`, { body })));
  };
  return (
    <FormDialog title={T.backups.forkTitle(db.label)} action={T.backups.fork} ready={to !== ""} fields={["label", "fork"]} close={close} save={save} saved={T.backups.forking}>
      {(failure) => (
        <>
          <p>{T.backups.forkText}</p>
          <Text label={T.backups.newLabel} name="label" failure={failure} hint={T.create.labelHint} value={label} set={setLabel} />
          <Moment name="fork" windows={windows} failure={failure} value={moment} set={setMoment} />
        </>
      )}
    </FormDialog>
  );
}
