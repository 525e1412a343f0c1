// A call that ends elsewhere: for whom its token is, until when it waits, and its last sign of life.
import { useState } from "preact/hooks";
import { post, quoted } from "../../api/client";
import type { CallRecord } from "../../api/types";
import { t } from "../../i18n";
import { lastSign } from "../../model/call-facts";
import { duration, moment } from "../../model/format";
import { isTerminal } from "../../model/tables";
import { offers } from "../../session";
import { Action } from "../../ui/button";
import { notify } from "../../ui/toasts";
import { NOTHING, OutputField, valueOf } from "../../ui/output-field";
import { Ago, Countdown } from "../../ui/time";

export function ExternalView({ record }: { record: CallRecord }) {
  const external = record.external;
  if (!external) return null;
  const waits = record.waiting_for === "external" && !isTerminal(record.state);
  const sign = lastSign(record);
  const progress = record.progress;
  return (
    <section class={waits ? "panel attention" : "panel"} aria-label={t("external.title")}>
      <h2>{t("external.title")}</h2>
      <p>{waits ? t("external.waits") : external.reported_at !== null ? t("external.reported") : t("external.over")}</p>
      <dl class="facts">
        {external.for && <><dt>{t("external.for")}</dt><dd>{external.for}</dd></>}
        {external.since !== null && <><dt>{t("external.since")}</dt><dd>{moment(external.since)} (<Ago at={external.since} />)</dd></>}
        {waits && <><dt>{t("external.deadline")}</dt><dd>{external.deadline === null ? t("grants.noLimit") : <>{moment(external.deadline)}<Countdown until={external.deadline} /></>}</dd></>}
        {waits && <><dt>{t("external.sign")}</dt><dd>{sign === null ? t("external.none") : <><Ago at={sign} /> ({moment(sign)})</>}</dd></>}
        {waits && progress && <><dt>{t("run.progress")}</dt><dd><progress max={100} value={progress.percentage ?? 0} aria-label={t("run.progress")} /> {progress.status}</dd></>}
        {external.reported_at !== null && <><dt>{t("external.reportedAt")}</dt><dd>{moment(external.reported_at)}{external.since !== null && ` (${t("external.after", { time: duration(external.reported_at - external.since) })})`}</dd></>}
      </dl>
      {waits && offers("POST /external/{token}/complete") && <WithToken />}
    </section>
  );
}

/** No key may end such a call: only its token, which the server does not know. A person who has it can end the call here. */
function WithToken() {
  const [token, setToken] = useState("");
  const [output, setOutput] = useState(NOTHING);
  const [error, setError] = useState("");
  const [wrong, setWrong] = useState("");
  const complete = async () => {
    const written = valueOf(output);
    setWrong(written instanceof Error ? written.message : "");
    if (written instanceof Error) return;
    await post(`/external/${quoted(token.trim())}/complete`, { output: written });
    notify(t("external.completed"));
  };
  const fail = async () => {
    await post(`/external/${quoted(token.trim())}/fail`, { error: error.trim() });
    notify(t("external.failed"));
  };
  return (
    <details class="no-save">
      <summary>{t("external.byToken")}</summary>
      <div class="decide">
        <p class="hint">{t("external.tokenAbout")}</p>
        <div class="decide-actions"><label>{t("external.token")}<input type="password" value={token} autocomplete="off" spellcheck={false} placeholder="ckx_…" onInput={(event) => setToken(event.currentTarget.value)} /></label></div>
        <OutputField label={t("external.output")} value={output} wrong={wrong} onChange={setOutput} />
        <div class="decide-actions"><Action kind="main" icon="check" disabled={!token.trim()} onClick={complete}>{t("external.complete")}</Action></div>
        <div class="decide-actions">
          <label>{t("external.error")}<input type="text" value={error} maxLength={4000} onInput={(event) => setError(event.currentTarget.value)} /></label>
          <Action kind="danger" icon="close" disabled={!token.trim() || !error.trim()} onClick={fail}>{t("external.fail")}</Action>
        </div>
      </div>
    </details>
  );
}
