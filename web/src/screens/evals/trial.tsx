// One trial: the message, the tool calls with their results, the answer, and what the checks say.
import { json, query } from "../../api/client";
import type { EvalReport, EvalTrial, Json, RecordedCall } from "../../api/types";
import { t, word } from "../../i18n";
import { duration, money, number } from "../../model/format";
import { link } from "../../router";
import { Failure } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { JsonView } from "../../ui/json";
import { useLoaded } from "../../ui/loaded";
import { Markdown } from "../../ui/markdown";
import { StateBadge } from "../../ui/state";

export function TrialView({ path, name, agent, close }: { path: string; name: string; agent: string; close: string }) {
  const { value, error } = useLoaded(() => json<EvalReport>(`${path}${query({ case: name, agent, limit: 1 })}`), [path, name, agent]);
  const trial = value.value?.trials[0];
  return (
    <section aria-label={t("evals.trial", { case: name, agent })}>
      <header class="panel-head">
        <h2>{name} · {agent}</h2>
        {trial && <span class="hint">{t("threads.steps", { count: trial.steps })} · {t("threads.tokens", { count: number(trial.tokens) })} · {money(trial.cost)} · {duration(trial.seconds)}</span>}
        <a class="close" href={close} aria-label={t("close")}><Icon name="close" /></a>
      </header>
      <Failure text={error.value} />
      {value.value && !trial && <p class="hint">{t("evals.noTrials")}</p>}
      {trial && <Trial trial={trial} />}
    </section>
  );
}

function Trial({ trial }: { trial: EvalTrial }) {
  return (
    <div class="chat">
      {trial.thread && <p class="hint">{t("evals.madeOf")} <a href={link(["threads", trial.thread])}>{trial.thread}</a></p>}
      {trial.error && <p class="failure">{trial.error}</p>}
      <div class="message" data-role="user"><span class="offscreen">{word("role", "user")}:</span><p class="text">{trial.message}</p></div>
      {trial.calls.length > 0 && <ul class="bare steps" aria-label={t("evals.trajectory")}>{trial.calls.map((call, index) => <li key={index}><CallView call={call} /></li>)}</ul>}
      {(trial.text || trial.value !== null) && (
        <div class="message" data-role="assistant">
          <span class="offscreen">{word("role", "assistant")}:</span>
          {trial.value !== null ? <JsonView value={trial.value as Json} label={t("threads.value")} /> : <Markdown text={trial.text} />}
        </div>
      )}
      {trial.scores.length > 0 && <Scores trial={trial} />}
      {trial.expected !== null && <details open={!trial.passed}><summary>{t("evals.expected")}</summary><JsonView value={trial.expected as Json} label={t("evals.expected")} /></details>}
    </div>
  );
}

function CallView({ call }: { call: RecordedCall }) {
  const given = call.arguments ?? {};
  const short = typeof given === "string" ? given : JSON.stringify(given);
  return (
    <details class="step">
      <summary><StateBadge state={call.failed ? "failed" : "completed"} /> <strong>{call.tool}</strong> <span class="hint mono">{short.slice(0, 120)}</span></summary>
      <JsonView value={given as Json} label={t("run.arguments")} />
      {call.content && <JsonView value={call.content} label={t("run.result")} />}
    </details>
  );
}

function Scores({ trial }: { trial: EvalTrial }) {
  return (
    <table class="plain-table stacked scores">
      <thead><tr><th scope="col">{t("evals.check")}</th><th scope="col">{t("evals.verdict")}</th><th scope="col">{t("evals.score")}</th><th scope="col">{t("evals.why")}</th></tr></thead>
      <tbody>
        {trial.scores.map((score, index) => (
          <tr key={index}>
            <td data-label={t("evals.check")} class="mono">{score.check}</td>
            <td data-label={t("evals.verdict")}><StateBadge state={score.passed ? "passed" : "failed"} /></td>
            <td data-label={t("evals.score")}>{(score.value ?? 1).toFixed(2)}</td>
            <td data-label={t("evals.why")} class={score.why ? "" : "none"}>{score.why}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
