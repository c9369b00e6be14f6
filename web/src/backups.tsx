// Backups: what can be restored, and restoring it.
import { useState } from "preact/hooks";
import type { BackupView, RestoreWindowView } from "./api";
import { call, whole } from "./call";
import type { Props } from "./database";
import { pageOf } from "./db";
import { bytes, plain, timeText, when } from "./format";
import { useReader } from "./live";
import { go } from "./route";
import { T } from "./text";
import { Button, Card, Danger, Dialog, Field, Loaded, Problems, say, Status, Table, Time, useAction } from "./ui";
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
      {open?.kind === "moment" && <Moment {...{ db, path, reader }} windows={windows.data?.data ?? []} close={close} done={again} />}
      {open?.kind === "take" && <Take {...{ db, path, reader }} close={close} done={again} />}
      {open?.kind === "fork" && <Fork db={db} at={open.at} windows={windows.data?.data ?? []} close={close} />}
    </>
  );
}

// Timeline draws what is covered, and says the same in words.
function Timeline({ windows }: { windows: RestoreWindowView[] }) {
  if (windows.length === 0) return <p>{T.backups.noWindow}</p>;
  const sorted = [...windows].sort((a, b) => (a.from < b.from ? -1 : 1));
  const start = when(sorted[0]?.from ?? "").getTime();
  const end = Math.max(...sorted.map((w) => when(w.to).getTime()));
  const span = Math.max(end - start, 1);
  return (
    <>
      <svg class="timeline" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
        <rect x="0" y="0" width="1000" height="20" class="gap" />
        {sorted.map((w) => {
          const x = ((when(w.from).getTime() - start) / span) * 1000;
          return <rect key={w.from} x={x} y="0" width={Math.max(3, ((when(w.to).getTime() - start) / span) * 1000 - x)} height="20" class="covered" />;
        })}
      </svg>
      <ul class="windows">
        {sorted.map((w) => (
          <li key={w.from}>
            <Time at={w.from} /> {w.from !== w.to && <>– <Time at={w.to} /></>}
          </li>
        ))}
      </ul>
    </>
  );
}

function Take({ db, path, close, done }: Props & { close: () => void; done: () => void }) {
  const [label, setLabel] = useState("");
  const doing = useAction();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (await doing.run(() => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/backups`, { path, body: { label } }), T.backups.taking)) {
      done();
      close();
    }
  };
  return (
    <Dialog title={T.backups.take} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <Field label={T.backups.label} name="label" failure={doing.failure} hint={T.backups.labelHint}>
          {(p) => <input {...p} value={label} required autocomplete="off" onInput={(e) => setLabel(e.currentTarget.value)} />}
        </Field>
        <Problems failure={doing.failure} fields={["label"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy}>
            {T.backups.take}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

// localInput is a moment as an input of type datetime-local has it.
function localInput(at: Date): string {
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// Moment restores in place what was at a moment of the timeline.
function Moment({ db, path, windows, close, done }: Props & { windows: RestoreWindowView[]; close: () => void; done: () => void }) {
  const [moment, setMoment] = useState(localInput(when(windows.map((w) => w.to).sort().at(-1) ?? new Date().toISOString())));
  const [typed, setTyped] = useState("");
  const doing = useAction();
  const utc = Number.isNaN(new Date(moment).getTime()) ? "" : new Date(moment).toISOString().slice(0, 19);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (typed !== db.label) return;
    if (await doing.run(() => call(`POST /v4/databases/${db.engine}/instances/{instanceId}/restore`, { path, body: { to: utc } }), T.backups.restoring)) {
      done();
      close();
    }
  };
  return (
    <Dialog title={T.backups.restoreMoment} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <p>{T.backups.momentText(db.label)}</p>
        <Field label={T.backups.moment} name="to" failure={doing.failure} hint={T.backups.utc(utc.replace("T", " "))}>
          {(p) => <input {...p} type="datetime-local" step={1} required value={moment} onInput={(e) => setMoment(e.currentTarget.value)} />}
        </Field>
        <Timeline windows={windows} />
        <Field label={T.typeName(db.label)} name="name">
          {(p) => <input {...p} value={typed} autocomplete="off" spellcheck={false} onInput={(e) => setTyped(e.currentTarget.value)} />}
        </Field>
        <Problems failure={doing.failure} fields={["to"]} />
        <div class="actions">
          <Button submit kind="danger" disabled={doing.busy || utc === "" || typed !== db.label}>
            {T.backups.restore}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Fork({ db, at, windows, close }: { db: Props["db"]; at?: string; windows: RestoreWindowView[]; close: () => void }) {
  const latest = windows.map((w) => w.to).sort().at(-1);
  const [label, setLabel] = useState("");
  const [moment, setMoment] = useState(localInput(when(at ?? latest ?? new Date().toISOString())));
  const doing = useAction();
  const utc = Number.isNaN(new Date(moment).getTime()) ? "" : new Date(moment).toISOString().slice(0, 19);
  const submit = async (e: Event) => {
    e.preventDefault();
    await doing.run(async () => {
      const body = { label, region: db.region, type: db.type, engine: `${db.engine}/${db.version}`, allow_list: db.allow_list, fork: { source: db.id, restore_time: utc } };
      const made = await call(`POST /v4/databases/${db.engine}/instances`, { body });
      close();
      go(pageOf(made));
    }, T.backups.forking);
  };
  return (
    <Dialog title={T.backups.forkTitle(db.label)} close={close}>
      <form onSubmit={(e) => void submit(e)}>
        <p>{T.backups.forkText}</p>
        <Field label={T.backups.newLabel} name="label" failure={doing.failure} hint={T.create.labelHint}>
          {(p) => <input {...p} value={label} required autocomplete="off" onInput={(e) => setLabel(e.currentTarget.value)} />}
        </Field>
        <Field label={T.backups.moment} name="fork" failure={doing.failure} hint={T.backups.utc(utc.replace("T", " "))}>
          {(p) => <input {...p} type="datetime-local" step={1} required value={moment} onInput={(e) => setMoment(e.currentTarget.value)} />}
        </Field>
        <Timeline windows={windows} />
        <Problems failure={doing.failure} fields={["label", "fork"]} />
        <div class="actions">
          <Button submit kind="main" disabled={doing.busy || utc === ""}>
            {T.backups.fork}
          </Button>
          <Button onClick={close}>{T.cancel}</Button>
        </div>
      </form>
    </Dialog>
  );
}
