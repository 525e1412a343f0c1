// Rates, errors, latencies, the queue, the cache, the store and the workers, on one page.
import { useState } from "preact/hooks";
import { json, request } from "../../api/client";
import type { Anomalies, CacheStats, Readiness, Report, WorkerList } from "../../api/types";
import { t } from "../../i18n";
import { loadActivity } from "../../model/activity";
import { bytes, duration, number, percent } from "../../model/format";
import { metricsOf, total } from "../../model/metrics";
import { link } from "../../router";
import { may, offers, principal } from "../../session";
import { Failure } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Chart } from "../../ui/sparkline";
import { StateBadge } from "../../ui/state";
import { Ago } from "../../ui/time";

const SPANS = [3600, 21_600, 86_400, 604_800];
const RUNNING = ["running", "streaming", "retrying"];
const OUTCOMES = ["completed", "failed", "timeout", "cancelled"] as const;

export function OverviewScreen() {
  const [span, setSpan] = useState(3600);
  const activity = useLoaded(() => loadActivity(span), [span], 5_000);
  const report = useLoaded(() => json<Report>("/report"), [], 5_000);
  const value = activity.value.value;
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("overview.title")}</h1></div>
        <label class="filter"><span>{t("overview.span")}</span>
          <select value={String(span)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
            {SPANS.map((each) => <option key={each} value={String(each)}>{duration(each)}</option>)}
          </select>
        </label>
      </header>
      <Failure text={activity.error.value} />
      <Tiles report={report.value.value} />
      {value && (
        <div class="charts">
          <section class="panel">
            <Chart stack times={value.times} title={t("overview.outcomes", { time: duration(value.step) })} series={OUTCOMES.map((state) => (
              { name: t(`state.${state}`), tone: state, values: value.values[state] ?? [] }
            ))} />
          </section>
          <section class="panel">
            <Chart seconds times={value.times} title={t("overview.latency")} series={[
              { name: "p50", tone: "running", values: value.values["p50"] ?? [] }, { name: "p95", tone: "retrying", values: value.values["p95"] ?? [] },
            ]} />
          </section>
          <section class="panel">
            <Chart times={value.times} title={t("overview.queue")} series={[{ name: t("overview.waiting"), tone: "running", values: value.values["max"] ?? [] }]} />
          </section>
          <Anomalies />
        </div>
      )}
      <ByTool report={report.value.value} />
      {offers("GET /workers") && may("admin") && <Workers />}
    </>
  );
}

function Tiles({ report }: { report: Report | null }) {
  const { value } = useLoaded(async () => metricsOf(await (await request("/metrics", { accept: "text/plain" })).text()), [], 5_000);
  const cache = useLoaded(() => json<CacheStats>("/cache/stats"), [], 5_000).value.value;
  const ready = useLoaded(() => json<Readiness>("/readyz"), [], 5_000).value.value;
  const metrics = value.value ?? new Map();
  const totals = report?.totals;
  const queue = total(metrics, "clicket_queue_length") ?? total(metrics, "clicket_queue_depth");
  const running = total(metrics, "clicket_calls_active", (labels) => RUNNING.includes(labels["state"] ?? ""));
  const slots = total(metrics, "clicket_slots_limit");
  const looked = (cache?.hits ?? 0) + (cache?.misses ?? 0);
  return (
    <dl class="tiles">
      <div><dt>{t("overview.calls")}</dt><dd>{number(totals?.total ?? 0)}</dd></div>
      <div><dt>{t("overview.success")}</dt><dd>{percent(totals?.success_rate ?? null)}</dd></div>
      <div><dt>{t("overview.p95")}</dt><dd>{duration(totals?.p95)}</dd></div>
      {running !== null && <div><dt>{t("overview.running")}</dt><dd>{number(running)}{slots !== null && <small>{t("overview.slots", { count: number(slots) })}</small>}</dd></div>}
      {queue !== null && <div><dt>{t("overview.queue")}</dt><dd>{number(queue)}</dd></div>}
      <div><dt>{t("overview.cache")}</dt><dd>{looked ? percent((cache?.hits ?? 0) / looked) : "–"}<small>{t("overview.cacheItems", { count: number(cache?.items ?? 0), size: bytes(cache?.bytes ?? 0) })}</small></dd></div>
      <div><dt>{t("overview.store")}</dt><dd>{ready ? (ready.ready ? t("overview.ready") : t("overview.notReady")) : "–"}<small>clicket {principal.value?.version}</small></dd></div>
    </dl>
  );
}

function ByTool({ report }: { report: Report | null }) {
  const tools = Object.values(report?.tools ?? {}).sort((a, b) => b.total - a.total).slice(0, 12);
  return (
    <section class="panel">
      <h2>{t("overview.byTool")}</h2>
      <table class="plain-table">
        <thead><tr><th scope="col">{t("column.tool")}</th><th scope="col" class="right">{t("tools.calls")}</th><th scope="col" class="right">{t("tools.success")}</th><th scope="col" class="right">p50</th><th scope="col" class="right">p95</th></tr></thead>
        <tbody>
          {tools.map((tool) => (
            <tr key={tool.tool}>
              <td><a href={link(["runs"], { tool: tool.tool })}>{tool.tool}</a></td>
              <td class="right">{number(tool.total)}</td>
              <td class="right">{percent(tool.success_rate)}</td>
              <td class="right">{duration(tool.p50)}</td>
              <td class="right">{duration(tool.p95)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Anomalies() {
  const found = useLoaded(() => json<Anomalies>("/anomalies"), [], 10_000).value.value?.items ?? [];
  return (
    <section class="panel">
      <h2>{t("overview.anomalies")}</h2>
      {found.length ? <ul class="bare">{found.map((each) => <li key={each.tool + each.kind}><a href={link(["tools", each.tool])}>{each.tool}</a> <span class="hint">{each.message}</span></li>)}</ul> : <p class="hint">{t("overview.noAnomalies")}</p>}
    </section>
  );
}

function Workers() {
  const { value, error } = useLoaded(() => json<WorkerList>("/workers"), [], 5_000);
  const workers = value.value?.items ?? [];
  return (
    <section class="panel">
      <h2>{t("overview.workers")}</h2>
      <Failure text={error.value} />
      <table class="plain-table">
        <thead><tr><th scope="col">{t("overview.worker")}</th><th scope="col">{t("column.state")}</th><th scope="col">{t("overview.host")}</th><th scope="col">{t("overview.load")}</th><th scope="col">{t("tools.title")}</th><th scope="col">{t("overview.seen")}</th></tr></thead>
        <tbody>
          {workers.map((worker) => (
            <tr key={worker.id}>
              <td class="mono">{worker.id}</td>
              <td><StateBadge state={worker.state ?? ""} /></td>
              <td class="mono">{worker.host}{worker.pid ? `:${worker.pid}` : ""} {worker.version}</td>
              <td>{worker.running ?? 0} / {worker.capacity ?? "–"}</td>
              <td>{Object.keys(worker.tools).length}</td>
              <td><Ago at={worker.seen_at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
