// A question that a tool asks in the middle of its call: its message, its form, and an answer or a refusal. The tool goes on with either.
import { useEffect, useState } from "preact/hooks";
import { json, post, Problem, query, quoted } from "../../api/client";
import type { Approval, CallRecord, CallSummary, Complaint, InputQuestion, Json, JsonObject } from "../../api/types";
import { t } from "../../i18n";
import type { JsonSchema } from "../../model/json-schema";
import { refreshInbox } from "../../model/inbox";
import { may } from "../../session";
import { Action } from "../../ui/button";
import { JsonView } from "../../ui/json";
import { notify } from "../../ui/toasts";
import { SchemaForm } from "../../ui/schema-form";
import { Countdown } from "../../ui/time";

export function AnswerQuestion({ call, approval }: { call: Pick<CallSummary, "id" | "thread" | "caller">; approval: Approval }) {
  const [loaded, setLoaded] = useState("");
  const [value, setValue] = useState<JsonObject>({});
  const [errors, setErrors] = useState<Complaint[]>([]);
  const [reason, setReason] = useState("");
  const place = query({ thread: call.thread, caller: call.caller });
  // The question that is shown, which an answer names. Events do not have its hash.
  const asked = approval.hash || loaded;
  useEffect(() => {
    if (!approval.hash) json<CallRecord>(`/calls/${quoted(call.id)}${place}`).then((record) => setLoaded(record.approval?.hash ?? ""), () => undefined);
  }, [approval.hash]);
  const question: InputQuestion = approval.question ?? { key: "", source: "", message: approval.why };
  const schema = (question.schema ?? null) as JsonSchema | null;
  const send = async (verb: "approve" | "respond" | "deny") => {
    setErrors([]);
    try {
      await post(`/calls/${quoted(call.id)}/${verb}${place}`, { reason, seen: asked, ...(verb === "respond" ? { output: value } : {}) });
      notify(t(verb === "deny" ? "inbox.declined" : "inbox.inputAnswered"));
    } catch (error) {
      if (error instanceof Problem) setErrors(error.errors);
      throw error;
    } finally {
      void refreshInbox();
    }
  };
  return (
    <div class="decide">
      <p class="why"><strong>{t("inbox.asks", { source: question.source })}</strong> <bdi>{question.message}</bdi> {approval.deadline && <Countdown until={approval.deadline} />}</p>
      {question.url && <p>{t("inbox.openAddress")} <bdi class="mono">{question.url}</bdi></p>}
      <p class="hint">{t("inbox.inputAbout")}</p>
      {schema && may("approve") && <SchemaForm schema={schema} value={value} onChange={setValue} errors={errors} label={t("inbox.inputAnswer")} />}
      {schema && <details><summary>{t("inbox.form")}</summary><JsonView value={schema as unknown as Json} label={t("inbox.form")} /></details>}
      {may("approve") && (
        <div class="decide-actions">
          <label>{t("inbox.reason")}<input type="text" value={reason} maxLength={2000} onInput={(event) => setReason(event.currentTarget.value)} /></label>
          <Action kind="main" icon={schema ? "send" : "check"} disabled={asked === ""} onClick={() => send(schema ? "respond" : "approve")}>{t(schema ? "inbox.giveAnswer" : "inbox.inputDone")}</Action>
          <Action kind="danger" icon="close" disabled={asked === ""} onClick={() => send("deny")}>{t("inbox.decline")}</Action>
        </div>
      )}
    </div>
  );
}
