// One run of an evaluation: figures of its agents, and a grid of cases and agents. A cell opens its trial below its row.
import { useEffect, useState } from "preact/hooks";
import { json, query, quoted } from "../../api/client";
import type { AgentFigures, EvalReport, EvalRun, EvalTrial } from "../../api/types";
import { t, word } from "../../i18n";
import { duration, moment, money, number, percent } from "../../model/format";
import { link, route } from "../../router";
import { Action } from "../../ui/button";
import { Empty, Failure } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { StateBadge } from "../../ui/state";
import { Choice } from "../choice";
import { TrialView } from "./trial";

const LIMIT = 200;
const OUTCOMES = ["failed", "newly_failed", "passed", "newly_passed"] as const;

export function EvalRunView({ name, run }: { name: string; run: string }) {
  const outcome = route.value.query.get("outcome") ?? "";
  const path = `/evals/${quoted(name)}/${quoted(run)}`;
  const { value, error, reload } = useLoaded(() => json<EvalReport>(`${path}${query({ outcome, limit: LIMIT })}`), [path, outcome]);
  const [later, setLater] = useState<EvalReport | null>(null);
  useEffect(() => setLater(null), [outcome]);
  const report = value.value;
  const runs = report?.run.ended_at === null;
  useEffect(() => {
    const timer = runs ? setInterval(() => { if (!document.hidden) void reload(); }, 5_000) : 0;
    return () => clearInterval(timer);
  }, [runs, reload]);
  const cursor = later ? later.cursor : report?.cursor;
  const more = async () => {
    const next = await json<EvalReport>(`${path}${query({ outcome, limit: LIMIT, cursor })}`);
    setLater({ ...next, trials: [...(later?.trials ?? []), ...next.trials] });
  };
  return (
    <>
      <header class="page-head">
        <div class="title"><a class="back" href={link(["evals"])} aria-label={t("evals.back")} title={t("evals.back")}><Icon name="back" /></a><h1>{name}</h1>{runs && <StateBadge state="unfinished" />}</div>
        <Choice name="outcome" label={t("evals.outcome")} options={OUTCOMES} any={t("runs.any")} shown={(each) => word("state", each)} />
      </header>
      <Failure text={error.value} />
      {report && (
        <>
          <Tiles report={report} />
          <Figures figures={report.figures} run={report.run} />
          <Grid report={report} trials={[...report.trials, ...(later?.trials ?? [])]} path={path} filtered={outcome !== ""} />
          {cursor && <Action kind="plain" onClick={more}>{t("evals.more")}</Action>}
        </>
      )}
    </>
  );
}

function Tiles({ report }: { report: EvalReport }) {
  // While it runs: of the trials that have ended.
  const passed = report.figures.reduce((sum, each) => sum + each.passed, 0);
  const total = report.figures.reduce((sum, each) => sum + each.trials, 0);
  return (
    <dl class="tiles">
      <div><dt>{t("evals.passed")}</dt><dd>{percent(total ? passed / total : null)}<small>{t("evals.of", { passed, total })}</small></dd></div>
      <div><dt>{t("evals.newlyFailed")}</dt><dd class={report.newly_failed ? "bad" : ""}>{number(report.newly_failed)}<small>{t("evals.sinceLast")}</small></dd></div>
      <div><dt>{t("evals.newlyPassed")}</dt><dd>{number(report.newly_passed)}<small>{t("evals.sinceLast")}</small></dd></div>
    </dl>
  );
}

function Figures({ figures, run }: { figures: AgentFigures[]; run: EvalRun }) {
  const heads = ["evals.agent", "evals.passed", "evals.steps", "evals.calls", "spend.tokens", "spend.money", "evals.median", "evals.slowest"] as const;
  return (
    <section class="panel">
      <dl class="facts spaced">
        {run.commit && <><dt>{t("evals.commit")}</dt><dd class="mono">{run.commit}</dd></>}
        <dt>{t("evals.began")}</dt><dd>{moment(run.began_at)}</dd>
        {run.ended_at !== null && <><dt>{t("evals.ended")}</dt><dd>{moment(run.ended_at)} ({duration(run.seconds)})</dd></>}
      </dl>
      <table class="plain-table stacked">
        <thead><tr>{heads.map((each) => <th key={each} scope="col">{t(each)}</th>)}</tr></thead>
        <tbody>
          {figures.map((each) => (
            <tr key={each.agent}>
              <td data-label={t("evals.agent")}><strong>{each.agent}</strong></td>
              <td data-label={t("evals.passed")}>{t("evals.of", { passed: each.passed, total: each.trials })} ({percent(each.trials ? each.passed / each.trials : null)})</td>
              <td data-label={t("evals.steps")}>{each.steps.toFixed(1)}</td>
              <td data-label={t("evals.calls")}>{each.calls.toFixed(1)}</td>
              <td data-label={t("spend.tokens")}>{number(each.tokens)}</td>
              <td data-label={t("spend.money")}>{money(each.cost)}</td>
              <td data-label={t("evals.median")}>{duration(each.median_seconds)}</td>
              <td data-label={t("evals.slowest")}>{duration(each.slowest_seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Grid({ report, trials, path, filtered }: { report: EvalReport; trials: EvalTrial[]; path: string; filtered: boolean }) {
  const values = route.value.query;
  const opened = { case: values.get("case"), agent: values.get("agent") };
  const agents = report.figures.map((each) => each.agent);
  const cases = new Map<string, Map<string, EvalTrial>>();
  for (const trial of trials) cases.set(trial.case, (cases.get(trial.case) ?? new Map<string, EvalTrial>()).set(trial.agent, trial));
  const detail = opened.case !== null && opened.agent !== null && <TrialView key={`${opened.agent}\n${opened.case}`} path={path} name={opened.case} agent={opened.agent} close={placeOf(null)} />;
  return (
    <>
      {detail && !cases.has(opened.case ?? "") && <section class="panel">{detail}</section>}
      {!trials.length && <Empty>{filtered ? t("evals.noneMatch") : t("evals.noTrials")}</Empty>}
      {trials.length > 0 && (
        <section class="panel trials">
          <table class="plain-table stacked">
            <caption class="offscreen">{t("evals.grid")}</caption>
            <thead><tr><th scope="col">{t("evals.case")}</th>{agents.map((each) => <th key={each} scope="col">{each}</th>)}</tr></thead>
            <tbody>
              {[...cases].map(([name, found]) => (
                <>
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    {agents.map((agent) => <Cell key={agent} agent={agent} trial={found.get(agent)} opened={name === opened.case && agent === opened.agent} />)}
                  </tr>
                  {detail && name === opened.case && <tr key={`${name}\nopen`}><td class="open-trial" colSpan={agents.length + 1}>{detail}</td></tr>}
                </>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

function Cell({ agent, trial, opened }: { agent: string; trial: EvalTrial | undefined; opened: boolean }) {
  if (!trial) return <td class="none"><span class="hint">–</span></td>;
  const title = t("evals.trial", { case: trial.case, agent });
  return (
    <td data-label={agent} data-opened={opened}>
      <a href={placeOf(opened ? null : trial)} aria-expanded={opened} title={title}><StateBadge state={outcomeOf(trial)} /><span class="offscreen">{title}</span></a>
      {trial.why && <p class="why">{trial.why}</p>}
    </td>
  );
}

function outcomeOf(trial: EvalTrial): (typeof OUTCOMES)[number] {
  const outcome = trial.passed ? "passed" : "failed";
  return trial.before === !trial.passed ? `newly_${outcome}` : outcome;
}

/** The same page with this trial open; null: with none. */
function placeOf(trial: EvalTrial | null): string {
  const { path, query: values } = route.value;
  return link(path, { outcome: values.get("outcome"), case: trial?.case, agent: trial?.agent });
}
