// Applies events to a call, as the server's own record is made from them. Pure functions: they return a new value.
import type { Approval, Attempt, CallEvent, CallRecord, CallSummary, CredentialWait, ExternalWait, FeedEvent, GivenApproval, InputQuestion, JsonObject, Progress, Reconciliation, ToolError } from "../api/types";
import { isTerminal } from "./tables";

const NO_DECISION: Approval = {
  why: "", purpose: "run", requested_at: null, deadline: null, hash: "", approved: null, by: "", reason: "", at: null, edited: false,
  approvers: 1, approvals: [], self_approval: false, grant: null, responded: false,
};

export const keyOf = (call: { caller: string; thread: string; id: string }): string => `${call.caller}\n${call.thread}\n${call.id}`;

export function callOf(event: FeedEvent): CallSummary {
  const data = event.data;
  return {
    id: event.call_id, tool: event.tool, thread: event.thread, caller: event.caller, state: event.state, success: false,
    created_at: event.at, updated_at: event.at, started_at: null, ended_at: null, duration: null, attempts: 0, worker: "", host: "",
    waiting_for: null, approval: null, progress: null, error: null, truncated: false, artifact: null, cached: false,
    priority: (data["priority"] as number | undefined) ?? 0, request_id: (data["request_id"] as string | undefined) ?? null,
    cancel_requested: false, metadata: (data["metadata"] as JsonObject | undefined) ?? {}, resolution: null,
  };
}

type Foldable = Omit<CallSummary, "attempts" | "worker" | "host">;

/** The names under which the person who gave an approval is known. */
export const namesOf = (given: GivenApproval): Set<string> => new Set([given.by, ...(given.identities ?? [])].filter(Boolean));

/** The approvals of different people. A second one of the same person does not count; nor does one without a name, if several are needed. */
function withApproval(asked: Approval, event: CallEvent): GivenApproval[] {
  const given: GivenApproval = { by: text(event.data["by"]), reason: text(event.data["reason"]), at: event.at };
  const identities = event.data["identities"];
  if (Array.isArray(identities)) given.identities = identities.map(String);
  const names = namesOf(given);
  const known = asked.approvals.some((each) => [...namesOf(each)].some((name) => names.has(name)));
  return known || (asked.approvers > 1 && !names.size) ? asked.approvals : [...asked.approvals, given];
}

/** Is it an approval, which may not be the last one that is needed? */
const isApproval = ({ data }: CallEvent): boolean => data["approved"] === true && data["responded"] !== true;

/** False: other people must approve, too. */
const isDecided = (asked: Approval, event: CallEvent): boolean => !isApproval(event) || withApproval(asked, event).length >= asked.approvers;

/** The approval after an answer. */
function answered(asked: Approval, event: CallEvent): Approval {
  const data = event.data;
  const approvals = isApproval(event) ? withApproval(asked, event) : asked.approvals;
  if (!isDecided(asked, event)) return { ...asked, approvals };
  return {
    ...asked, approvals, approved: data["approved"] === true, responded: data["responded"] === true, by: text(data["by"]), reason: text(data["reason"]), at: event.at, edited: "arguments" in data,
    grant: (data["grant"] as string | undefined) ?? null,
  };
}

/** The fields that rows and records have in common. */
function changed<T extends Foldable>(call: T, event: CallEvent): T {
  const data = event.data;
  const next: T = { ...call, state: event.state, success: event.state === "completed", updated_at: event.at };
  switch (event.type) {
    case "attempt_started":
      next.started_at = call.started_at ?? event.at;
      break;
    case "progress":
      next.progress = data as Progress;
      break;
    case "cancel_requested":
      next.cancel_requested = true;
      break;
    case "approval_requested":
      next.waiting_for = "approval";
      next.approval = {
        ...NO_DECISION, why: text(data["reason"]), purpose: text(data["purpose"]) || "run", requested_at: event.at,
        deadline: (data["deadline"] as number | null | undefined) ?? null, approvers: Number(data["approvers"] ?? 1),
        self_approval: data["self_approval"] === true,
        ...("question" in data ? { question: data["question"] as unknown as InputQuestion } : {}),
      };
      break;
    case "approval_given":
      next.approval = answered(call.approval ?? NO_DECISION, event);
      if (isDecided(call.approval ?? NO_DECISION, event)) next.waiting_for = null;
      break;
    case "note":
      if ("waiting_for" in data) next.waiting_for = (data["waiting_for"] as string | null) ?? null;
      break;
    case "reported":
      next.waiting_for = null;
      break;
    case "reconcile_started":
      next.waiting_for = "reconcile";
      break;
    case "resolved":
      next.resolution ??= {
        happened: data["happened"] === true, output: data["output"] ?? null, by: text(data["by"]), note: text(data["note"]), at: event.at,
        rerun_as: (data["rerun_as"] as string | undefined) ?? null,
      };
      break;
    case "state_changed":
      next.waiting_for = (data["waiting_for"] as string | undefined) ?? null;
      if (isTerminal(event.state)) {
        next.error = (data["error"] as unknown as ToolError | undefined) ?? null;
        next.ended_at = event.at;
        next.duration = (data["duration"] as number | undefined) ?? event.at - call.created_at;
        next.truncated = data["truncated"] === true;
        next.cached = data["cached"] === true;
        next.artifact = (data["artifact"] as string | undefined) ?? null;
        next.metadata = { ...call.metadata, ...((data["metadata"] as JsonObject | undefined) ?? {}) };
      }
      break;
  }
  return next;
}

/** A row of a list after an event. */
export function folded(call: CallSummary, event: CallEvent): CallSummary {
  const next = changed(call, event);
  if (event.type === "attempt_started") {
    next.attempts = Math.max(call.attempts, Number(event.data["attempt"] ?? call.attempts + 1));
    next.worker = text(event.data["worker"]);
    next.host = text(event.data["host"]);
  }
  return next;
}

/** A whole record after an event. Events that it has already are left out. */
export function foldedRecord(record: CallRecord, event: CallEvent): CallRecord {
  const last = record.events.at(-1)?.seq ?? 0;
  if (event.seq <= last) return record;
  const next = changed(record, event);
  next.events = [...record.events, event];
  const data = event.data;
  if (event.type === "attempt_started") {
    const attempt: Attempt = {
      number: Number(data["attempt"]), started_at: event.at, ended_at: null, outcome: null, error: null, delay: null, traceback: "",
      worker: text(data["worker"]), host: text(data["host"]),
    };
    next.attempts = [...record.attempts, attempt];
  } else if (event.type === "stage_ended") {
    next.stages = { ...record.stages, [text(data["stage"])]: { outcome: text(data["outcome"]), duration: Number(data["duration"]) } };
  } else if (event.type === "approval_given" && "arguments" in data && isDecided(record.approval ?? NO_DECISION, event)) {
    next.arguments = data["arguments"] ?? null;
  } else if (event.type === "note" || event.type === "reported") {
    next.external = external(record.external, event);
    if (data["waiting_for"] === "credential") next.credential = credential(event);
  } else if (event.type === "reconcile_started" || event.type === "reconcile_ended") {
    next.reconciliation = reconciliation(record.reconciliation, event);
  } else if (event.type === "state_changed") {
    const open = record.attempts.at(-1);
    if (open && open.ended_at === null && (isTerminal(event.state) || event.state === "retrying")) {
      const error = (data["error"] as unknown as ToolError | undefined) ?? null;
      const ended: Attempt = {
        ...open, ended_at: event.at, error, outcome: event.state === "completed" ? "ok" : (error?.code ?? event.state),
        delay: (data["delay"] as number | undefined) ?? null, traceback: text(data["traceback"]),
      };
      next.attempts = [...record.attempts.slice(0, -1), ended];
    }
    if (event.state === "completed") next.output = data["output"] ?? null;
  }
  return next;
}

function credential({ data, at }: CallEvent): CredentialWait {
  const { providers, reasons, deadline } = data as Partial<CredentialWait>;
  return { providers: providers ?? [], reasons: reasons ?? {}, since: at, deadline: deadline ?? null };
}

function external(known: ExternalWait | null, event: CallEvent): ExternalWait | null {
  const { data, at } = event;
  if (event.type === "reported") return known && { ...known, reported_at: at };
  const begun = "external" in data ? { for: text((data["external"] as JsonObject | null)?.["for"]), since: null, deadline: null, reported_at: null } : known;
  return begun && data["waiting_for"] === "external" ? { ...begun, since: at, deadline: (data["deadline"] as number | null | undefined) ?? null } : begun;
}

function reconciliation(known: Reconciliation | null, event: CallEvent): Reconciliation {
  const { data, at } = event;
  const started: Reconciliation = { attempt: (data["attempt"] as number | undefined) ?? null, tries: (data["try"] as number | undefined) ?? null, outcome: null, reason: "", at };
  if (event.type === "reconcile_started") return started;
  const reason = text(data["reason"]) || text((data["error"] as JsonObject | undefined)?.["message"]);
  return { ...(known ?? started), outcome: (data["outcome"] as Reconciliation["outcome"] | undefined) ?? null, reason, at };
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
