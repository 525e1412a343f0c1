// Who has approved, and how many people are missing.
import type { Approval } from "../../api/types";
import { t } from "../../i18n";
import { Ago } from "../../ui/time";

export function Approvers({ approval }: { approval: Approval }) {
  const missing = Math.max(0, approval.approvers - approval.approvals.length);
  return (
    <div class="approvers">
      <p><strong>{t("inbox.approvers", { have: approval.approvals.length, need: approval.approvers })}</strong> {missing > 0 && approval.approved === null && <span class="hint">{t("inbox.missing", { count: missing })}</span>}</p>
      <ul class="bare">
        {approval.approvals.map((each) => (
          <li key={`${each.by} ${each.at}`}><span class="badge" data-state="completed"><span class="dot" />{t("outcome.approved")}</span> <bdi>{each.by || "?"}</bdi> · <Ago at={each.at} />{each.reason && <span class="hint"> <bdi>{each.reason}</bdi></span>}</li>
        ))}
      </ul>
    </div>
  );
}
