// One question to a person: why it is asked, the arguments to edit, what differs, and the two answers.
import { useEffect, useState } from "preact/hooks";
import { json, post, Problem, query, quoted } from "../../api/client";
import type { Call, CallRecord, JsonObject, JsonSchema, Tool } from "../../api/types";
import { t } from "../../i18n";
import { changesOf } from "../../model/diff";
import { refreshInbox } from "../../model/inbox";
import { may } from "../../session";
import { Action } from "../../ui/button";
import { Changes } from "../../ui/changes";
import { JsonView } from "../../ui/json";
import { notify } from "../../ui/notices";
import { SchemaForm } from "../../ui/schema-form";
import { Countdown } from "../../ui/time";

interface Props {
  call: Pick<Call, "id" | "thread" | "caller" | "tool" | "approval">;
  /** The whole record, if the page has it. */
  record?: CallRecord;
}

export function Decide({ call, record: given }: Props) {
  const [record, setRecord] = useState<CallRecord | null>(given ?? null);
  const [schema, setSchema] = useState<JsonSchema>({});
  const [value, setValue] = useState<JsonObject | null>((given?.arguments as JsonObject | undefined) ?? null);
  const [errors, setErrors] = useState<{ path: string; message: string }[]>([]);
  const [reason, setReason] = useState("");
  const place = query({ thread: call.thread, caller: call.caller });

  useEffect(() => {
    if (!given) {
      json<CallRecord>(`/calls/${quoted(call.id)}${place}`).then((found) => {
        setRecord(found);
        setValue((found.arguments as JsonObject | null) ?? {});
      }, () => undefined);
    }
    if (may("read") || may("call")) json<{ tool: Tool }>(`/tools/${quoted(call.tool)}`).then(({ tool }) => setSchema(tool.input_schema), () => undefined);
  }, [call.id, call.thread]);

  const approval = record?.approval ?? call.approval;
  const changes = record && value ? changesOf(record.arguments, value) : [];
  const decide = async (approve: boolean) => {
    const seen = record?.approval?.hash ? { seen: record.approval.hash } : {};
    const edited = approve && changes.length ? { arguments: value } : {};
    setErrors([]);
    try {
      await post(`/calls/${quoted(call.id)}/${approve ? "approve" : "deny"}${place}`, { reason, ...seen, ...edited });
      notify(approve ? t("inbox.approved") : t("inbox.denied"));
    } catch (error) {
      if (error instanceof Problem && error.errors.length) setErrors(error.errors);
      throw error;
    } finally {
      void refreshInbox();
    }
  };
  return (
    <div class="decide">
      <p class="why"><strong>{t("inbox.why")}</strong> {approval?.why || t("inbox.policy")} {approval?.deadline && <Countdown until={approval.deadline} />}</p>
      {approval && approval.purpose !== "run" && <p class="hint">{approval.purpose}</p>}
      {value && (may("approve") ? <SchemaForm schema={schema} value={value} onChange={setValue} errors={errors} /> : <JsonView value={value} label={t("run.arguments")} />)}
      {changes.length > 0 && <Changes changes={changes} />}
      {may("approve") && (
        <div class="decide-actions">
          <label>{t("inbox.reason")}<input type="text" value={reason} maxLength={2000} onInput={(event) => setReason(event.currentTarget.value)} /></label>
          <Action kind="main" icon="check" disabled={!record} onClick={() => decide(true)}>{changes.length ? t("inbox.approveEdited") : t("inbox.approve")}</Action>
          <Action kind="danger" icon="close" disabled={!record} onClick={() => decide(false)}>{t("inbox.deny")}</Action>
        </div>
      )}
    </div>
  );
}
