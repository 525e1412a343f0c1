// Written by scripts/console_types.py from the server's OpenAPI document: change the server, then run `make console`.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };

/** The call is durable. `Location` names it. */
export interface Accepted {
  id: string;
  thread: string;
  tool: string;
  state: State;
}

/** The new call is durable; `again_of` is the id of the old one. `Location` names the new one. */
export interface AgainAccepted {
  id: string;
  thread: string;
  tool: string;
  state: State;
  again_of: string;
}

/** One fact about a turn. An event with an `id` is recorded, and later readers get it too. Pieces of an answer (`delta`), progress of tools and retries of the model have no id and reach live readers only; with `deltas="stored"` pieces have one, and readers in any process get them until their answer is on record. `restart` voids the pieces of its step. */
export interface AgentEvent {
  type: "answer" | "decision" | "delta" | "error" | "fallback" | "final" | "handoff" | "message" | "plan" | "restart" | "retry" | "state" | "thought" | "tool_progress" | "tool_result" | "tool_started" | "undone" | "usage";
  thread: string;
  turn: number;
  at: number;
  step: number;
  id: string;
  data: JsonObject;
}

/** Of all trials of one agent. Times are seconds; `cost` and `tokens` are sums, `steps` and `calls` are means of a trial. */
export interface AgentFigures {
  agent: string;
  trials: number;
  passed: number;
  steps: number;
  calls: number;
  cost: number;
  tokens: number;
  median_seconds: number;
  slowest_seconds: number;
}

/** An agent of this server. `default`: requests that name no agent go to it. `limits` are those of one turn. */
export interface AgentInfo {
  name: string;
  kind: string;
  default: boolean;
  limits: Limits;
}

export interface AgentList {
  items: AgentInfo[];
}

export type AgentState = "error" | "finished" | "idle" | "running";

/** `usd` is without the money of `unpriced_tokens`, whose model has no price. */
export interface Amount {
  usd: number;
  tokens: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  unpriced_tokens: number;
  assumed_usd: number;
  entries: number;
}

export interface Anomalies {
  items: Anomaly[];
}

/** A tool that fails often or is slow. `kind` is `success_rate` or `mean`; `value` is beyond `limit`, over `runs` runs and tries. */
export interface Anomaly {
  tool: string;
  kind: string;
  value: number;
  limit: number;
  runs: number;
  message: string;
}

/** The last question to a person, and the answer. `approved` is null while people are to answer. */
export interface Approval {
  approvals: GivenApproval[];
  approved: boolean | null;
  approvers: number;
  at: number | null;
  by: string;
  deadline: number | null;
  edited: boolean;
  grant: string | null;
  hash: string;
  purpose: string;
  question?: InputQuestion;
  reason: string;
  requested_at: number | null;
  responded: boolean;
  self_approval: boolean;
  why: string;
}

/** One try. `delay` is the wait that was planned before the next one. */
export interface Attempt {
  number: number;
  started_at: number;
  ended_at: number | null;
  outcome: string | null;
  error: ToolError | null;
  delay: number | null;
  traceback: string;
  worker: string;
  host: string;
}

/** A budget as it applies to one scope and period. `left_usd` and `left_tokens` count reservations as spent. */
export interface BudgetStatus {
  name: string;
  scope: string;
  period: string;
  on_reached: "ask" | "stop" | "warn";
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

/** A call on which the action failed, and why. Thread and caller are those of the call, or of the request if it was not found. */
export interface BulkFailure {
  id: string;
  thread: string | null;
  caller: string | null;
  code: string;
  message: string;
}

/** How many calls were found (`matched`), acted on (`done`), left alone because the action no longer applies to them (`skipped`), and not acted on because of an error (`failed`). With `dry` nothing was changed. `cursor` goes on with a filter; None: that was all. */
export interface BulkResult {
  action: "again" | "approve" | "cancel" | "deny";
  dry: boolean;
  matched: number;
  done: number;
  skipped: number;
  failed: number;
  failures: BulkFailure[];
  made: MadeCall[];
  cursor: string | null;
}

/** Counted by the store, so by all processes together, since the store was made. */
export interface CacheStats {
  items: number;
  bytes: number;
  hits: number;
  misses: number;
  evictions: number;
}

/** `state` is the call's state after the event; `at` is seconds since the epoch. */
export interface CallEvent {
  call_id: string;
  seq: number;
  at: number;
  type: "approval_given" | "approval_requested" | "attempt_started" | "cancel_requested" | "created" | "heartbeat" | "late_result" | "note" | "output" | "progress" | "reconcile_ended" | "reconcile_started" | "reported" | "resolved" | "stage_ended" | "state_changed";
  state: State;
  data: JsonObject;
}

/** Everything known about a call. */
export interface CallRecord {
  success: boolean;
  id: string;
  tool: string;
  thread: string;
  state: State;
  created_at: number;
  caller: string;
  arguments: Json;
  refused: JsonObject | null;
  error: ToolError | null;
  attempts: Attempt[];
  stages: { [name: string]: Stage };
  events: CallEvent[];
  updated_at: number;
  started_at: number | null;
  ended_at: number | null;
  duration: number | null;
  waiting_for: string | null;
  approval: Approval | null;
  progress: Progress | null;
  output: Json;
  content: string;
  truncated: boolean;
  artifact: string | null;
  files: FileRef[];
  cached: boolean;
  priority: number;
  timeout: number | null;
  deadline: number | null;
  not_before: number | null;
  request_id: string | null;
  idempotency_key: string;
  tool_version: string;
  cancel_requested: boolean;
  metadata: JsonObject;
  resolution: SettledOutcome | null;
  reconciliation: Reconciliation | null;
  credential: CredentialWait | null;
  external: ExternalWait | null;
}

/** A call in a listing: everything except its events, arguments and output. */
export interface CallSummary {
  id: string;
  tool: string;
  thread: string;
  caller: string;
  state: State;
  success: boolean;
  created_at: number;
  updated_at: number;
  started_at: number | null;
  ended_at: number | null;
  duration: number | null;
  attempts: number;
  worker: string;
  host: string;
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
  resolution: SettledOutcome | null;
}

/** What became of the undo of one call. */
export interface CallUndo {
  id: string;
  tool: string;
  thread: string;
  reason: string;
  undo: string;
}

/** `cancelled`: the call was cancelled, or the request is on record; false: the call had ended already. */
export interface Cancelled {
  id: string;
  thread: string;
  cancelled: boolean;
  state: State;
}

/** `uses` are an assistant's tool calls; each is answered by one message of the role `tool` with its id as `use_id`. As JSON they have the names by which most programs know them. */
export interface ChatMessage {
  role: "assistant" | "system" | "tool" | "user";
  content: string;
  tool_calls?: ToolUse[];
  tool_call_id?: string;
  failed?: boolean;
  thought?: string;
  files?: FileRef[];
  vendor?: Vendor | null;
  id?: string;
}

/** One error in the input. `path` is a JSON pointer. */
export interface Complaint {
  path: string;
  message: string;
}

/** The last wait for credentials of the caller. `reasons` by provider. */
export interface CredentialWait {
  deadline: number | null;
  providers: string[];
  reasons: { [name: string]: string };
  since: number;
}

export interface Decided {
  id: string;
  thread: string;
  approved: boolean;
  by: string;
  state: State;
  missing: number;
  grant: string | null;
}

/** One request to the endpoint. `status` is None when no response came; `problem` is empty when it was accepted. */
export interface DeliveryAttempt {
  at: number;
  seconds: number;
  status: number | null;
  problem: string;
}

/** One run. Figures and counts are of all its trials, `trials` are a page of them in the order of their cases. `cursor` fetches the next page; None: there is none. */
export interface EvalReport {
  run: EvalRun;
  figures: AgentFigures[];
  newly_failed: number;
  newly_passed: number;
  trials: EvalTrial[];
  cursor: string | null;
}

/** One run of an evaluation. `ended_at` None: it was interrupted, or runs; then `agents`, `passed` and `rate` are not known yet. */
export interface EvalRun {
  name: string;
  run: string;
  began_at: number;
  work: string;
  total: number;
  commit: string;
  ended_at: number | null;
  passed: number;
  rate: number | null;
  agents: string[];
  seconds: number;
}

/** Runs, the newest first. `cursor` fetches the next page; None: there is none. */
export interface EvalRunPage {
  items: EvalRun[];
  cursor: string | null;
}

/** What came of one case with one agent. `why`: why it did not pass. `calls`: the tool calls in order, with their results. `before`: whether it passed in the last run of the same name; None: it was not in it. `thread`: the one on record of which the case was made. */
export interface EvalTrial {
  case: string;
  agent: string;
  passed: boolean;
  before: boolean | null;
  why: string;
  message: string;
  expected: Json;
  text: string;
  value: Json;
  error: string;
  scores: Score[];
  calls: RecordedCall[];
  thread: string | null;
  steps: number;
  tokens: number;
  cost: number;
  seconds: number;
}

export interface ExternalWait {
  deadline: number | null;
  for: string;
  reported_at: number | null;
  since: number | null;
}

/** An event of any call: it also says of which. */
export interface FeedEvent {
  call_id: string;
  seq: number;
  at: number;
  type: "approval_given" | "approval_requested" | "attempt_started" | "cancel_requested" | "created" | "heartbeat" | "late_result" | "note" | "output" | "progress" | "reconcile_ended" | "reconcile_started" | "reported" | "resolved" | "stage_ended" | "state_changed";
  state: State;
  data: JsonObject;
  thread: string;
  caller: string;
  tool: string;
}

/** A file that is kept as an artifact. `width` and `height`: of an image, in pixels, if they are known. */
export interface FileRef {
  artifact: string;
  media_type: string;
  size: number;
  name?: string;
  width?: number;
  height?: number;
}

/** What became of one time of a schedule, or of several that were missed. */
export interface Firing {
  due: number;
  outcome: "failed" | "fired" | "missed" | "queued" | "skipped";
  at: number;
  call?: string;
  late?: number;
  reason?: string;
  until?: number | null;
  count?: number;
}

export interface GivenApproval {
  at: number;
  by: string;
  identities?: string[];
  reason: string;
}

/** An approval for later calls of one tool. Times are seconds since the epoch. */
export interface Grant {
  id: string;
  tool: string;
  caller: string;
  by: string;
  call: string;
  given_at: number;
  reason: string;
  version: string | null;
  thread: string | null;
  arguments: JsonObject | null;
  uses: number | null;
  used: number;
  expires_at: number | null;
  last_used_at: number | null;
  revoked_at: number | null;
  revoked_by: string;
  state: "active" | "expired" | "revoked" | "used_up";
}

/** Which later calls of the same tool run without a person, if the same rule of the policy asks: `uses` of them, for `seconds`, in `thread`, with `arguments` that fit a JSON Schema, of `caller` (`*`: of every caller). Left out, `caller` is the call's; another key left out sets no limit. */
export interface GrantGiven {
  uses?: number | null;
  seconds?: number | null;
  thread?: string | null;
  arguments?: JsonObject | null;
  caller?: string | null;
}

/** The newest first. */
export interface GrantList {
  items: Grant[];
}

/** What a tool asks. With a `schema` the answer is an object that fits it; with a `url` a person opens the address. */
export interface InputQuestion {
  key: string;
  message: string;
  schema?: JsonObject;
  source: string;
  url?: string;
}

/** Of one turn; None means no bound. `max_seconds` counts the time of the model and the tools, not the time until an approval. */
export interface Limits {
  max_steps: number;
  max_calls: number | null;
  max_tokens: number | null;
  max_cost: number | null;
  max_seconds: number | null;
  max_repeats: number | null;
}

/** A page of calls. `cursor` fetches the next; null on the last. `searched_to` is set if the search looked at 10,000 calls before the page was full: when the last one of these was made. `cursor` continues there. */
export interface Listing {
  items: CallSummary[];
  cursor: string | null;
  searched_to: number | null;
}

/** A call that `again` made. */
export interface MadeCall {
  id: string;
  thread: string;
  caller: string;
  again_of: string;
}

/** `id` is the `webhook-id` of every request. `endpoint` is the endpoint's name in the settings. Times are seconds since the epoch. */
export interface Notice {
  id: string;
  type: "alert.cleared" | "alert.raised" | "approval.requested" | "budget.reached" | "call.ended" | "call.unknown" | "tool.health" | "turn.ended" | "turn.waiting" | "worker.lost";
  endpoint: string;
  state: "delivered" | "failed" | "pending";
  created_at: number;
  tries: number;
  next_at: number | null;
  ended_at: number | null;
  replays: number;
  attempts: DeliveryAttempt[];
  payload: JsonObject | null;
}

/** Notices, the newest first. `cursor` fetches the next page; None: there is none. */
export interface NoticePage {
  items: Notice[];
  cursor: string | null;
}

export interface OneTool {
  tool: ToolInfo;
  standing: ToolView | null;
  figures: ToolReport | null;
}

/** Of a fork: it has the turns of `thread` up to `after`, and with `step` the next one up to the results of that step. */
export interface Origin {
  thread: string;
  after: number;
  step?: number | null;
  at?: number;
}

/** `background`: the call that a tool call has started. `result_of`: the call whose result the message is. `handoff`: the agent for which the message is, when another one, `by`, hands over to it. `history`: what it reads of the thread. `undone`: the calls that undid others, of which the message tells. */
export interface OwnPart {
  background?: string;
  by?: string;
  handoff?: string;
  history?: "all" | "last" | "none";
  result_of?: string;
  tool?: string;
  undone?: string[];
}

export interface Plan {
  title: string;
  steps: Step[];
}

export type PlanStep = "blocked" | "completed" | "in_progress" | "not_started";

/** RFC 9457. `type` is a URN with the `code`; `call_id` is the call that records the error. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: "agent_busy" | "closed" | "conflict" | "foreign_host" | "foreign_origin" | "internal" | "invalid_input" | "invalid_json" | "invalid_query" | "invalid_transition" | "issuer_unavailable" | "method_not_allowed" | "missing_scope" | "no_agent" | "not_ended" | "not_found" | "not_started" | "not_waiting" | "permission_denied" | "queue_full" | "range_not_satisfiable" | "request_timeout" | "shutting_down" | "store_unavailable" | "too_large" | "tool_not_found" | "unauthorized" | "unsupported_media_type" | "usage";
  errors?: Complaint[];
  call_id?: string | null;
}

export interface Progress {
  estimated_time_remaining?: number | null;
  percentage?: number | null;
  status?: string | null;
  step?: number | null;
  total_steps?: number | null;
}

/** `reason`: why it is not ready: `not_started`, `shutting_down` or `store_unavailable`. */
export interface Readiness {
  ready: boolean;
  reason: string | null;
}

/** What the last try of the tool's own check found. */
export interface Reconciliation {
  at: number;
  attempt: number | null;
  outcome: "continues" | "did_not_happen" | "failed" | "happened" | "unknown" | null;
  reason: string;
  tries: number | null;
}

/** A tool call of a model, and what the model read as its result. `arguments` are a text if they were not a JSON object. */
export interface RecordedCall {
  tool: string;
  arguments?: Json;
  content?: string;
  failed?: boolean;
}

/** Ended calls by tool, and all together. `since` None: since the store was made. */
export interface Report {
  tools: { [name: string]: ToolReport };
  totals: ToolReport;
  since: number | null;
}

/** How long ended calls are kept; null means no bound. Those of an agent's turns are kept as long as their thread. */
export interface Retention {
  seconds: number;
  bytes: number | null;
  calls: number | null;
}

/** A schedule. Times are seconds since the epoch. */
export interface Schedule {
  name: string;
  cron: string;
  timezone: string;
  tool: string;
  arguments: JsonObject;
  thread: string;
  overlap: "allow" | "queue" | "skip";
  catch_up: "all" | "last" | "none";
  jitter: number;
  paused: boolean;
  caller: string;
  timeout: number | null;
  deadline: number | null;
  priority: number;
  metadata: JsonObject;
  created_at: number;
  updated_at: number;
  last_due: number;
  next_at: number | null;
  waiting: number[];
  last_call: string;
  fired: number;
  skipped: number;
  missed: number;
  log: Firing[];
}

/** In the order of their names. */
export interface ScheduleList {
  items: Schedule[];
}

/** What a check says: from 0 to 1. `why`: for a person. */
export interface Score {
  check: string;
  passed: boolean;
  value?: number;
  why?: string;
}

/** Points at equal steps, from the oldest. Times are seconds since the epoch. `calls`: completed, failed, timeout, cancelled, total. `errors`: each error code, total. `latency`: count, mean, p50, p95, in seconds; None without a timed call. `queue`: calls that wait to be started, `length` at the end of the step and its `max`. */
export interface Series {
  metric: string;
  tool: string | null;
  since: number;
  until: number;
  step: number;
  points: SeriesPoint[];
}

/** The values of one step, which begins at `at` (seconds since the epoch). */
export interface SeriesPoint {
  at: number;
  values: { [name: string]: number | null };
}

/** How a person settled an unknown outcome. */
export interface SettledOutcome {
  at: number;
  by: string;
  happened: boolean;
  note: string;
  output: Json;
  rerun_as: string | null;
}

/** The rows with the largest amounts first; days, months and callers in their order. `total` is the sum of all entries. */
export interface SpendReport {
  by: "agent" | "caller" | "day" | "model" | "month" | "run" | "thread";
  since: number | null;
  until: number | null;
  items: SpendRow[];
  total: Amount;
  budgets: BudgetStatus[];
}

/** The amounts of a run, a thread or an agent include those of the agents that it called; `own` is without them. */
export interface SpendRow {
  usd: number;
  tokens: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  unpriced_tokens: number;
  assumed_usd: number;
  entries: number;
  key: string;
  own: Amount;
  caller: string | null;
  parent: string | null;
}

/** How one of the six stages ended, and the seconds it took. `authorize` is timed also if no rule applies to the call. `execute` is 0 if a person answered in the tool's place. `persist` is the time to build the outcome, without its write: what is written cannot contain how long its own write takes. The metric `clicket_persist_seconds` has the write. */
export interface Stage {
  outcome: string;
  duration: number;
}

export type State = "cancelled" | "completed" | "failed" | "initializing" | "pending" | "retrying" | "running" | "streaming" | "timeout";

/** `depends_on`: numbers of other steps, from 1. */
export interface Step {
  text: string;
  status: PlanStep;
  notes: string;
  depends_on: number[];
}

/** An agent that has run turns in a thread. `state` None: its record cannot be opened here. */
export interface ThreadAgent {
  name: string;
  state: AgentState | null;
  turns: number;
  updated_at: number;
}

/** A page of threads. `cursor` fetches the next; None: this was the last. A page may be shorter than asked for, and not the last. */
export interface ThreadPage {
  items: ThreadSummary[];
  cursor: string | null;
}

export interface ThreadStanding {
  agentId: string;
  toolStates: { [name: string]: ToolStanding };
  timestamp: string;
}

/** One conversation of one caller. Times are seconds since the epoch. */
export interface ThreadSummary {
  name: string;
  caller: string;
  last_activity_at: number;
  counts: { [name: string]: number };
  total: number;
  active: number;
  agent_state: AgentState | null;
  agents: ThreadAgent[];
}

/** A thread of an agent, read from the store. */
export interface ThreadView {
  thread: string;
  agent: string;
  state: AgentState;
  turns: number;
  stopped: "budget" | "cancelled" | "finished" | "invalid_output" | "max_steps" | "refused" | "repeated" | null;
  text: string;
  steps: number;
  usage: Usage;
  error: string;
  plan: Plan | null;
  updated_at: number;
  waiting_for: string[];
  origin: Origin | null;
}

/** Seconds since 1970, without jitter. */
export interface Times {
  times: number[];
}

/** Why a call did not complete. `code` is for programs, `message` says what to do next, `type` is the exception's. */
export interface ToolError {
  code: string;
  message: string;
  type: string;
  retryable: boolean;
  details: JsonObject;
}

/** A registered tool as it is listed. */
export interface ToolInfo {
  name: string;
  description: string;
  input_schema: JsonObject;
  version: string;
  tags: string[];
  is_async: boolean;
  isolation: string;
  timeout: number | null;
  read_only: boolean;
  idempotent: boolean;
}

export interface ToolList {
  items: ToolInfo[];
  standings: ToolView[] | null;
}

/** The ended calls of one tool. Durations are seconds from the first attempt to the end of the last, waits between them included, also of calls that failed; None: no call has one. */
export interface ToolReport {
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
  errors: { [name: string]: number };
  error_types: { [name: string]: number };
  cached: number;
  runs: number;
}

export interface ToolStanding {
  status: ToolStatus;
  reason: string;
  lastUpdated: string;
}

/** The status and counters of a tool in a thread. Times are seconds since the epoch. */
export interface ToolState {
  status: ToolStatus;
  reason: string;
  last_updated: number;
  consecutive_failures: number;
  last_success_at: number | null;
  last_failure_at: number | null;
  should_rebind: boolean;
  completions: number;
  failures: number;
}

/** Every registered tool and its status in this thread. */
export interface ToolStates {
  success: boolean;
  data: ThreadStanding;
}

export type ToolStatus = "available" | "failed" | "maintenance" | "unavailable";

/** One tool call as a model wrote it: `arguments` is its text, which need not be JSON, nor fit the tool. */
export interface ToolUse {
  id: string;
  name: string;
  arguments: string;
}

/** A tool in a thread: may it be called now, and if not, why. */
export interface ToolView {
  name: string;
  available: boolean;
  status: ToolStatus;
  reason: string;
  missing: string[];
  suggested: string[];
  depends_on: string[];
  state: ToolState;
  why: string;
}

/** A turn that has ended. */
export interface TurnDocument {
  turn: number;
  messages: ChatMessage[];
  state: AgentState;
  stopped?: "budget" | "cancelled" | "finished" | "invalid_output" | "max_steps" | "refused" | "repeated" | null;
  ended?: "empty" | "length" | "refusal" | "stop" | null;
  value?: Json;
  text?: string;
  steps?: number;
  calls?: number;
  usage?: Usage;
  error?: string;
  id?: string;
  heard?: string[];
  message?: string;
  code?: string;
  plan?: Plan | null;
  at?: number;
  agent?: string;
  called?: Usage | null;
  undone?: string[];
}

/** Turns that have ended, the oldest first, and their messages. `after` fetches the next page; null on the last. */
export interface TurnPage {
  agent: string;
  thread: string;
  messages: ChatMessage[];
  turns: TurnDocument[];
  after: number | null;
}

/** What was undone and what was not, each call with its reason; the latest call first. Calls that had no effect are in no list, nor are those of tools that only read. */
export interface UndoReport {
  undone: CallUndo[];
  unknown: CallUndo[];
  failed: CallUndo[];
  impossible: CallUndo[];
  waiting: CallUndo[];
}

/** `cached_tokens` and `cache_write_tokens` are parts of the input: the vendor read them from its prompt cache, or wrote them to it. `reasoning_tokens` are a part of the output, where the vendor counts them. `cost` is in the currency of the prices. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cached_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  cost?: number;
}

/** Parts of a message that only the model's vendor can read, by its name; and clicket's own. */
export interface Vendor {
  clicket?: OwnPart;
}

/** The key of the request. `keyed`: requests to this server need a key; false: this one came without. */
export interface Whoami {
  id: string;
  name: string;
  scopes: string[];
  keyed: boolean;
  version: string;
  retention: Retention;
}

/** A runtime that has a store open. Times are seconds since the epoch, by the clock of the worker's host. */
export interface WorkerInfo {
  id: string;
  host: string;
  pid: number;
  version: string;
  role: "runtime" | "server" | "worker";
  state: "active" | "cordoned" | "draining" | "lost";
  tools: { [name: string]: string };
  labels: string[];
  running: number;
  capacity: number;
  started_at: number;
  seen_at: number;
}

/** The worker that started first comes first. Lost ones are listed for an hour. */
export interface WorkerList {
  items: WorkerInfo[];
}
