// Who made the call, where it ran, and what it belongs to.
import type { CallRecord } from "../../api/types";
import { t } from "../../i18n";
import { costOf } from "../../model/call-facts";
import { duration, money, moment, number } from "../../model/format";
import { childrenOf, parentOf } from "../../model/family";
import { link, runLink } from "../../router";
import { now } from "../../ui/clock";
import { copy } from "../../ui/toasts";
import { Icon } from "../../ui/icon";
import { isTerminal } from "../../model/tables";
import { Ago } from "../../ui/time";

export function Facts({ record }: { record: CallRecord }) {
  const attempt = record.attempts.at(-1);
  const parent = parentOf(record);
  const children = childrenOf(record);
  const again = record.metadata["again_of"];
  const cost = costOf(record);
  const time = record.duration ?? (isTerminal(record.state) ? null : now.value - record.created_at);
  return (
    <section class="panel">
      <h2>{t("run.facts")}</h2>
      <dl class="facts">
        <dt>{t("column.id")}</dt>
        <dd class="mono">{record.id} <button class="plain square no-save" aria-label={t("run.copyId")} onClick={() => copy(record.id)}><Icon name="copy" /></button></dd>
        <dt>{t("column.thread")}</dt>
        <dd><a href={link(["runs"], { thread: record.thread })}>{record.thread}</a></dd>
        {record.caller && <><dt>{t("column.caller")}</dt><dd class="mono">{record.caller}</dd></>}
        <dt>{t("column.created")}</dt>
        <dd>{moment(record.created_at)} (<Ago at={record.created_at} />)</dd>
        {record.not_before !== null && <><dt>{t("run.notBefore")}</dt><dd>{moment(record.not_before)} (<Ago at={record.not_before} />)</dd></>}
        <dt>{t("column.duration")}</dt>
        <dd>{duration(time)}</dd>
        <dt>{t("column.attempts")}</dt>
        <dd>{record.attempts.length}</dd>
        {attempt?.worker && <><dt>{t("run.worker")}</dt><dd class="mono">{attempt.worker}{attempt.host ? ` @ ${attempt.host}` : ""}</dd></>}
        {record.progress && !isTerminal(record.state) && (
          <><dt>{t("run.progress")}</dt><dd><progress max={100} value={record.progress.percentage ?? 0} aria-label={t("run.progress")} /> {record.progress.status}</dd></>
        )}
        {cost && <><dt>{t("run.cost")}</dt><dd>{[cost.usd > 0 && money(cost.usd), (cost.tokens > 0 || cost.usd === 0) && t("spend.tokenCount", { count: number(cost.tokens) })].filter(Boolean).join(" · ")}</dd></>}
        {record.priority !== 0 && <><dt>{t("run.priority")}</dt><dd>{record.priority}</dd></>}
        <dt>{t("run.key")}</dt>
        <dd class="mono">{record.idempotency_key}</dd>
        {parent && <><dt>{t("run.parent")}</dt><dd><a href={runLink(parent)}>{parent.label}</a></dd></>}
        {typeof again === "string" && <><dt>{t("run.againOf")}</dt><dd><a class="mono" href={link(["runs", again], { thread: record.thread, caller: record.caller })}>{again}</a></dd></>}
        {children.length > 0 && (
          <><dt>{t("run.children")}</dt><dd><ul class="bare">{children.map((child) => <li key={child.id}><a href={runLink(child)}>{child.label}</a></li>)}</ul></dd></>
        )}
        {Object.entries(record.metadata).filter(([name]) => name !== "again_of").map(([name, value]) => (
          <><dt class="mono">{name}</dt><dd class="mono">{typeof value === "string" ? value : JSON.stringify(value)}</dd></>
        ))}
      </dl>
    </section>
  );
}
