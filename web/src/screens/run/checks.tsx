// The tries of the tool's own check, after an attempt whose outcome was not known.
import type { CallRecord } from "../../api/types";
import { t, word } from "../../i18n";
import { checksOf } from "../../model/call-facts";
import { clock, duration } from "../../model/format";
import { isTerminal } from "../../model/tables";

const TONES: { [outcome: string]: string } = { happened: "completed", did_not_happen: "retrying", unknown: "failed", failed: "failed" };

export function ChecksView({ record }: { record: CallRecord }) {
  const checks = checksOf(record.events);
  if (!checks.length) return null;
  const running = !isTerminal(record.state);
  return (
    <section class="panel" aria-label={t("checks.title")}>
      <h2>{t("checks.title")}</h2>
      <p class="hint">{t("checks.about")}</p>
      <table class="plain-table stacked">
        <thead><tr><th scope="col">{t("checks.try")}</th><th scope="col">{t("run.at")}</th><th scope="col">{t("column.duration")}</th><th scope="col">{t("checks.verdict")}</th><th scope="col">{t("inbox.reason")}</th></tr></thead>
        <tbody>
          {checks.map((check, index) => {
            const outcome = check.outcome || (running && index === checks.length - 1 ? "running" : "none");
            return (
              <tr key={`${check.attempt} ${check.number} ${check.at}`}>
                <td data-label={t("checks.try")}>{t("checks.number", { attempt: check.attempt, number: check.number })}</td>
                <td data-label={t("run.at")}>{clock(check.at)}</td>
                <td data-label={t("column.duration")}>{check.ended_at === null ? "–" : duration(check.ended_at - check.at)}</td>
                <td data-label={t("checks.verdict")}><span class="badge" data-state={TONES[outcome] ?? outcome}><span class="dot" />{word("checks", outcome)}</span></td>
                <td data-label={t("inbox.reason")} class={check.reason || check.delay !== null ? "" : "none"}>{check.reason}{check.delay !== null && <span class="hint"> {t("checks.again", { time: duration(check.delay) })}</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
