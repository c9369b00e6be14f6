// Alerts: by which rules databases are judged, and where that is told.
import { useState } from "preact/hooks";
import type { AlertCreate, AlertRule, AlertView, ChannelCreate, ChannelTarget, ChannelView, DefinitionView, DimensionFilter, RuleView } from "./api";
import { call, whole } from "./call";
import { measured, plain } from "./format";
import { useReader } from "./live";
import { T } from "./text";
import { Alert, Button, Choice, FormDialog, Items, Loaded, Once, Page, Pick, Status, Sure, Tabs, Text, Tick } from "./ui";
import { may } from "./who";

const tabs = ["", "channels"] as const;
const definitions = "/v4/monitor/services/{serviceType}/alert-definitions";
const dbaas = { serviceType: "dbaas" };

export function Alerts({ tab }: { tab: string }) {
  const at = (t: string) => "/console/alerts" + (t && "/" + t);
  return (
    <Page title={T.alerts.title}>
      <Tabs label={T.alerts.parts} at={at(tab)} all={tabs.map((t) => [at(t), T.alerts.tab[t]])} />
      {!may.managed() ? <Alert kind="warn">{T.forbidden}</Alert> : tab === "" ? <Rules /> : tab === "channels" ? <Channels /> : <Alert>{T.gone}</Alert>}
    </Page>
  );
}

function condition(r: RuleView): string {
  return T.alerts.condition(T.alerts.aggregates[r.aggregate_function] ?? r.aggregate_function, r.label, T.alerts.operators[r.operator] ?? r.operator, r.unit === "second" && r.threshold >= 60 && r.threshold % 60 === 0 ? T.alerts.length(r.threshold) : measured(r.threshold, r.unit));
}

function Rules() {
  const read = useReader("rules", (background) => whole((page) => call(`GET ${definitions}`, { path: dbaas, query: { page, page_size: 500 }, background })));
  return (
    <Items
      title={T.alerts.rules}
      read={read}
      id={(r) => r.id}
      name={(r) => r.label}
      columns={[
        { head: T.databases.label, by: (r) => r.label, cell: (r) => plain(r.label) },
        { head: T.alerts.severity, by: (r) => r.severity, cell: (r) => T.alerts.severities[r.severity] },
        { head: T.alerts.when, cell: (r) => r.rule_criteria.rules.map((c) => plain(condition(c))).join(T.alerts.and) },
        { head: T.alerts.for, cell: (r) => T.alerts.held(r.trigger_conditions.trigger_occurrences, T.alerts.length(r.trigger_conditions.polling_interval_seconds)) },
        { head: T.alerts.of, by: (r) => r.entities.count, cell: (r) => T.alerts.scopes[r.scope] + (r.scope === "region" ? ": " + plain(r.regions.join(", ")) : r.scope === "entity" ? `: ${r.entities.count}` : "") },
        { head: T.alerts.told, cell: (r) => plain(r.alert_channels.map((c) => c.label).join(", ")) || T.none },
        { head: T.databases.status, by: (r) => r.status, cell: (r) => <Status of={r.status === "enabled" ? "enabled" : "off"} /> },
      ]}
      can
      add={T.alerts.add}
      form={(of, close) => <RuleForm rule={of} close={close} done={() => read.read()} />}
      remove={{ title: T.alerts.deleteTitle, text: T.alerts.deleteText, when: (r) => r.type === "user", run: (r) => call(`DELETE ${definitions}/{alertId}`, { path: { ...dbaas, alertId: r.id } }) }}
    >
      <p class="hint">{T.alerts.text}</p>
    </Items>
  );
}

interface Offer {
  metrics: DefinitionView[];
  channels: ChannelView[];
  databases: { id: string; label: string }[];
  regions: { id: string; label: string }[];
}

async function readOffer(background: boolean): Promise<Offer> {
  const query = (page: number) => ({ page, page_size: 500 });
  const [metrics, channels, databases, regions] = await Promise.all([
    whole((page) => call("GET /v4/monitor/services/{serviceType}/metric-definitions", { path: dbaas, query: query(page), background })),
    whole((page) => call("GET /v4/monitor/alert-channels", { query: query(page), background })),
    whole((page) => call("GET /v4/databases/instances", { query: query(page), background })),
    whole((page) => call("GET /v4/regions", { query: query(page), background })),
  ]);
  return { metrics: metrics.filter((m) => m.is_alertable), channels, databases: databases.map((d) => ({ id: String(d.id), label: d.label })), regions };
}

function RuleForm(props: { rule?: AlertView; close: () => void; done: () => void }) {
  const offer = useReader("alert-offer", readOffer);
  return offer.data ? <RuleFields {...props} offer={offer.data} /> : <FormDialog title={T.alerts.add} ready={false} close={props.close} save={async () => undefined}>{() => <Loaded of={offer}>{() => null}</Loaded>}</FormDialog>;
}

const lengths = [30, 60, 300, 600, 900, 1800, 3600];

// nodes is which of a database's nodes a criterion is of, as far as the form can say it.
function nodes(filters: DimensionFilter[]): string {
  const [first] = filters;
  if (!first) return "";
  return filters.length === 1 && first.dimension_label === "node_type" && first.operator === "eq" ? first.value : "kept";
}

function RuleFields({ rule, offer, close, done }: { rule?: AlertView; offer: Offer; close: () => void; done: () => void }) {
  const own = rule?.type !== "system";
  const [label, setLabel] = useState(rule?.label ?? "");
  const [description, setDescription] = useState(rule?.description ?? "");
  const [severity, setSeverity] = useState(String(rule?.severity ?? 1));
  const [enabled, setEnabled] = useState(rule?.status !== "disabled");
  const [criteria, setCriteria] = useState<AlertRule[]>(
    rule
      ? rule.rule_criteria.rules.map((r) => ({ metric: r.metric, aggregate_function: r.aggregate_function, operator: r.operator, threshold: r.threshold, dimension_filters: r.dimension_filters.map(({ dimension_label, operator, value }) => ({ dimension_label, operator, value })) }) as AlertRule)
      : [{ metric: offer.metrics[0]?.metric ?? "", aggregate_function: "avg", operator: "gt", threshold: 90 }],
  );
  const [period, setPeriod] = useState(String(rule?.trigger_conditions.evaluation_period_seconds ?? 300));
  const [polling, setPolling] = useState(String(rule?.trigger_conditions.polling_interval_seconds ?? 60));
  const [occurrences, setOccurrences] = useState(String(rule?.trigger_conditions.trigger_occurrences ?? 3));
  const [scope, setScope] = useState<string>(rule?.scope ?? "account");
  const [entities, setEntities] = useState(rule?.entity_ids ?? []);
  const [regions, setRegions] = useState(rule?.regions ?? []);
  const [channels, setChannels] = useState(rule ? rule.alert_channels.map((c) => c.id) : [1]);
  const change = (n: number, to: Partial<AlertRule>) => setCriteria(criteria.map((c, i) => (i === n ? { ...c, ...to } : c)));
  const save = async () => {
    const common = {
      severity: Number(severity), rule_criteria: { rules: criteria }, channel_ids: channels,
      trigger_conditions: { criteria_condition: "ALL" as const, evaluation_period_seconds: Number(period), polling_interval_seconds: Number(polling), trigger_occurrences: Number(occurrences) },
    };
    const body: AlertCreate = { ...common, label, description, scope: scope as "account", entity_ids: scope === "entity" ? entities : [], regions: scope === "region" ? regions : [] };
    const status = enabled ? ("enabled" as const) : ("disabled" as const);
    if (rule) await call(`PUT ${definitions}/{alertId}`, { path: { ...dbaas, alertId: rule.id }, body: own ? { ...body, status } : { ...common, status } });
    else await call(`POST ${definitions}`, { path: dbaas, body });
    done();
  };
  const options = (all: Record<string, string>) => Object.entries(all);
  const seconds = (now: string) => [...new Set([...lengths, Number(now)])].map((n) => [String(n), T.alerts.length(n)] as const);
  const fields = ["label", "description", "severity", "rule_criteria", "trigger_conditions.evaluation_period_seconds", "trigger_conditions.polling_interval_seconds", "trigger_conditions.trigger_occurrences", "scope", "entity_ids", "regions", "channel_ids"];
  return (
    <FormDialog title={rule ? T.contacts.changeOf(plain(rule.label)) : T.alerts.add} fields={fields} close={close} save={save} saved={T.settings.saved}>
      {(failure) => (
        <>
          {own ? (
            <>
              <Text label={T.databases.label} name="label" failure={failure} value={label} set={setLabel} />
              <Text label={T.alerts.description} name="description" failure={failure} hint={T.alerts.descriptionHint} value={description} set={setDescription} />
            </>
          ) : (
            <p class="hint">{T.alerts.system}</p>
          )}
          <Choice label={T.alerts.severity} name="severity" failure={failure} value={severity} set={setSeverity} of={T.alerts.severities.map((text, n) => [String(n), text] as const)} />
          {rule && <Tick label={T.alerts.enabled} on={enabled} set={setEnabled} />}
          {criteria.map((c, n) => (
            <fieldset class="criterion" key={n}>
              <legend>{T.alerts.criterion(n + 1)}</legend>
              {own ? (
                <>
                  <Choice label={T.alerts.metric} name="metric" value={c.metric} set={(metric) => change(n, { metric })} of={offer.metrics.map((m) => [m.metric, m.label] as const)} />
                  <Choice label={T.alerts.aggregate} name="aggregate" value={c.aggregate_function} set={(to) => change(n, { aggregate_function: to as "avg" })} of={options(T.alerts.aggregates)} />
                  <Choice label={T.alerts.operator} name="operator" value={c.operator} set={(to) => change(n, { operator: to as "gt" })} of={options(T.alerts.operators)} />
                  <Choice
                    label={T.alerts.nodes}
                    name="nodes"
                    value={nodes(c.dimension_filters ?? [])}
                    set={(value) => value !== "kept" && change(n, { dimension_filters: value ? [{ dimension_label: "node_type", operator: "eq", value }] : [] })}
                    of={[...options(T.alerts.allNodes), ...(nodes(c.dimension_filters ?? []) === "kept" ? [["kept", T.alerts.kept] as const] : [])]}
                  />
                </>
              ) : (
                <p>{rule && plain(condition(rule.rule_criteria.rules[n] as RuleView))}</p>
              )}
              <Text label={T.alerts.threshold(offer.metrics.find((m) => m.metric === c.metric)?.unit ?? rule?.rule_criteria.rules[n]?.unit ?? "")} name="threshold" type="number" value={String(c.threshold)} set={(text) => change(n, { threshold: Number(text) })} />
              {own && criteria.length > 1 && <Button label={T.alerts.without(n + 1)} onClick={() => setCriteria(criteria.filter((_, i) => i !== n))}>{T.delete}</Button>}
            </fieldset>
          ))}
          {failure?.of("rule_criteria") && <p class="problem">{plain(failure.of("rule_criteria") ?? "")}</p>}
          {own && criteria.length < 5 && <Button onClick={() => setCriteria([...criteria, { ...(criteria.at(-1) as AlertRule) }])}>{T.alerts.more}</Button>}
          <Choice label={T.alerts.period} name="trigger_conditions.evaluation_period_seconds" failure={failure} value={period} set={setPeriod} of={seconds(period)} />
          <Choice label={T.alerts.polling} name="trigger_conditions.polling_interval_seconds" failure={failure} value={polling} set={setPolling} of={seconds(polling)} />
          <Text label={T.alerts.occurrences} name="trigger_conditions.trigger_occurrences" type="number" failure={failure} value={occurrences} set={setOccurrences} />
          {own && <Choice label={T.alerts.of} name="scope" failure={failure} value={scope} set={setScope} of={options(T.alerts.scopes)} />}
          {own && scope === "entity" && <Pick legend={T.databases.title} name="entity_ids" failure={failure} all={offer.databases} chosen={entities} set={setEntities} />}
          {own && scope === "region" && <Pick legend={T.account.tab.regions} name="regions" failure={failure} all={offer.regions} chosen={regions} set={setRegions} />}
          <Pick legend={T.alerts.told} name="channel_ids" failure={failure} all={offer.channels} chosen={channels} set={setChannels} />
        </>
      )}
    </FormDialog>
  );
}

const channelPath = "/v4/monitor/alert-channels";

// where is what people may see of where a channel leads.
function where(c: ChannelView): string {
  if (c.details.email) return c.type === "system" ? T.alerts.contacts : c.details.email.addresses.join(", ");
  return (c.details.webhook ?? c.details.slack)?.url ?? T.none;
}

function Channels() {
  const [secret, setSecret] = useState<{ label: string; secret: string }>();
  const [tried, setTried] = useState<{ label: string; problem: string | null }>();
  const read = useReader("channels", (background) => whole((page) => call(`GET ${channelPath}`, { query: { page, page_size: 500 }, background })));
  const made = (c: { label: string; secret: string | null }) => {
    if (c.secret) setSecret({ label: c.label, secret: c.secret });
    read.read();
  };
  const path = (c: ChannelView) => ({ channelId: c.id });
  const own = (c: ChannelView) => c.type === "user";
  return (
    <Items
      title={T.alerts.channels}
      read={read}
      id={(c) => c.id}
      name={(c) => c.label}
      columns={[
        { head: T.databases.label, by: (c) => c.label, cell: (c) => plain(c.label) },
        { head: T.alerts.kind, by: (c) => c.channel_type, cell: (c) => T.alerts.kinds[c.channel_type] },
        { head: T.alerts.where, cell: (c) => plain(where(c)) },
        { head: T.alerts.used, number: true, by: (c) => c.alerts.alert_count, cell: (c) => String(c.alerts.alert_count) },
      ]}
      can
      add={T.alerts.addChannel}
      change={own}
      form={(of, close) => <ChannelForm channel={of} close={close} done={made} />}
      more={[
        {
          text: T.alerts.test,
          label: (c) => T.alerts.testOf(c.label),
          when: own,
          dialog: (c, close) => (
            <Sure title={T.alerts.testOf(plain(c.label))} text={<p>{T.alerts.testText}</p>} action={T.alerts.test} close={close} run={async () => setTried({ label: c.label, problem: (await call(`POST ${channelPath}/{channelId}/test`, { path: path(c) })).problem })} />
          ),
        },
        {
          text: T.clients.reset,
          label: (c) => T.clients.resetOf(c.label),
          when: (c) => c.channel_type === "webhook",
          dialog: (c, close) => <Sure title={T.clients.resetOf(plain(c.label))} text={<p>{T.alerts.resetText}</p>} action={T.clients.reset} close={close} run={async () => made(await call(`PUT ${channelPath}/{channelId}`, { path: path(c), body: { rotate_secret: true } }))} />,
        },
      ]}
      remove={{ title: T.alerts.deleteChannel, text: T.alerts.deleteChannelText, when: own, run: (c) => call(`DELETE ${channelPath}/{channelId}`, { path: path(c) }) }}
    >
      <p class="hint">{T.alerts.channelText}</p>
      {secret && <Once text={T.alerts.once(plain(secret.label))} secrets={[[T.clients.secret, secret.secret]]} close={() => setSecret(undefined)} />}
      <div role="status">{tried && <Alert kind={tried.problem ? "warn" : "good"}>{tried.problem ? T.alerts.refused(plain(tried.label), plain(tried.problem)) : T.alerts.taken(plain(tried.label))}</Alert>}</div>
    </Items>
  );
}

function ChannelForm({ channel, close, done }: { channel?: ChannelView; close: () => void; done: (c: { label: string; secret: string | null }) => void }) {
  const [label, setLabel] = useState(channel?.label ?? "");
  const [kind, setKind] = useState<string>(channel?.channel_type ?? "webhook");
  const [addresses, setAddresses] = useState(channel?.details.email?.addresses.join("\n") ?? "");
  const [url, setURL] = useState("");
  const [region, setRegion] = useState((channel?.details.webhook ?? channel?.details.slack)?.region ?? "");
  const regions = useReader("regions", (background) => call("GET /v4/regions", { background }));
  const save = async () => {
    const details: ChannelTarget = kind === "email" ? { email: { addresses: addresses.split(/[\s,]+/).filter(Boolean) } } : { [kind]: { url, region: region || null } };
    const body: ChannelCreate = { label, channel_type: kind as ChannelCreate["channel_type"], details };
    if (channel) done(await call(`PUT ${channelPath}/{channelId}`, { path: { channelId: channel.id }, body: kind !== "email" && url === "" ? { label } : { label, details } }));
    else done(await call(`POST ${channelPath}`, { body }));
  };
  const at = `details.${kind}.`;
  return (
    <FormDialog title={channel ? T.contacts.changeOf(plain(channel.label)) : T.alerts.addChannel} fields={["label", "channel_type", "details.email.addresses", at + "url", at + "region"]} close={close} save={save} saved={T.settings.saved}>
      {(failure) => (
        <>
          <Text label={T.databases.label} name="label" failure={failure} value={label} set={setLabel} />
          {!channel && <Choice label={T.alerts.kind} name="channel_type" failure={failure} value={kind} set={setKind} of={Object.entries(T.alerts.kinds)} />}
          {kind === "email" ? (
            <Text label={T.alerts.addresses} name="details.email.addresses" rows={4} failure={failure} hint={T.alerts.addressesHint} value={addresses} set={setAddresses} />
          ) : (
            <>
              <Text label={T.alerts.url} name={at + "url"} failure={failure} hint={channel ? T.alerts.urlKept : kind === "slack" ? T.alerts.slackHint : T.alerts.webhookHint} value={url} set={setURL} />
              <Choice label={T.create.region} name={at + "region"} failure={failure} hint={T.alerts.regionHint} value={region} set={setRegion} of={[["", T.alerts.noRegion], ...(regions.data?.data ?? []).map((r) => [r.id, r.label] as const)]} />
            </>
          )}
        </>
      )}
    </FormDialog>
  );
}
