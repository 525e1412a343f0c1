// One question to a person: why it is asked, the arguments to edit, what differs, who has approved, and the answers.
import { useEffect, useState } from "preact/hooks";
import { json, post, Problem, query, quoted } from "../../api/client";
import type { Approval, CallRecord, CallSummary, Complaint, Decided, GrantGiven, Json, JsonObject, OneTool } from "../../api/types";
import type { JsonSchema } from "../../model/json-schema";
import { t } from "../../i18n";
import { changesOf } from "../../model/diff";
import { namesOf } from "../../model/fold";
import { refreshInbox } from "../../model/inbox";
import { may, offers, principal } from "../../session";
import { Action } from "../../ui/button";
import { Changes } from "../../ui/changes";
import { JsonView } from "../../ui/json";
import { notify } from "../../ui/toasts";
import { NOTHING, OutputField, valueOf } from "../../ui/output-field";
import { SchemaForm } from "../../ui/schema-form";
import { Countdown } from "../../ui/time";
import { AnswerQuestion } from "./answer-question";
import { Approvers } from "./approvers";
import { GrantForm } from "./grant-form";

interface Props {
  call: Pick<CallSummary, "id" | "thread" | "caller" | "tool" | "approval">;
  /** The whole record, if the page has it. */
  record?: CallRecord;
}

/** A check of an agent asks about a text, which the person may change. */
const OF_CHECK: JsonSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

type Verb = "approve" | "deny" | "respond";

export function Decide(props: Props) {
  const approval = props.call.approval ?? props.record?.approval ?? null;
  return approval?.purpose === "input"
    ? <AnswerQuestion key={approval.requested_at} call={props.call} approval={approval} />
    : <DecideApproval {...props} />;
}

function DecideApproval({ call, record: given }: Props) {
  const [loaded, setRecord] = useState<CallRecord | null>(null);
  const [schema, setSchema] = useState<JsonSchema>({});
  const [value, setValue] = useState<JsonObject | null>(null);
  const [errors, setErrors] = useState<Complaint[]>([]);
  const [reason, setReason] = useState("");
  const [refused, setRefused] = useState("");
  const [mode, setMode] = useState<"" | "grant" | "respond">("");
  const [grant, setGrant] = useState<GrantGiven | null>(null);
  const [output, setOutput] = useState(NOTHING);
  const [wrong, setWrong] = useState("");
  const place = query({ thread: call.thread, caller: call.caller });
  const record = newer(given ?? null, loaded);
  // The question that is shown. A decision names it: about another one, the server decides nothing.
  const asked = record?.approval?.hash ?? "";

  const load = () => json<CallRecord>(`/calls/${quoted(call.id)}${place}`).then(setRecord, () => undefined);
  useEffect(() => {
    if (!given) void load();
  }, [call.id, call.thread, call.caller, call.approval?.hash]);
  useEffect(() => {
    if (call.tool.startsWith("check:")) setSchema(OF_CHECK);
    else if (may("read") || may("call")) json<OneTool>(`/tools/${quoted(call.tool)}`).then(({ tool }) => setSchema(tool.input_schema), () => undefined);
  }, [call.tool]);
  useEffect(() => setValue((record?.arguments as JsonObject | null | undefined) ?? (record ? {} : null)), [asked]);

  const approval = call.approval ?? record?.approval ?? null;
  const several = (approval?.approvers ?? 1) > 1;
  const standing = standingOf(call, approval);
  const changes = record && value && !several ? changesOf(record.arguments, value) : [];
  const ready = asked !== "";
  const decide = async (verb: Verb) => {
    const body: JsonObject = { reason, seen: asked };
    if (verb === "approve" && changes.length) body["arguments"] = value;
    if (verb === "approve" && mode === "grant" && grant) body["grant"] = grant as JsonObject;
    if (verb === "respond") {
      const written = valueOf(output);
      setWrong(written instanceof Error ? written.message : "");
      if (written instanceof Error) return;
      body["output"] = written;
    }
    setErrors([]);
    setRefused("");
    try {
      const answer = await post<Decided>(`/calls/${quoted(call.id)}/${verb}${place}`, body);
      notify(said(verb, answer));
    } catch (error) {
      if (error instanceof Problem && error.errors.length) {
        if (verb === "respond") setWrong(error.errors.map((each) => `${each.path} ${each.message}`).join("; "));
        else setErrors(error.errors);
      }
      if (error instanceof Problem && error.code === "conflict") {
        setRefused(`${t("inbox.changed")} ${error.message}`);
        await load();
        return;
      }
      throw error;
    } finally {
      void refreshInbox();
    }
  };
  return (
    <div class="decide">
      {refused && <p class="failure" role="alert">{refused}</p>}
      <p class="why"><strong>{t("inbox.why")}</strong> {approval?.why || t("inbox.policy")} {approval?.deadline && <Countdown until={approval.deadline} />}</p>
      {approval && approval.purpose !== "run" && <p class="hint">{approval.purpose}</p>}
      {approval && several && <Approvers approval={approval} />}
      {value && (may("approve") && !several && standing === "" && mode !== "respond"
        ? <SchemaForm key={asked} schema={schema} value={value} onChange={setValue} errors={errors} />
        : <JsonView value={(several ? record?.arguments : value) as Json} label={t("run.arguments")} />)}
      {changes.length > 0 && mode !== "respond" && <Changes changes={changes} />}
      {may("approve") && standing && <p class="hint" role="note">{t(STANDINGS[standing])}</p>}
      {may("approve") && standing === "" && (
        <div class="choices no-save">
          {!several && offers("GET /grants") && value && (
            <label class="check"><input type="checkbox" checked={mode === "grant"} onChange={() => setMode(mode === "grant" ? "" : "grant")} /> {t("grants.also")}</label>
          )}
          {offers("POST /calls/{id}/respond") && record?.state === "pending" && (
            <label class="check"><input type="checkbox" checked={mode === "respond"} onChange={() => setMode(mode === "respond" ? "" : "respond")} /> {t("inbox.respond")}</label>
          )}
        </div>
      )}
      {mode === "grant" && value && !several && standing === "" && <GrantForm thread={call.thread} value={value} schema={schema} onChange={setGrant} />}
      {mode === "respond" && standing === "" && (
        <>
          <p class="hint">{t("inbox.respondAbout")}</p>
          <OutputField label={t("inbox.answer")} value={output} wrong={wrong} onChange={setOutput} />
        </>
      )}
      {may("approve") && (
        <div class="decide-actions">
          <label>{t("inbox.reason")}<input type="text" value={reason} maxLength={2000} onInput={(event) => setReason(event.currentTarget.value)} /></label>
          {standing === "" && mode === "respond" && <Action kind="main" icon="send" disabled={!ready} onClick={() => decide("respond")}>{t("inbox.giveAnswer")}</Action>}
          {standing === "" && mode !== "respond" && (
            <Action kind="main" icon="check" disabled={!ready || (mode === "grant" && !grant)} onClick={() => decide("approve")}>
              {mode === "grant" ? t("grants.approve") : changes.length ? t("inbox.approveEdited") : t("inbox.approve")}
            </Action>
          )}
          <Action kind="danger" icon="close" disabled={!ready} onClick={() => decide("deny")}>{t("inbox.deny")}</Action>
        </div>
      )}
    </div>
  );
}

/** Of two records of the call, the one with more events. */
function newer(one: CallRecord | null, other: CallRecord | null): CallRecord | null {
  if (!one || !other) return one ?? other;
  return other.events.length >= one.events.length ? other : one;
}

const STANDINGS = { own: "inbox.own", approved: "inbox.alreadyApproved", nameless: "inbox.nameless" } as const;

/** Why the person at this page may not approve: the call is its own, it has approved already, or it has no name and several people are
needed. The server has the last word. */
function standingOf(call: Pick<CallSummary, "caller">, approval: Approval | null): "" | keyof typeof STANDINGS {
  const who = principal.value;
  if (!approval || !who) return "";
  if (!who.id) return approval.approvers > 1 ? "nameless" : "";
  if (call.caller === who.id && !approval.self_approval) return "own";
  return approval.approvals.some((each) => namesOf(each).has(who.id) || namesOf(each).has(who.name)) ? "approved" : "";
}

function said(verb: Verb, answer: Decided): string {
  if (verb === "deny") return t("inbox.denied");
  if (verb === "respond") return t("inbox.answered");
  if (answer.missing) return t("inbox.approvedMissing", { count: answer.missing });
  return answer.grant ? t("grants.given") : t("inbox.approved");
}
