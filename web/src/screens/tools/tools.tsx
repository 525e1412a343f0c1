// The health of the tools: in all, or in one thread.
import { useEffect, useState } from "preact/hooks";
import { json, query } from "../../api/client";
import type { Anomalies, Anomaly, Listing, Report, ToolInfo, ToolList, ToolView } from "../../api/types";
import { t } from "../../i18n";
import { duration, number, percent } from "../../model/format";
import { loadThreads } from "../../model/threads";
import { link, route, withQuery } from "../../router";
import { Empty, Failure } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Sparkline } from "../../ui/sparkline";
import { StateBadge } from "../../ui/state";
import { ToolScreen } from "./tool";

interface Health {
  tools: ToolInfo[];
  standings: Map<string, ToolView>;
  report: Report;
  anomalies: Anomaly[];
  latencies: Map<string, number[]>;
}

const EMPTY_REPORT: Report = { tools: {}, totals: {} as Report["totals"], since: null };

async function load(thread: string): Promise<Health> {
  const [list, report, anomalies, recent] = await Promise.all([
    json<ToolList>(`/tools${query({ thread })}`),
    json<Report>("/report").catch(() => EMPTY_REPORT),
    json<Anomalies>("/anomalies").catch(() => ({ items: [] })),
    json<Listing>(`/calls${query({ thread, limit: 1000 })}`).catch(() => ({ items: [], cursor: null })),
  ]);
  const latencies = new Map<string, number[]>();
  for (const call of recent.items) {
    if (call.duration === null || call.started_at === null || call.ended_at === null) continue;
    const values = latencies.get(call.tool) ?? [];
    if (values.length < 40) latencies.set(call.tool, [call.ended_at - call.started_at, ...values]);
  }
  return { tools: list.items, standings: new Map((list.standings ?? []).map((each) => [each.name, each])), report, anomalies: anomalies.items, latencies };
}

export function ToolsScreen() {
  const chosen = route.value.path[1];
  const thread = route.value.query.get("thread") ?? "";
  const { value, error, reload } = useLoaded(() => load(thread), [thread], 5_000);
  const health = value.value;
  const tool = health?.tools.find((each) => each.name === chosen);
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("tools.title")}</h1>{health && <span class="count">{health.tools.length}</span>}</div>
        <ThreadChoice value={thread} />
      </header>
      <Failure text={error.value} />
      {health && !health.tools.length && <Empty>{t("tools.none")}</Empty>}
      {health && chosen !== undefined && tool && <ToolScreen key={tool.name} tool={tool} thread={thread} standing={health.standings.get(tool.name)} figures={health.report.tools[tool.name]} onChange={reload} />}
      {health && chosen !== undefined && !tool && <Empty>{t("tools.unknown", { tool: chosen })}</Empty>}
      <ul class="grid bare">
        {health?.tools.map((each) => <Card key={each.name} tool={each} thread={thread} health={health} />)}
      </ul>
    </>
  );
}

function ThreadChoice({ value }: { value: string }) {
  const [names, setNames] = useState<string[]>([]);
  const [text, setText] = useState(value);
  useEffect(() => {
    loadThreads().then((threads) => setNames([...new Set(threads.map((each) => each.name))].slice(0, 200)), () => undefined);
  }, []);
  useEffect(() => setText(value), [value]);
  return (
    <label class="filter" data-set={value !== ""}>
      <span>{t("tools.inThread")}</span>
      <input list="thread-names" value={text} placeholder={t("tools.allThreads")} onInput={(event) => setText(event.currentTarget.value)} onChange={(event) => withQuery({ thread: event.currentTarget.value.trim() || null })} />
      <datalist id="thread-names">{names.map((name) => <option key={name} value={name} />)}</datalist>
    </label>
  );
}

function Card({ tool, thread, health }: { tool: ToolInfo; thread: string; health: Health }) {
  const standing = health.standings.get(tool.name);
  const figures = health.report.tools[tool.name];
  const anomaly = health.anomalies.find((each) => each.tool === tool.name);
  const status = standing ? (standing.available ? "available" : standing.status === "available" ? "waits" : standing.status) : anomaly ? "failing" : figures ? "available" : "idle";
  return (
    <li>
      <a class="card" data-status={status} href={link(["tools", tool.name], { thread })}>
        <span class="card-head"><strong>{tool.name}</strong><StateBadge state={status} /></span>
        <span class="about">{tool.description}</span>
        {standing && !standing.available && <span class="reason">{standing.reason}</span>}
        {!standing && anomaly && <span class="reason">{anomaly.message}</span>}
        <span class="figures">
          <span><b>{number(figures?.total ?? 0)}</b>{t("tools.calls")}</span>
          <span><b>{percent(figures?.success_rate ?? null)}</b>{t("tools.success")}</span>
          <span><b>{duration(figures?.p50)}</b>p50</span>
          <span><b>{duration(figures?.p95)}</b>p95</span>
        </span>
        <Sparkline values={health.latencies.get(tool.name) ?? []} label={t("tools.latency")} />
      </a>
    </li>
  );
}

