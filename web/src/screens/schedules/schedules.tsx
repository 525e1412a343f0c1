// Schedules: when each fires next, what became of its last times; pause, resume and remove.
import { useState } from "preact/hooks";
import { json, post, query, quoted } from "../../api/client";
import type { Firing, Schedule, ScheduleList, Times } from "../../api/types";
import { t } from "../../i18n";
import { duration, moment, number } from "../../model/format";
import { link, runLink } from "../../router";
import { may, offers } from "../../session";
import { Action } from "../../ui/button";
import { now } from "../../ui/clock";
import { Confirmed } from "../../ui/confirm";
import { Empty, Failure } from "../../ui/empty";
import { JsonView } from "../../ui/json";
import { useLoaded } from "../../ui/loaded";
import { notify } from "../../ui/toasts";
import { StateBadge } from "../../ui/state";
import { Ago } from "../../ui/time";

/** Seconds after which a time that was not decided counts as late: every process looks each five seconds. */
const LATE = 30;

export function SchedulesScreen() {
  const { value, error, reload } = useLoaded(() => json<ScheduleList>("/schedules"), [], 5_000);
  const schedules = value.value?.items;
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("schedules.title")}</h1>{schedules && <span class="count">{schedules.length}</span>}</div>
      </header>
      <Failure text={error.value} />
      {schedules && !schedules.length && <Empty>{t("schedules.none")} <code>clicket schedules add</code></Empty>}
      {schedules?.map((schedule) => <One key={`${schedule.caller} ${schedule.name}`} schedule={schedule} onChange={reload} />)}
    </>
  );
}

function One({ schedule, onChange }: { schedule: Schedule; onChange: () => Promise<void> }) {
  const place = `/schedules/${quoted(schedule.name)}`;
  const whose = query({ caller: schedule.caller });
  const act = async (verb: "pause" | "resume") => {
    await post(`${place}/${verb}${whose}`);
    notify(t(verb === "pause" ? "schedules.pausedNow" : "schedules.resumedNow", { name: schedule.name }));
    await onChange();
  };
  const remove = async () => {
    await json(`${place}${whose}`, { method: "DELETE" });
    notify(t("schedules.removed", { name: schedule.name }));
    await onChange();
  };
  const last = schedule.log.at(-1);
  const late = schedule.next_at !== null && now.value - schedule.next_at > LATE;
  return (
    <article class="panel" aria-label={schedule.name}>
      <header class="panel-head">
        <h2>{schedule.name}</h2>
        <StateBadge state={schedule.paused ? "paused" : late ? "late" : "in_force"} />
        <span class="hint">{schedule.caller && <span class="mono">{schedule.caller}</span>}</span>
      </header>
      <dl class="facts">
        <dt>{t("column.tool")}</dt><dd><a href={link(["tools", schedule.tool])}>{schedule.tool}</a> · <a href={link(["runs"], { thread: schedule.thread, tool: schedule.tool })}>{schedule.thread}</a></dd>
        <dt>{t("schedules.cron")}</dt><dd><code>{schedule.cron}</code> {schedule.timezone}{schedule.jitter > 0 && <span class="hint"> {t("schedules.jitter", { time: duration(schedule.jitter) })}</span>}</dd>
        <dt>{t("schedules.next")}</dt>
        <dd>{schedule.next_at === null ? t("state.paused") : <>{moment(schedule.next_at)} (<Ago at={schedule.next_at} />)</>}{late && <span class="bad"> {t("schedules.late")}</span>}</dd>
        <dt>{t("schedules.last")}</dt><dd>{last ? <Fired firing={last} schedule={schedule} /> : t("schedules.never")}</dd>
        <dt>{t("schedules.counts")}</dt><dd>{t("schedules.figures", { fired: number(schedule.fired), skipped: number(schedule.skipped), missed: number(schedule.missed) })}</dd>
        <dt>{t("schedules.rules")}</dt><dd>{t("schedules.overlap")} <code>{schedule.overlap}</code>, {t("schedules.catchUp")} <code>{schedule.catch_up}</code>{schedule.waiting.length > 0 && <> · {t("schedules.waiting", { count: schedule.waiting.length })}</>}</dd>
      </dl>
      <More schedule={schedule} />
      {may("call") && (
        <div class="decide-actions">
          {schedule.paused
            ? offers("POST /schedules/{name}/resume") && <Action kind="main" icon="send" onClick={() => act("resume")}>{t("schedules.resume")}</Action>
            : offers("POST /schedules/{name}/pause") && <Action icon="stop" onClick={() => act("pause")}>{t("schedules.pause")}</Action>}
          {offers("DELETE /schedules/{name}") && (
            <Confirmed label={t("schedules.remove")} icon="close" question={t("schedules.removeQuestion", { name: schedule.name })} onConfirm={remove}><p>{t("schedules.removeAbout")}</p></Confirmed>
          )}
        </div>
      )}
    </article>
  );
}

function Fired({ firing, schedule }: { firing: Firing; schedule: Schedule }) {
  return (
    <>
      <StateBadge state={firing.outcome} /> {moment(firing.due)}{firing.until ? ` – ${moment(firing.until)}` : ""}
      {firing.call && <> · <a class="mono" href={runLink({ id: firing.call, thread: schedule.thread, caller: schedule.caller })}>{t("schedules.call")}</a></>}
      {(firing.count ?? 1) !== 1 && <span class="hint"> ×{firing.count || "∞"}</span>}
      {(firing.late ?? 0) >= 1 && <span class="hint"> {t("schedules.lateBy", { time: duration(firing.late) })}</span>}
      {firing.reason && <span class="hint"> {firing.reason}</span>}
    </>
  );
}

function More({ schedule }: { schedule: Schedule }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t("schedules.more")}</summary>
      {open && <div class="more">
        <h3>{t("schedules.nextTimes")}</h3>
        <NextTimes schedule={schedule} />
        {schedule.log.length > 0 && (
          <>
            <h3>{t("schedules.log")}</h3>
            <ul class="bare">{schedule.log.toReversed().map((firing) => <li key={`${firing.due} ${firing.outcome} ${firing.at}`}><Fired firing={firing} schedule={schedule} /></li>)}</ul>
          </>
        )}
        <h3>{t("run.arguments")}</h3>
        <JsonView value={schedule.arguments} label={t("run.arguments")} />
      </div>}
    </details>
  );
}

function NextTimes({ schedule }: { schedule: Schedule }) {
  const { value, error } = useLoaded(() => json<Times>(`/schedules/${quoted(schedule.name)}/next${query({ caller: schedule.caller, count: 5 })}`), [schedule.name, schedule.caller, schedule.next_at]);
  return <><Failure text={error.value} /><ol class="times">{value.value?.times.map((at) => <li key={at}>{moment(at)} <span class="hint"><Ago at={at} /></span></li>)}</ol></>;
}
