// Settles an unknown outcome: did it happen, with what result, or should it run again.
import { useState } from "preact/hooks";
import { post, query, quoted } from "../../api/client";
import type { CallRecord, CallSummary, Json, JsonObject } from "../../api/types";
import { t } from "../../i18n";
import { refreshInbox } from "../../model/inbox";
import { link } from "../../router";
import { may, offers } from "../../session";
import { Action } from "../../ui/button";
import { JsonView } from "../../ui/json";
import { notify } from "../../ui/toasts";
import { Ago } from "../../ui/time";

export const maySettle = (): boolean => offers("POST /calls/{id}/resolve") && may("approve");

export function Settle({ call }: { call: Pick<CallSummary, "id" | "thread" | "caller"> }) {
  const [happened, setHappened] = useState<boolean | null>(null);
  const [output, setOutput] = useState("");
  const [rerun, setRerun] = useState(false);
  const [note, setNote] = useState("");
  const [wrong, setWrong] = useState("");
  const settle = async () => {
    const body: JsonObject = { happened, note };
    setWrong("");
    if (happened && output.trim()) {
      try {
        body["output"] = JSON.parse(output) as Json;
      } catch (error) {
        setWrong(String(error));
        return;
      }
    }
    if (happened === false && rerun) body["rerun"] = true;
    try {
      await post(`/calls/${quoted(call.id)}/resolve${query({ thread: call.thread, caller: call.caller })}`, body);
      notify(t("inbox.settled"));
    } finally {
      await refreshInbox();
    }
  };
  const choice = (value: boolean, text: string) => (
    <label class="check"><input type="radio" name={`settle ${call.caller} ${call.thread} ${call.id}`} checked={happened === value} onChange={() => setHappened(value)} /> {text}</label>
  );
  return (
    <div class="decide settle">
      <fieldset class="choices"><legend>{t("inbox.question")}</legend>{choice(true, t("inbox.happened"))}{choice(false, t("inbox.didNotHappen"))}</fieldset>
      {happened === true && (
        <div class={wrong ? "field wrong" : "field"}>
          <label>{t("inbox.output")}<textarea class="mono" rows={2} value={output} onInput={(event) => setOutput(event.currentTarget.value)} /></label>
          {wrong && <small role="alert">{wrong}</small>}
        </div>
      )}
      {happened === false && may("call") && (
        <label class="check"><input type="checkbox" checked={rerun} onChange={(event) => setRerun(event.currentTarget.checked)} /> {t("inbox.rerun")}</label>
      )}
      <div class="decide-actions">
        <label>{t("inbox.note")}<input type="text" value={note} maxLength={2000} onInput={(event) => setNote(event.currentTarget.value)} /></label>
        <Action kind="main" icon="check" disabled={happened === null} onClick={settle}>{t("inbox.settle")}</Action>
      </div>
    </div>
  );
}

/** How a person settled the outcome. */
export function Settled({ record }: { record: CallRecord }) {
  const found = record.resolution;
  if (!found) return null;
  return (
    <section class="panel" aria-label={t("run.resolution")}>
      <h2>{t("run.resolution")}</h2>
      <p><strong>{found.happened ? t("inbox.happened") : t("inbox.didNotHappen")}</strong> · {t("run.settledBy", { name: found.by || "?" })} · <Ago at={found.at} /></p>
      {found.note && <p>{found.note}</p>}
      {found.output !== null && <JsonView value={found.output} label={t("run.resolution")} />}
      {found.rerun_as && <p>{t("run.rerunAs")} <a class="mono" href={link(["runs", found.rerun_as], { thread: record.thread, caller: record.caller })}>{found.rerun_as}</a></p>}
    </section>
  );
}
