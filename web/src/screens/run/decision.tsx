// What people decided about the call: who approved, who answered in the tool's place, and the grant that came with it.
import type { CallRecord } from "../../api/types";
import { t } from "../../i18n";
import { link } from "../../router";
import { Ago } from "../../ui/time";
import { Approvers } from "../inbox/approvers";

export function DecisionView({ record }: { record: CallRecord }) {
  const approval = record.approval;
  if (!approval || (approval.approved === null && !approval.approvals.length)) return null;
  if (record.waiting_for === "approval") return null; // the question itself is shown
  // The caller may send metadata of this name, so it counts only for a call that was answered.
  const answered = approval.responded && approval.purpose !== "input" ? String(record.metadata["answered_by"] ?? approval.by) : approval.by;
  const input = approval.purpose === "input"; // the tool asked, and went on
  const verdict = input && !approval.approved ? t("decision.declined", { name: approval.by || t("run.someone") }) : approval.responded || input ? t("decision.answered", { name: answered || t("run.someone") }) : approval.approved ? t("decision.approved", { name: approval.by || t("run.someone") }) : t("decision.denied", { name: approval.by || t("run.someone") });
  return (
    <section class="panel" aria-label={t("decision.title")}>
      <h2>{t("decision.title")}</h2>
      <p><strong>{verdict}</strong>{approval.at !== null && <> · <Ago at={approval.at} /></>}{approval.edited && <> · {t("decision.edited")}</>}</p>
      {approval.responded && !input && <p class="hint">{t("decision.notRun")}</p>}
      {approval.reason && <p><bdi>{approval.reason}</bdi></p>}
      {approval.approvers > 1 && <Approvers approval={approval} />}
      {approval.grant && <p class="hint">{t("decision.grant")} <a class="mono" href={link(["grants"], { tool: record.tool })}>{approval.grant}</a></p>}
    </section>
  );
}
