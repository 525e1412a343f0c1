// What the server's routes answer with. Field names are the server's own.

export type State =
  | "pending" | "initializing" | "running" | "streaming" | "retrying"
  | "completed" | "failed" | "timeout" | "cancelled";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export interface ToolError {
  code: string;
  message: string;
  type?: string | null;
  retryable?: boolean;
  details?: JsonObject;
}

export interface Progress {
  step?: number | null;
  total_steps?: number | null;
  percentage?: number | null;
  status?: string | null;
  estimated_time_remaining?: number | null;
}

export interface Approval {
  why: string;
  purpose: string;
  requested_at: number | null;
  deadline: number | null;
  hash: string;
  approved: boolean | null;
  by: string;
  reason: string;
  at: number | null;
  edited: boolean;
  /** How many different people must approve, and those who did. */
  approvers: number;
  approvals: GivenApproval[];
  self_approval: boolean;
  grant: string | null;
  responded: boolean;
  /** Only if `purpose` is `input`: what the tool itself asks. */
  question?: InputQuestion;
}

/** With a schema the answer is an object that fits it; with a url a person opens the address. */
export interface InputQuestion {
  source: string;
  message: string;
  schema?: JsonSchema | null;
  url?: string;
}

export interface GivenApproval {
  by: string;
  reason: string;
  at: number;
  /** Other names of the same person. */
  identities?: string[];
}

export interface Call {
  id: string;
  tool: string;
  thread: string;
  caller: string;
  state: State;
  created_at: number;
  updated_at: number;
  started_at: number | null;
  ended_at: number | null;
  duration: number | null;
  attempts: number;
  waiting_for: string | null;
  approval: Approval | null;
  progress: Progress | null;
  error: ToolError | null;
  truncated: boolean;
  artifact: string | null;
  cached: boolean;
  priority: number;
  request_id: string | null;
  cancel_requested: boolean;
  metadata: JsonObject;
  resolution: Resolution | null;
}

/** How a person settled an unknown outcome. */
export interface Resolution {
  happened: boolean;
  output: Json;
  by: string;
  note: string;
  at: number;
  rerun_as: string | null;
}

/** How a call ends elsewhere. */
export interface External {
  for: string;
  since: number | null;
  deadline: number | null;
  reported_at: number | null;
}

/** What the last try of the tool's own check found. */
export interface Reconciliation {
  attempt: number | null;
  tries: number | null;
  outcome: string | null;
  reason: string;
  at: number;
}

export interface CallPage {
  items: Call[];
  cursor: string | null;
}

export interface CallEvent {
  call_id: string;
  seq: number;
  at: number;
  type: string;
  state: State;
  data: JsonObject;
}

/** An event of `GET /events`: it also says of which call it is. */
export interface FeedEvent extends CallEvent {
  thread: string;
  caller: string;
  tool: string;
}

export interface Attempt {
  number: number;
  started_at: number;
  ended_at: number | null;
  outcome: string | null;
  error: ToolError | null;
  delay: number | null;
  traceback: string;
  worker?: string | null;
  host?: string | null;
}

export interface Stage {
  outcome: string;
  duration: number;
}

export interface CallRecord extends Omit<Call, "attempts"> {
  success: boolean;
  arguments: Json;
  refused: JsonObject | null;
  attempts: Attempt[];
  stages: { [name: string]: Stage };
  events: CallEvent[];
  output: Json;
  content: string;
  timeout: number | null;
  deadline: number | null;
  not_before: number | null;
  idempotency_key: string;
  tool_version: string;
  reconciliation: Reconciliation | null;
  external: External | null;
}

export type GrantState = "active" | "used_up" | "expired" | "revoked";

/** An approval that also lets later calls run. */
export interface Grant {
  id: string;
  tool: string;
  caller: string;
  by: string;
  call: string;
  given_at: number;
  reason: string;
  thread: string | null;
  arguments: JsonObject | null;
  uses: number | null;
  used: number;
  expires_at: number | null;
  last_used_at: number | null;
  revoked_at: number | null;
  revoked_by: string;
  state: GrantState;
}

export interface GrantTerms {
  uses?: number;
  seconds?: number;
  thread?: string;
  arguments?: JsonObject;
}

export interface NoticeAttempt {
  at: number;
  seconds: number;
  status: number | null;
  problem: string;
}

/** A fact that is sent to a webhook endpoint. */
export interface Notice {
  id: string;
  type: string;
  endpoint: string;
  state: "pending" | "delivered" | "failed";
  created_at: number;
  tries: number;
  next_at: number | null;
  ended_at: number | null;
  replays: number;
  attempts: NoticeAttempt[];
  payload: JsonObject | null;
}

export interface Amount {
  usd: number;
  tokens: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  unpriced_tokens: number;
  assumed_usd: number;
  entries: number;
}

export interface SpendRow extends Amount {
  key: string;
  own: Amount;
  caller: string | null;
  parent: string | null;
}

export interface BudgetStatus {
  name: string;
  scope: string;
  period: string;
  on_reached: "warn" | "ask" | "stop";
  limit_usd: number | null;
  limit_tokens: number | null;
  spent_usd: number;
  spent_tokens: number;
  reserved_usd: number;
  reserved_tokens: number;
  raised_usd: number;
  raised_tokens: number;
  left_usd: number | null;
  left_tokens: number | null;
  reached_at: number | null;
}

export interface SpendReport {
  by: string;
  items: SpendRow[];
  total: Amount;
  budgets: BudgetStatus[];
}

/** What became of one time of a schedule. Fields that are zero or empty are left out. */
export interface Firing {
  due: number;
  outcome: "fired" | "queued" | "skipped" | "missed" | "failed";
  at: number;
  call?: string;
  late?: number;
  reason?: string;
  until?: number | null;
  count?: number;
}

export interface Schedule {
  name: string;
  cron: string;
  timezone: string;
  tool: string;
  arguments: JsonObject;
  thread: string;
  overlap: string;
  catch_up: string;
  jitter: number;
  paused: boolean;
  caller: string;
  last_due: number;
  next_at: number | null;
  waiting: number[];
  last_call: string;
  fired: number;
  skipped: number;
  missed: number;
  log: Firing[];
}

export interface Tool {
  name: string;
  description: string;
  input_schema: JsonSchema;
  version: string;
  tags: string[];
  is_async: boolean;
  isolation: string;
  timeout: number | null;
  read_only: boolean;
  idempotent: boolean;
}

export type ToolStatus = "available" | "failed" | "unavailable" | "maintenance";

export interface ToolStanding {
  name: string;
  available: boolean;
  status: ToolStatus;
  reason: string;
  missing: string[];
  suggested: string[];
  depends_on: string[];
  why: string;
  state: {
    consecutive_failures: number;
    last_success_at: number | null;
    last_failure_at: number | null;
    last_updated: number;
    completions: number;
    failures: number;
  };
}

export interface ToolFigures {
  tool: string;
  total: number;
  success: number;
  failed: number;
  timeout: number;
  cancelled: number;
  success_rate: number | null;
  mean: number | null;
  min: number | null;
  max: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  errors: { [code: string]: number };
  cached: number;
}

export interface Report {
  tools: { [name: string]: ToolFigures };
  totals: ToolFigures;
}

export interface Anomaly {
  tool: string;
  kind: string;
  value: number;
  limit: number;
  runs: number;
  message: string;
}

export interface Agent {
  name: string;
  kind: string;
  default: boolean;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cached_tokens?: number;
  cost?: number;
}

export interface PlanStep {
  text: string;
  status: string;
  notes?: string;
}

export interface Plan {
  title?: string;
  steps?: PlanStep[];
}

export interface AgentThread {
  thread: string;
  agent: string;
  state: string;
  turns: number;
  stopped: string | null;
  text: string;
  steps: number;
  usage: Usage;
  error: string;
  plan: Plan | null;
  updated_at: number;
  waiting_for: string[];
}

export interface ToolUse {
  id: string;
  name: string;
  arguments: string;
}

export interface ChatMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  tool_calls?: ToolUse[];
  tool_call_id?: string;
  failed?: boolean;
  thought?: string;
  /** What clicket itself notes: the call that this answer started, or whose result the message is. */
  vendor?: { clicket?: { background?: string; result_of?: string } } | null;
}

export interface Turn {
  turn: number;
  messages: ChatMessage[];
  state: string;
  stopped?: string | null;
  /** How the answer ended: `stop`, `length`, `refusal` or `empty`. */
  ended?: string | null;
  text?: string;
  steps?: number;
  calls?: number;
  usage?: Usage;
  error?: string;
  plan?: Plan | null;
  at?: number;
}

export interface TurnPage {
  agent: string;
  thread: string;
  turns: Turn[];
  after: number | null;
}

export interface AgentEvent {
  type: string;
  thread: string;
  turn: number;
  at: number;
  step: number;
  id: string;
  data: JsonObject;
}

export interface Principal {
  id: string;
  name: string;
  scopes: string[];
  keyed: boolean;
  version: string;
  /** How long ended calls are kept; a server of an older version does not say it. */
  retention?: { seconds: number; bytes: number | null; calls: number | null };
}

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: { [name: string]: JsonSchema };
  required?: string[];
  items?: JsonSchema;
  enum?: Json[];
  const?: Json;
  default?: Json;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  $ref?: string;
  $defs?: { [name: string]: JsonSchema };
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  additionalProperties?: boolean | JsonSchema;
}
