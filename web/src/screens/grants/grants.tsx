// Grants: approvals that also let later calls run. Listed, and revoked.
import { json, query, quoted } from "../../api/client";
import type { Grant, GrantList } from "../../api/types";
import { t, word } from "../../i18n";
import { moment, number } from "../../model/format";
import { GRANT_STATES } from "../../model/tables";
import { link, route } from "../../router";
import { may, offers } from "../../session";
import { Confirmed } from "../../ui/confirm";
import { Empty, Failure } from "../../ui/empty";
import { JsonView } from "../../ui/json";
import { useLoaded } from "../../ui/loaded";
import { Meter } from "../../ui/meter";
import { notify } from "../../ui/toasts";
import { StateBadge } from "../../ui/state";
import { Ago, Countdown } from "../../ui/time";
import { Choice } from "../choice";

/** "active" is the word for calls that have not ended. */
const inForce = (state: string): string => (state === "active" ? "in_force" : state);

export function GrantsScreen() {
  const values = route.value.query;
  const state = values.get("state") ?? "";
  const tool = values.get("tool") ?? "";
  const { value, error, reload } = useLoaded(() => json<GrantList>(`/grants${query({ state, tool })}`), [state, tool], 5_000);
  const grants = value.value?.items;
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("grants.title")}</h1>{grants && <span class="count">{grants.length}</span>}</div>
        <Choice name="state" label={t("column.state")} options={GRANT_STATES} any={t("runs.any")} shown={(each) => word("state", inForce(each))} />
      </header>
      <p class="hint spaced">{t("grants.about")}</p>
      <Failure text={error.value} />
      {grants && !grants.length && <Empty>{state || tool ? t("grants.noneMatch") : t("grants.none")}</Empty>}
      {grants?.map((grant) => <One key={grant.id} grant={grant} onChange={reload} />)}
    </>
  );
}

function One({ grant, onChange }: { grant: Grant; onChange: () => Promise<void> }) {
  const revoke = async () => {
    await json(`/grants/${quoted(grant.id)}`, { method: "DELETE" });
    notify(t("grants.revoked"));
    await onChange();
  };
  const active = grant.state === "active";
  return (
    <article class="panel" aria-label={grant.tool}>
      <header class="panel-head">
        <h2><a href={link(["runs"], { tool: grant.tool })}>{grant.tool}</a></h2>
        <StateBadge state={inForce(grant.state)} />
        <span class="hint">{t("grants.by", { name: grant.by || t("run.someone") })} · <Ago at={grant.given_at} /></span>
      </header>
      <dl class="facts">
        <dt>{t("grants.uses")}</dt>
        <dd>
          {grant.uses === null ? t("grants.usedOf", { used: number(grant.used), uses: "∞" }) : t("grants.usedOf", { used: number(grant.used), uses: number(grant.uses) })}
          {grant.last_used_at !== null && <span class="hint"> · {t("grants.lastUsed")} <Ago at={grant.last_used_at} /></span>}
          {grant.uses !== null && <Meter whole={grant.uses} parts={[{ value: grant.used, tone: active ? "running" : "quiet" }]} label={t("grants.usedOf", { used: number(grant.used), uses: number(grant.uses) })} />}
        </dd>
        <dt>{t("grants.until")}</dt>
        <dd>{grant.expires_at === null ? t("grants.noLimit") : <>{moment(grant.expires_at)}{active && <Countdown until={grant.expires_at} />}</>}</dd>
        <dt>{t("column.caller")}</dt>
        <dd class="mono">{grant.caller === "*" ? t("grants.everyCaller") : grant.caller || t("grants.program")}</dd>
        <dt>{t("column.thread")}</dt>
        <dd>{grant.thread === null ? t("grants.everyThread") : <a href={link(["runs"], { thread: grant.thread })}>{grant.thread}</a>}</dd>
        <dt>{t("grants.givenWith")}</dt>
        <dd class="mono">{may("read") ? <a href={link(["runs"], { text: grant.call })}>{grant.call}</a> : grant.call}</dd>
        {grant.reason && <><dt>{t("inbox.reason")}</dt><dd>{grant.reason}</dd></>}
        {grant.revoked_at !== null && <><dt>{t("state.revoked")}</dt><dd>{moment(grant.revoked_at)} · {grant.revoked_by || t("run.someone")}</dd></>}
      </dl>
      {grant.arguments === null ? <p class="hint">{t("grants.any")}</p> : <details><summary>{t("grants.schema")}</summary><JsonView value={grant.arguments} label={t("grants.schema")} /></details>}
      {active && may("approve") && offers("DELETE /grants/{id}") && (
        <div class="decide-actions"><Confirmed label={t("grants.revoke")} icon="close" question={t("grants.revokeQuestion", { tool: grant.tool })} onConfirm={revoke}><p>{t("grants.revokeAbout")}</p></Confirmed></div>
      )}
    </article>
  );
}
