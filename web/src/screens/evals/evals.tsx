// Evaluations: runs with how much passed. One run is in `run.tsx`. For administrators.
import { useEffect, useState } from "preact/hooks";
import { json, query } from "../../api/client";
import type { EvalRun, EvalRunPage } from "../../api/types";
import { t } from "../../i18n";
import { duration, percent } from "../../model/format";
import { link, route } from "../../router";
import { Action } from "../../ui/button";
import { Empty, Failure } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Meter } from "../../ui/meter";
import { StateBadge } from "../../ui/state";
import { Ago } from "../../ui/time";
import { Choice } from "../choice";
import { EvalRunView } from "./run";

const LIMIT = 100;

export function EvalsScreen() {
  const [, name, run] = route.value.path;
  return name !== undefined && run !== undefined ? <EvalRunView key={`${name}\n${run}`} name={name} run={run} /> : <Runs />;
}

function Runs() {
  const name = route.value.query.get("name") ?? "";
  const { value, error } = useLoaded(() => json<EvalRunPage>(`/evals${query({ name, limit: LIMIT })}`), [name], 5_000);
  const [older, setOlder] = useState<EvalRunPage | null>(null);
  useEffect(() => setOlder(null), [name]);
  const first = value.value;
  const cursor = older ? older.cursor : (first?.cursor ?? null);
  // The first page is loaded again and again, so a run may have moved to the next.
  const known = new Set(first?.items.map((each) => each.run));
  const items = first ? [...first.items, ...(older?.items ?? []).filter((each) => !known.has(each.run))] : [];
  const more = async () => {
    const next = await json<EvalRunPage>(`/evals${query({ name, limit: LIMIT, cursor })}`);
    setOlder({ items: [...(older?.items ?? []), ...next.items], cursor: next.cursor ?? null });
  };
  const names = [...new Set([...(name ? [name] : []), ...items.map((each) => each.name)])].sort();
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("evals.title")}</h1>{first && <span class="count">{items.length}{cursor ? "+" : ""}</span>}</div>
        {(names.length > 1 || name) && <Choice name="name" label={t("evals.name")} options={names} any={t("runs.any")} />}
      </header>
      <Failure text={error.value} />
      {first && !items.length && <Empty>{t("evals.none")} <code>clicket eval</code></Empty>}
      {items.length > 0 && (
        <section class="panel">
          <table class="plain-table stacked">
            <thead><tr>{(["evals.name", "evals.commit", "evals.began", "column.duration", "evals.agents", "evals.passed", "evals.rate"] as const).map((each) => <th key={each} scope="col">{t(each)}</th>)}</tr></thead>
            <tbody>{items.map((each) => <Row key={each.run} run={each} />)}</tbody>
          </table>
          {cursor && <Action kind="plain" onClick={more}>{t("notices.more")}</Action>}
        </section>
      )}
    </>
  );
}

function Row({ run }: { run: EvalRun }) {
  const { rate } = run;
  const agents = run.agents.join(", ");
  return (
    <tr>
      <td data-label={t("evals.name")}><a href={link(["evals", run.name, run.run])}>{run.name}</a></td>
      <td data-label={t("evals.commit")} class={run.commit ? "mono" : "none"}>{run.commit.slice(0, 10)}</td>
      <td data-label={t("evals.began")}><Ago at={run.began_at} /></td>
      <td data-label={t("column.duration")} class={run.ended_at === null ? "none" : ""}>{run.ended_at !== null && duration(run.seconds)}</td>
      <td data-label={t("evals.agents")} class={agents ? "" : "none"}>{agents}</td>
      <td data-label={t("evals.passed")}>{rate === null ? <StateBadge state="unfinished" /> : t("evals.of", { passed: run.passed, total: run.total })}</td>
      <td data-label={t("evals.rate")} class={rate === null ? "none" : "bar-cell"}>{rate !== null && <Rate run={run} />}</td>
    </tr>
  );
}

function Rate({ run }: { run: EvalRun }) {
  const failed = run.total - run.passed;
  return (
    <span class="rate">
      <Meter parts={[{ value: run.passed, tone: "ok" }, { value: failed, tone: "bad" }]} whole={run.total} label={t("evals.rateLabel", { passed: run.passed, failed })} />
      <span>{percent(run.rate)}</span>
    </span>
  );
}
