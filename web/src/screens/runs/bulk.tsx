// Actions on all chosen calls: by their ids, or by the filter itself, so that calls that are not loaded are included.
import { post } from "../../api/client";
import type { BulkResult, CallSummary } from "../../api/types";
import { t } from "../../i18n";
import type { Filter } from "../../model/call-list";
import { number } from "../../model/format";
import { isTerminal } from "../../model/tables";
import { may } from "../../session";
import { Action } from "../../ui/button";
import { notify } from "../../ui/toasts";

interface Props {
  selected: readonly CallSummary[];
  everything: boolean;
  total: number;
  more: boolean;
  filter: Filter;
  onAll: () => void;
  onClear: () => void;
}

type Verb = "cancel" | "again" | "approve" | "deny";

const BATCH = 1000;

export function BulkBar({ selected, everything, total, more, filter, onAll, onClear }: Props) {
  if (!selected.length) return null;
  const running = selected.filter((call) => !isTerminal(call.state));
  const ended = selected.filter((call) => isTerminal(call.state));
  const waiting = selected.filter((call) => call.waiting_for === "approval" && call.approval?.purpose !== "input"); // a tool's question is answered one by one
  // A filter that is empty would mean every call of the store: then only those that are loaded.
  const byFilter = everything && Object.keys(filter).length > 0;
  const act = async (verb: Verb, calls: readonly CallSummary[]) => {
    const failures = byFilter ? await bulkByFilter(verb, filter) : await bulkByIds(verb, calls);
    if (failures.length) notify(t("runs.bulkFailed", { count: failures.length, first: failures[0] ?? "" }), "bad");
    else notify(t("runs.bulkDone", { count: number(calls.length) }));
    onClear();
  };
  return (
    <div class="bulk" role="toolbar" aria-label={t("runs.bulk")}>
      <strong>{t("runs.chosen", { count: number(selected.length) + (byFilter && more ? "+" : "") })}</strong>
      {!everything && total > selected.length && <button class="plain" onClick={onAll}>{t("runs.chooseAll")}</button>}
      {may("call") && (running.length > 0 || byFilter) && <Action icon="stop" kind="danger" onClick={() => act("cancel", running)}>{t("run.cancel")}</Action>}
      {may("call") && (ended.length > 0 || byFilter) && <Action icon="again" onClick={() => act("again", ended)}>{t("run.again")}</Action>}
      {may("approve") && waiting.length > 0 && <Action icon="check" onClick={() => act("approve", waiting)}>{t("inbox.approve")}</Action>}
      {may("approve") && waiting.length > 0 && <Action icon="close" onClick={() => act("deny", waiting)}>{t("inbox.deny")}</Action>}
      <button class="plain" onClick={onClear}>{t("runs.clearChoice")}</button>
    </div>
  );
}

/** All calls that the filter finds, batch by batch. */
async function bulkByFilter(verb: Verb, filter: Filter): Promise<string[]> {
  const { metadata, text, ...same } = filter;
  const [name, value] = (metadata ?? "").split("=", 2);
  const body = { ...same, ...(text ? { id_contains: text } : {}), ...(name && value !== undefined ? { metadata: { [name]: value } } : {}) };
  const failures: string[] = [];
  let cursor: string | null = null;
  do {
    const answer: BulkResult = await post<BulkResult>("/bulk", { action: verb, filter: body, ...(cursor ? { cursor } : {}) });
    failures.push(...answer.failures.map(described));
    cursor = answer.cursor;
  } while (cursor);
  return failures;
}

async function bulkByIds(verb: Verb, calls: readonly CallSummary[]): Promise<string[]> {
  const failures: string[] = [];
  for (let at = 0; at < calls.length; at += BATCH) {
    const ids = calls.slice(at, at + BATCH).map(({ id, thread, caller }) => ({ id, thread, caller }));
    failures.push(...(await post<BulkResult>("/bulk", { action: verb, ids })).failures.map(described));
  }
  return failures;
}

const described = (failure: { id: string; message: string }): string => `${failure.id}: ${failure.message}`;
