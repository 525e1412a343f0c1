// "Action required": what waits for a person, live.
import { json, query, quoted } from "../../api/client";
import type { CallRecord, CallSummary } from "../../api/types";
import { t } from "../../i18n";
import { approvals, inboxError, unknownOutcomes } from "../../model/inbox";
import { keyOf } from "../../model/fold";
import { runLink } from "../../router";
import { Empty, Failure } from "../../ui/empty";
import { JsonView } from "../../ui/json";
import { useLoaded } from "../../ui/loaded";
import { StateBadge } from "../../ui/state";
import { Ago } from "../../ui/time";
import { Decide } from "./decide";
import { maySettle, Settle } from "./settle";

export function InboxScreen() {
  const waiting = approvals.value;
  const unknown = unknownOutcomes.value;
  return (
    <>
      <header class="page-head"><div class="title"><h1>{t("inbox.title")}</h1></div></header>
      <Failure text={inboxError.value} />
      {!waiting.length && !unknown.length && <Empty>{t("inbox.empty")}</Empty>}
      {waiting.length > 0 && (
        <section aria-label={t("inbox.approvals")}>
          <h2 class="group-title">{t("inbox.approvals")} <span class="count">{waiting.length}</span></h2>
          {waiting.map((call) => (
            <article key={keyOf(call)} class="panel attention">
              <CardHead call={call} />
              <Decide call={call} />
            </article>
          ))}
        </section>
      )}
      {unknown.length > 0 && (
        <section aria-label={t("inbox.unknown")}>
          <h2 class="group-title">{t("inbox.unknown")} <span class="count">{unknown.length}</span></h2>
          <p class="hint">{t("inbox.unknownAbout")}</p>
          {unknown.map((call) => <Unknown key={keyOf(call)} call={call} />)}
        </section>
      )}
    </>
  );
}

function CardHead({ call }: { call: CallSummary }) {
  return (
    <header class="panel-head">
      <h3><a href={runLink(call)}>{call.tool}</a></h3>
      <StateBadge state={call.state} waiting={call.waiting_for} />
      <span class="hint">{call.thread} · <Ago at={call.created_at} /></span>
    </header>
  );
}

function Unknown({ call }: { call: CallSummary }) {
  const place = query({ thread: call.thread, caller: call.caller });
  const { value } = useLoaded(() => json<CallRecord>(`/calls/${quoted(call.id)}${place}`), [keyOf(call)]);
  const record = value.value;
  return (
    <article class="panel">
      <CardHead call={call} />
      <p>{call.error?.message}</p>
      <dl class="facts">
        <dt>{t("run.key")}</dt><dd class="mono">{record?.idempotency_key ?? "…"}</dd>
        <dt>{t("column.attempts")}</dt><dd>{call.attempts}</dd>
        {record?.attempts.at(-1)?.worker && <><dt>{t("run.worker")}</dt><dd class="mono">{record.attempts.at(-1)?.worker}</dd></>}
      </dl>
      {record && <details><summary>{t("run.arguments")}</summary><JsonView value={record.arguments} label={t("run.arguments")} /></details>}
      {maySettle() && <Settle call={call} />}
    </article>
  );
}
