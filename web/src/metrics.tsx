// Metrics: plots with one cursor, each with its table.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { MeasuredView, MetricView } from "./api";
import { call } from "./call";
import type { Props } from "./database";
import { measured } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Card, Field, Loaded, Table } from "./ui";

const shown = {
  postgresql: ["cpu_usage", "memory_usage", "disk_usage", "connections", "connections_active", "transactions_committed", "read_iops", "write_iops", "cache_hit_ratio", "replication_lag"],
  mysql: ["cpu_usage", "memory_usage", "disk_usage", "connections", "queries", "read_iops", "write_iops", "cache_hit_ratio", "replication_lag"],
};

const spans: Record<string, number> = { "1 h": 3600, "6 h": 21_600, "24 h": 86_400, "7 d": 604_800, "30 d": 2_592_000 };

function stamp(at: number): string {
  return new Date(at * 1000).toISOString().slice(0, 19);
}

export function Metrics({ db, path }: Props) {
  const [span, setSpan] = useState("1 h");
  const [all, setAll] = useState(false);
  const seconds = spans[span] ?? 3600;
  const read = useReader(
    `metrics/${db.engine}/${db.id}/${span}/${all}`,
    (background) => {
      const now = Math.floor(Date.now() / 1000);
      return call(`GET /v4/databases/${db.engine}/instances/{instanceId}/metrics`, {
        path, background,
        query: { from: stamp(now - seconds), to: stamp(now), metric: all ? undefined : shown[db.engine].join(",") },
      });
    },
    seconds <= 21_600 ? 10_000 : 60_000,
  );
  return (
    <>
      <div class="filters">
        <Field label={T.metrics.span} name="span">
          {(p) => (
            <select {...p} value={span} onChange={(e) => setSpan(e.currentTarget.value)}>
              {Object.keys(spans).map((s) => (
                <option key={s}>{s}</option>
              ))}
            </select>
          )}
        </Field>
        <p class="check">
          <label>
            <input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> {T.metrics.all}
          </label>
        </p>
      </div>
      <Loaded of={read}>
        {(m) => {
          const present = m.metrics.filter((x) => x.values.some((v) => v !== null));
          return present.length === 0 ? (
            <p>{T.metrics.none}</p>
          ) : (
            <div class="plots">
              {present.map((x) => (
                <Plot key={x.name} metric={x} of={m} />
              ))}
            </div>
          );
        }}
      </Loaded>
    </>
  );
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

function Plot({ metric, of }: { metric: MetricView; of: MeasuredView }) {
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
        cursor: { sync: { key: sync.key } },
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
  useEffect(() => plot.current?.setData(data), [of]);
  const last = metric.values.findLast((v) => v !== null);
  const rows = times.map((at, i) => ({ at, values: lines.map((l) => l[i] ?? null) })).filter((r) => r.values.some((v) => v !== null)).reverse();
  return (
    <Card title={metric.label} actions={<strong>{measured(last, metric.unit)}</strong>}>
      <p class="hint">{metric.description}</p>
      <div ref={place} class="plot" aria-hidden="true" />
      <details>
        <summary>{T.metrics.table(metric.label)}</summary>
        <Table
          label={metric.label}
          rows={rows.slice(0, 400)}
          id={(r) => r.at}
          columns={[
            { head: T.metrics.time, cell: (r) => new Date(r.at * 1000).toLocaleString("en-GB") },
            ...names.map((head, i) => ({ head, number: true, cell: (r: (typeof rows)[number]) => measured(r.values[i], metric.unit) })),
          ]}
        />
      </details>
    </Card>
  );
}
