// Metrics: plots with one cursor, each with its table.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { MeasuredView, MetricView } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { measured, plain, timeText, when } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Button, Card, Field, Loaded, Table, Time } from "./ui";

const shown = {
  postgresql: ["cpu_usage", "memory_usage", "disk_usage", "connections", "connections_active", "transactions_committed", "read_iops", "write_iops", "cache_hit_ratio", "replication_lag"],
  mysql: ["cpu_usage", "memory_usage", "disk_usage", "connections", "queries", "read_iops", "write_iops", "cache_hit_ratio", "replication_lag"],
};

const spans: Record<string, number> = { "1 h": 3600, "6 h": 21_600, "24 h": 86_400, "7 d": 604_800, "30 d": 2_592_000 };

function stamp(at: number): string {
  return new Date(at * 1000).toISOString().slice(0, 19);
}

interface Mark {
  at: number;
  kind: "failover" | "handover" | "backup";
  text: string;
}

// useMarks are what happened to the database in a time, for all plots to show.
function useMarks({ db, path }: Props): Mark[] {
  const changes = useReader(`changes/${db.engine}/${db.id}`, (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/nodes/history`, { path, query: { page_size: 500 }, background }), 60_000);
  const backups = useReader(`backups-of/${db.engine}/${db.id}`, (background) => call(`GET /v4/databases/${db.engine}/instances/{instanceId}/backups`, { path, query: { page_size: 100 }, background }), 60_000);
  const seconds = (text: string) => when(text).getTime() / 1000;
  return [
    ...(changes.data?.data ?? []).map((c): Mark => ({ at: seconds(c.time), kind: c.kind, text: c.message })),
    ...(backups.data?.data ?? []).map((b): Mark => ({ at: seconds(b.created), kind: "backup", text: b.label })),
  ].sort((a, b) => a.at - b.at);
}

export function Metrics(props: Props) {
  const { db, path } = props;
  const [span, setSpan] = useState("1 h");
  const [all, setAll] = useState(false);
  const [zoom, setZoom] = useState<[number, number]>();
  const marks = useMarks(props);
  const seconds = spans[span] ?? 3600;
  const read = useReader(
    `metrics/${db.engine}/${db.id}/${span}/${all}/${zoom?.join() ?? ""}`,
    (background) => {
      const now = Math.floor(Date.now() / 1000);
      const [from, to] = zoom ?? [now - seconds, now];
      return call(`GET /v4/databases/${db.engine}/instances/{instanceId}/metrics`, {
        path, background,
        query: { from: stamp(from), to: stamp(to), metric: all ? undefined : shown[db.engine].join(",") },
      });
    },
    zoom ? 0 : seconds <= 21_600 ? 10_000 : 60_000,
  );
  // move shows a part of the time that is shown: of its length, from so far on.
  const move = (part: number, on: number) => {
    const now = Math.floor(Date.now() / 1000);
    const [from, to] = zoom ?? [now - seconds, now];
    const length = Math.max((to - from) * part, 60);
    const end = Math.min(from + (to - from) * on + length, now);
    setZoom([Math.round(end - length), Math.round(end)]);
  };
  return (
    <>
      <div class="filters">
        <Field label={T.metrics.span} name="span">
          {(p) => (
            <select
              {...p}
              value={span}
              onChange={(e) => {
                setZoom(undefined);
                setSpan(e.currentTarget.value);
              }}
            >
              {Object.keys(spans).map((s) => (
                <option key={s}>{s}</option>
              ))}
            </select>
          )}
        </Field>
        <div class="actions">
          <Button onClick={() => move(1, -0.5)}>{T.metrics.earlier}</Button>
          <Button onClick={() => move(1, 0.5)} disabled={!zoom}>
            {T.metrics.later}
          </Button>
          <Button onClick={() => move(0.5, 0.25)}>{T.metrics.zoomIn}</Button>
          <Button onClick={() => setZoom(undefined)} disabled={!zoom}>
            {T.metrics.zoomOut}
          </Button>
        </div>
        <p class="check">
          <label>
            <input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> {T.metrics.all}
          </label>
        </p>
      </div>
      <Loaded of={read}>
        {(m) => {
          const present = m.metrics.filter((x) => x.values.some((v) => v !== null));
          const [from, to] = [when(m.from).getTime() / 1000, when(m.to).getTime() / 1000];
          const inside = marks.filter((k) => k.at >= from && k.at <= to);
          return (
            <>
              <p class="hint">
                {T.metrics.shown(timeText(m.from), timeText(m.to))}. {T.metrics.drag}
              </p>
              {inside.length > 0 && (
                <details>
                  <summary>
                    {T.metrics.marks}: {inside.length}
                  </summary>
                  <Table
                    label={T.metrics.marks}
                    rows={inside.map((k, n) => ({ ...k, n }))}
                    id={(k) => k.n}
                    columns={[
                      { head: T.metrics.time, cell: (k) => <Time at={stamp(k.at)} /> },
                      { head: T.events.what, cell: (k) => <span class={"mark " + k.kind}>{T.metrics.kinds[k.kind]}</span> },
                      { head: T.events.about, cell: (k) => plain(k.text) },
                    ]}
                  />
                </details>
              )}
              {present.length === 0 ? (
                <p>{T.metrics.none}</p>
              ) : (
                <div class="plots">
                  {present.map((x) => (
                    <Plot key={x.name} metric={x} of={m} marks={inside} zoom={setZoom} />
                  ))}
                </div>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

// Measured are the values of a plot's lines at a time, in seconds.
interface Measured {
  at: number;
  values: (number | null)[];
}

// csv is what a plot shows, by time in UTC.
function csv(name: string, names: string[], rows: Measured[]): void {
  const cell = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const lines = [["time", ...names].map(cell).join(","), ...[...rows].reverse().map((r) => [stamp(r.at) + "Z", ...r.values.map((v) => v ?? "")].join(","))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = `${name}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const sync = uPlot.sync("metrics");

// dark tells plots, which are painted, that the theme has changed.
const dark = signal(matchMedia("(prefers-color-scheme: dark)").matches);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => (dark.value = e.matches));

function timeLabels(splits: number[], step: number): string[] {
  const format = step >= 86_400 ? { day: "numeric", month: "short" } as const : { hour: "2-digit", minute: "2-digit" } as const;
  return splits.map((s) => new Date(s * 1000).toLocaleString("en-GB", format));
}

function color(element: Element, name: string): string {
  // Canvas doesn't know light-dark(): a color that the browser has worked out does.
  const probe = document.createElement("span");
  probe.className = name;
  element.appendChild(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// drawMarks draws a line for each thing that happened.
function drawMarks(u: uPlot, marks: Mark[], element: Element): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark.at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = color(element, "mark " + mark.kind);
    ctx.setLineDash(mark.kind === "backup" ? [2, 4] : []);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function Plot({ metric, of, marks, zoom }: { metric: MetricView; of: MeasuredView; marks: Mark[]; zoom: (to: [number, number]) => void }) {
  const noted = useRef(marks);
  noted.current = marks;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const from = new Date(of.from + "Z").getTime() / 1000;
  const times = metric.values.map((_, i) => from + i * of.step);
  const several = metric.nodes.length > 1;
  const lines = several ? metric.nodes.map((n) => n.values) : [metric.values];
  const names = several ? metric.nodes.map((n) => T.metrics.node(n.node, T.status[n.role] ?? n.role)) : [metric.label];
  const data = [times, ...lines] as uPlot.AlignedData;
  const shape = names.join();
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const axis = color(element, "axis-ink");
    const grid = color(element, "grid-ink");
    const axes = { stroke: axis, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const made = new uPlot(
      {
        width: Math.max(200, element.clientWidth), height: 180,
        cursor: { sync: { key: sync.key }, drag: { setScale: false } },
        hooks: {
          setSelect: [
            (u) => {
              const [a, b] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
              if (u.select.width > 4 && b - a >= 60) zoom([Math.floor(a), Math.ceil(b)]);
            },
          ],
          draw: [(u) => drawMarks(u, noted.current, element)],
        },
        legend: { show: several },
        axes: [{ ...axes, values: (_, splits, __, ___, step) => timeLabels(splits, step) }, { ...axes, size: 72, values: (_, values) => values.map((v) => measured(v, metric.unit)) }],
        series: [{ value: (_, at) => (at === null ? T.none : new Date(at * 1000).toLocaleString("en-GB")) }, ...names.map((label, i) => ({ label, stroke: color(element, `line-ink${i % 3}`), width: 1.5, value: (_: uPlot, v: number | null) => measured(v, metric.unit) }))],
      },
      data,
      element,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: Math.max(200, element.clientWidth), height: 180 }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [shape, metric.unit, dark.value]);
  useEffect(() => plot.current?.setData(data), [of, marks.length]);
  const last = metric.values.findLast((v) => v !== null);
  const [open, setOpen] = useState(false); // a closed table costs nothing
  const rows = () => times.map((at, i) => ({ at, values: lines.map((l) => l[i] ?? null) })).filter((r) => r.values.some((v) => v !== null)).reverse();
  return (
    <Card title={metric.label} actions={<strong>{measured(last, metric.unit)}</strong>}>
      <p class="hint">{metric.description}</p>
      <div ref={place} class="plot" aria-hidden="true" />
      <details onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>{T.metrics.table(metric.label)}</summary>
        <Button label={T.metrics.csv(metric.label)} onClick={() => csv(metric.name, names, rows())}>
          {T.metrics.asCSV}
        </Button>
        {open && (
          <Table
            label={metric.label}
            rows={rows().slice(0, 400)}
            id={(r) => r.at}
            columns={[
              { head: T.metrics.time, cell: (r) => <Time at={stamp(r.at)} /> },
              ...names.map((head, i) => ({ head, number: true, cell: (r: Measured) => measured(r.values[i], metric.unit) })),
            ]}
          />
        )}
      </details>
    </Card>
  );
}
