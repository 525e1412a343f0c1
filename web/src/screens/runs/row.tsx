// One row of the table of calls. Rows are drawn again only when their call has changed.
import { memo } from "../../ui/memo";
import type { CallSummary } from "../../api/types";
import { t } from "../../i18n";
import { duration, shortId } from "../../model/format";
import { isTerminal } from "../../model/tables";
import { go, runLink } from "../../router";
import { now } from "../../ui/clock";
import { StateBadge } from "../../ui/state";
import { Ago } from "../../ui/time";
import type { Column } from "./columns";

export const ROW_HEIGHT = 36;

interface Props {
  call: CallSummary;
  index: number;
  columns: readonly Column[];
  active: boolean;
  selected: boolean;
  onSelect: () => void;
}

const same = (a: Props, b: Props): boolean =>
  a.call === b.call && a.index === b.index && a.active === b.active && a.selected === b.selected && a.columns === b.columns;

export const CallRow = memo(function CallRow({ call, index, columns, active, selected, onSelect }: Props) {
  return (
    <div class="row" role="row" aria-rowindex={index + 2} data-active={active} aria-selected={selected} onClick={(event) => {
      if ((event.target as HTMLElement).closest("a, input, label")) return;
      go(runLink(call));
    }}>
      <span role="cell" class="cell check"><input type="checkbox" checked={selected} aria-label={t("runs.selectOne", { id: shortId(call.id) })} onChange={onSelect} /></span>
      {columns.map((column) => <span key={column} role="cell" class={`cell ${column}`}>{content(call, column)}</span>)}
    </div>
  );
}, same);

function content(call: CallSummary, column: Column) {
  switch (column) {
    case "state": return <StateBadge state={call.state} waiting={call.waiting_for} />;
    case "tool": return <a href={runLink(call)}>{call.tool}</a>;
    case "thread": return call.thread;
    case "id": return <span class="mono" title={call.id}>{shortId(call.id)}</span>;
    case "caller": return <span class="mono">{call.caller}</span>;
    case "created": return <Ago at={call.created_at} />;
    case "duration": return isTerminal(call.state) ? duration(call.duration) : <Running since={call.created_at} />;
    case "attempts": return call.attempts > 1 ? `×${call.attempts}` : "";
    case "summary": return summary(call);
  }
}

function Running({ since }: { since: number }) {
  return <>{duration(Math.max(0, Math.round(now.value - since)))}</>;
}

/** What is worth knowing at a glance: the error, what it waits for, or how far it is. */
function summary(call: CallSummary) {
  if (call.error) return <span class="bad"><code>{call.error.code}</code> {call.error.message}</span>;
  if (call.waiting_for === "approval") return `${call.approval && call.approval.approvers > 1 ? `${call.approval.approvals.length}/${call.approval.approvers} · ` : ""}${call.approval?.why ?? ""}`;
  if (call.approval?.responded && call.approval.purpose !== "input") return t("decision.badge");
  if (!isTerminal(call.state) && call.progress) {
    const { percentage, status } = call.progress;
    return <>{typeof percentage === "number" && <progress max={100} value={percentage} aria-label={t("run.progress")} />} {status}</>;
  }
  return call.cached ? t("run.cached") : "";
}
