// Notices to webhook endpoints: what was sent, what waits, what was given up, and why. For administrators.
import { useEffect, useState } from "preact/hooks";
import { json, post, query, quoted } from "../../api/client";
import type { Notice, NoticePage } from "../../api/types";
import { t, word } from "../../i18n";
import { duration, moment } from "../../model/format";
import { NOTICE_STATES, NOTICE_TYPES } from "../../model/tables";
import { link, route, runLink } from "../../router";
import { may, offers } from "../../session";
import { Action } from "../../ui/button";
import { Empty, Failure } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { JsonView } from "../../ui/json";
import { useLoaded } from "../../ui/loaded";
import { notify } from "../../ui/toasts";
import { StateBadge } from "../../ui/state";
import { Ago } from "../../ui/time";
import { Choice } from "../choice";

const LIMIT = 100;

export function NoticesScreen() {
  const { path, query: values } = route.value;
  const state = values.get("state") ?? "";
  const type = values.get("type") ?? "";
  const chosen = path[1];
  const filter = { state, type };
  const { value, error, reload } = useLoaded(() => json<NoticePage>(`/notices${query({ ...filter, limit: LIMIT })}`), [state, type], 5_000);
  const [older, setOlder] = useState<NoticePage | null>(null);
  useEffect(() => setOlder(null), [state, type]);
  const first = value.value;
  const cursor = older ? older.cursor : (first?.cursor ?? null);
  // The first page is loaded again and again, so a notice may have moved to the next.
  const known = new Set(first?.items.map((each) => each.id));
  const items = first ? [...first.items, ...(older?.items ?? []).filter((each) => !known.has(each.id))] : [];
  const more = async () => {
    const next = await json<NoticePage>(`/notices${query({ ...filter, limit: LIMIT, cursor })}`);
    setOlder({ items: [...(older?.items ?? []), ...next.items], cursor: next.cursor });
  };
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("notices.title")}</h1>{first && <span class="count">{items.length}{cursor ? "+" : ""}</span>}</div>
        <Choice name="state" label={t("column.state")} options={NOTICE_STATES} any={t("runs.any")} shown={(each) => word("state", each)} />
        <Choice name="type" label={t("notices.type")} options={NOTICE_TYPES} any={t("runs.any")} />
      </header>
      <Failure text={error.value} />
      {chosen !== undefined && <One key={chosen} id={chosen} onChange={reload} />}
      {first && !items.length && <Empty>{state || type ? t("notices.noneMatch") : t("notices.none")}</Empty>}
      {items.length > 0 && (
        <section class="panel">
          <table class="plain-table stacked">
            <thead><tr>{(["notices.type", "column.state", "notices.endpoint", "column.created", "column.attempts", "notices.lastError"] as const).map((name) => <th key={name} scope="col">{t(name)}</th>)}<th scope="col"><span class="offscreen">{t("notices.replay")}</span></th></tr></thead>
            <tbody>{items.map((notice) => <Row key={notice.id} notice={notice} chosen={notice.id === chosen} onChange={reload} />)}</tbody>
          </table>
          {cursor && <Action kind="plain" onClick={more}>{t("notices.more")}</Action>}
        </section>
      )}
    </>
  );
}

function Row({ notice, chosen, onChange }: { notice: Notice; chosen: boolean; onChange: () => Promise<void> }) {
  const { query: values } = route.value;
  const problem = notice.attempts.at(-1)?.problem;
  const next = notice.state === "pending" ? notice.next_at : null;
  return (
    <tr aria-current={chosen ? "true" : undefined}>
      <td data-label={t("notices.type")}><a class="mono" href={link(["notices", notice.id], { state: values.get("state"), type: values.get("type") })}>{notice.type}</a></td>
      <td data-label={t("column.state")}><StateBadge state={notice.state} /></td>
      <td data-label={t("notices.endpoint")}>{notice.endpoint}</td>
      <td data-label={t("column.created")}><Ago at={notice.created_at} /></td>
      <td data-label={t("column.attempts")}>{notice.tries}{notice.replays > 0 && <span class="hint"> {t("notices.replays", { count: notice.replays })}</span>}</td>
      <td data-label={t("notices.lastError")} class={problem || next !== null ? "" : "none"}>{problem && <span class="bad">{problem}</span>}{next !== null && <span class="hint"> {t("notices.next")} <Ago at={next} /></span>}</td>
      <td><Replay notice={notice} onChange={onChange} /></td>
    </tr>
  );
}

function Replay({ notice, onChange }: { notice: Notice; onChange: () => Promise<void> }) {
  if (notice.state === "pending" || !may("admin") || !offers("POST /notices/{id}/replay")) return null;
  const replay = async () => {
    await post(`/notices/${quoted(notice.id)}/replay`);
    notify(t("notices.replayed"));
    await onChange();
  };
  return <Action icon="again" onClick={replay}>{t("notices.replay")}</Action>;
}

function One({ id, onChange }: { id: string; onChange: () => Promise<void> }) {
  const { value, error, reload } = useLoaded(() => json<Notice>(`/notices/${quoted(id)}`), [id], 5_000);
  const notice = value.value;
  const { query: values } = route.value;
  const { call } = (notice?.payload?.["data"] ?? {}) as { call?: { id: string; thread: string; caller: string } };
  return (
    <section class="panel" aria-label={t("notices.one")}>
      <header class="panel-head">
        <h2 class="mono">{notice?.type ?? id}</h2>
        {notice && <StateBadge state={notice.state} />}
        {notice && <Replay notice={notice} onChange={async () => { await Promise.all([reload(), onChange()]); }} />}
        <a class="close" href={link(["notices"], { state: values.get("state"), type: values.get("type") })} aria-label={t("close")}><Icon name="close" /></a>
      </header>
      <Failure text={error.value} />
      {notice && (
        <>
          <dl class="facts">
            <dt>webhook-id</dt><dd class="mono">{notice.id}</dd>
            <dt>{t("notices.endpoint")}</dt><dd>{notice.endpoint}</dd>
            <dt>{t("column.created")}</dt><dd>{moment(notice.created_at)}</dd>
            {notice.ended_at !== null && <><dt>{t("notices.ended")}</dt><dd>{moment(notice.ended_at)}</dd></>}
            {notice.next_at !== null && notice.state === "pending" && <><dt>{t("notices.next")}</dt><dd>{moment(notice.next_at)} (<Ago at={notice.next_at} />)</dd></>}
            {call && <><dt>{t("tools.made")}</dt><dd><a class="mono" href={runLink(call)}>{call.id}</a></dd></>}
          </dl>
          {notice.attempts.length > 0 && (
            <>
              <h3>{t("column.attempts")}</h3>
              <table class="plain-table stacked">
                <thead><tr><th scope="col">{t("run.at")}</th><th scope="col">{t("column.duration")}</th><th scope="col">HTTP</th><th scope="col">{t("run.error")}</th></tr></thead>
                <tbody>{notice.attempts.map((each) => <tr key={each.at}><td data-label={t("run.at")}>{moment(each.at)}</td><td data-label={t("column.duration")}>{duration(each.seconds)}</td><td data-label="HTTP">{each.status ?? "–"}</td><td data-label={t("run.error")}>{each.problem ? <span class="bad">{each.problem}</span> : t("outcome.ok")}</td></tr>)}</tbody>
              </table>
            </>
          )}
          {notice.payload && <details><summary>{t("notices.payload")}</summary><JsonView value={notice.payload} label={t("notices.payload")} /></details>}
        </>
      )}
    </section>
  );
}
