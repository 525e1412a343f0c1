// The budgets in their current periods: what is spent, reserved and left of each limit. Those of which least is left come first.
import { useState } from "preact/hooks";
import type { BudgetStatus } from "../../api/types";
import { t } from "../../i18n";
import { money, moment, number } from "../../model/format";
import { Meter } from "../../ui/meter";

/** Budgets of each thread or caller may be many. */
const FIRST = 6;

/** The largest part of a limit that is spent or reserved. */
function usedShare(budget: BudgetStatus): number {
  const share = (limit: number | null, raised: number, left: number | null) => (limit === null ? 0 : limit + raised > 0 ? 1 - (left ?? 0) / (limit + raised) : 1);
  return Math.max(share(budget.limit_usd, budget.raised_usd, budget.left_usd), share(budget.limit_tokens, budget.raised_tokens, budget.left_tokens));
}

export function Budgets({ budgets }: { budgets: BudgetStatus[] }) {
  const [all, setAll] = useState(false);
  const sorted = budgets.toSorted((a, b) => usedShare(b) - usedShare(a));
  if (!budgets.length) return <p class="hint spaced">{t("spend.noBudgets")} <code>[[budgets]]</code></p>;
  return (
    <section aria-label={t("spend.budgets")}>
      <h2 class="group-title">{t("spend.budgets")} <span class="count">{budgets.length}</span></h2>
      <ul class="grid bare budgets">
        {sorted.slice(0, all ? undefined : FIRST).map((budget) => (
          <li key={`${budget.name} ${budget.scope} ${budget.period}`} class="card budget" data-status={budget.reached_at === null ? "ok" : "error"}>
            <span class="card-head"><strong>{budget.name}</strong><span class="badge" data-state={budget.on_reached === "stop" ? "failed" : "approval"}><span class="dot" />{t(`spend.${budget.on_reached}`)}</span></span>
            <span class="hint">{budget.scope} · {budget.period}</span>
            {budget.limit_usd !== null && (
              <Limit shown={money} limit={budget.limit_usd} raised={budget.raised_usd} spent={budget.spent_usd} reserved={budget.reserved_usd} left={budget.left_usd ?? 0} />
            )}
            {budget.limit_tokens !== null && (
              <Limit shown={(value) => t("spend.tokenCount", { count: number(value) })} limit={budget.limit_tokens} raised={budget.raised_tokens} spent={budget.spent_tokens} reserved={budget.reserved_tokens} left={budget.left_tokens ?? 0} />
            )}
            {budget.reached_at !== null && <span class="reason">{t("spend.reached", { time: moment(budget.reached_at) })}</span>}
          </li>
        ))}
      </ul>
      {!all && budgets.length > FIRST && <p class="spaced"><button type="button" class="plain" onClick={() => setAll(true)}>{t("spend.allBudgets", { count: budgets.length })}</button></p>}
    </section>
  );
}

interface LimitProps {
  shown: (value: number) => string;
  limit: number;
  raised: number;
  spent: number;
  reserved: number;
  left: number;
}

function Limit({ shown, limit, raised, spent, reserved, left }: LimitProps) {
  const whole = limit + raised;
  const tight = left <= whole * 0.1;
  const text = t("spend.spentOf", { spent: shown(spent), limit: shown(whole) });
  return (
    <span class="limit">
      <Meter whole={whole} parts={[{ value: spent, tone: left <= 0 ? "failed" : tight ? "retrying" : "ok" }, { value: reserved, tone: "quiet" }]} label={`${text}, ${t("spend.left", { left: shown(Math.max(0, left)) })}`} />
      <span>{text}{reserved > 0 && <> · {t("spend.reserved", { money: shown(reserved) })}</>}{raised > 0 && <> · {t("spend.raised", { money: shown(raised) })}</>}</span>
      <strong>{t("spend.left", { left: shown(Math.max(0, left)) })}</strong>
    </span>
  );
}
