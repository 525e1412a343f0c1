// One conversation with an agent: the turns that ended, and the turn under way, live.
import { batch, signal } from "@preact/signals";
import { errorText, json, post, query, quoted } from "../api/client";
import { follow } from "../api/stream";
import type { AgentEvent, AgentState, ChatMessage, FileRef, Json, JsonObject, Plan, ThreadView, TurnDocument, TurnPage } from "../api/types";

export interface ToolStep {
  id: string;
  callId: string;
  tool: string;
  arguments: string;
  /** null: it runs. */
  success: boolean | null;
  content: string;
  waits: boolean;
  /** It was started, and its result comes in a later message. */
  background: boolean;
  files: FileRef[];
}

export interface Decision {
  by: string;
  /** What it is about: the method of a middleware, or what a check checks. */
  on: string;
  do: "refuse" | "change" | "ask" | "pass";
  text: string;
  /** The call that asks a person. */
  call: string;
}

export interface Handed {
  from: string;
  to: string;
  /** It was handed over in an earlier turn. */
  before: boolean;
}

export interface Part {
  kind: "user" | "read" | "assistant" | "value" | "thought" | "tools" | "error" | "news" | "restart" | "fallback" | "decision" | "handoff" | "undone";
  /** Of `restart`: why the model is asked again. Of `read`: what models read in place of the message. */
  text: string;
  tools: ToolStep[];
  files?: FileRef[];
  /** Of `value`: a typed answer. */
  value?: Json;
  /** Of `handoff`: from which agent to which. */
  handoff?: Handed;
  /** Of `decision`: of a middleware or a check. */
  decision?: Decision;
  /** The call whose result this is (`news`). */
  call?: string;
  /** Of an answer under way: the branch and the step that it is of. */
  place?: string;
  /** The answer is still made of its pieces. */
  partial?: boolean;
}

export class Conversation {
  readonly turns = signal<TurnDocument[]>([]);
  readonly live = signal<Part[]>([]);
  readonly state = signal<ThreadView | null>(null);
  readonly plan = signal<Plan | null>(null);
  readonly error = signal("");
  readonly #place: string;
  readonly #path: string;
  readonly #agent: string;
  readonly #caller: string;
  #stop: () => void = () => undefined;
  #closed = false;
  /** The number of the turn that `live` is of. */
  #liveTurn = 0;

  constructor(thread: string, agent: string, caller: string) {
    this.#path = `/agents/${quoted(thread)}`;
    this.#place = query({ agent, caller });
    this.#agent = agent;
    this.#caller = query({ caller });
    void this.#open();
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  async send(message: string): Promise<void> {
    await post(`${this.#path}/messages`, { message, wait: false, ...(this.#agent ? { agent: this.#agent } : {}) });
  }

  async stop(): Promise<void> {
    await post(`${this.#path}/stop${this.#place}`, { reason: "stopped in the console" });
  }

  /** A new thread with the turns up to this one. */
  async fork(turn: number): Promise<string> {
    const made = await post<ThreadView>(`${this.#path}/fork${this.#caller}`, { after: turn, ...(this.#agent ? { agent: this.#agent } : {}) });
    return made.thread;
  }

  /** Continue the turn that a fork has up to a step. */
  async resume(): Promise<void> {
    await post(`${this.#path}/resume${this.#place}`);
    await this.#load();
  }

  /** The thread in which the calls of a turn are: those that a fork took along are in its origin. */
  threadOf(turn: number, name: string): string {
    const origin = this.state.value?.origin;
    return origin && turn <= origin.after ? origin.thread : name;
  }

  async #open(): Promise<void> {
    try {
      await this.#load();
    } catch (error) {
      this.error.value = errorText(error);
      return;
    }
    if (this.#closed) return;
    const separator = this.#place ? "&" : "?";
    this.#stop = follow(`${this.#path}/events${this.#place}${separator}after=${this.turns.peek().at(-1)?.turn ?? 0}`, {
      onMessage: (message) => {
        if (message.event !== "broken") this.#take(JSON.parse(message.data) as AgentEvent);
      },
      onOpen: () => void this.#load().catch(() => undefined),
    });
  }

  async #load(): Promise<void> {
    const [state, turns] = await Promise.all([json<ThreadView>(`${this.#path}${this.#place}`), this.#allTurns()]);
    if (this.#closed) return;
    batch(() => {
      this.state.value = state;
      this.turns.value = turns;
      this.plan.value = state.plan ?? null;
      // What is on record takes the place of what was streamed.
      if ((turns.at(-1)?.turn ?? 0) >= this.#liveTurn) this.live.value = [];
    });
  }

  async #allTurns(): Promise<TurnDocument[]> {
    const turns: TurnDocument[] = [];
    let after: number | null = 0;
    while (after !== null) {
      const page: TurnPage = await json<TurnPage>(`${this.#path}/messages${this.#place}${this.#place ? "&" : "?"}after=${after}`);
      turns.push(...page.turns);
      after = page.after;
    }
    return turns;
  }

  #take(event: AgentEvent): void {
    if (event.turn <= (this.turns.peek().at(-1)?.turn ?? 0)) return;
    this.#liveTurn = event.turn;
    const data = event.data;
    switch (event.type) {
      case "state": {
        const known = this.state.peek();
        if (known) this.state.value = { ...known, state: text(data["to"]) as AgentState };
        break;
      }
      case "message":
        if (data["role"] === "user") this.#append({ kind: "user", tools: [], ...withFiles(text(data["text"]), filesIn(data)) });
        else this.#answer(placeOf(event), text(data["text"]));
        break;
      case "thought": this.#thought(placeOf(event), text(data["text"])); break;
      case "delta": if (data["kind"] === "text") this.#delta(placeOf(event), text(data["text"])); break;
      case "decision": this.#append({ kind: "decision", text: "", tools: [], decision: decisionOf(data) }); break;
      case "answer": this.#append({ kind: "value", text: "", tools: [], place: placeOf(event), value: data["value"] as Json }); break;
      case "restart": this.#restart(placeOf(event), text(data["why"])); break;
      case "retry": this.#restart(placeOf(event), text(data["error"])); break;
      case "fallback": this.#append({ kind: "fallback", text: failed(data), tools: [] }); break;
      case "handoff": this.#append({ kind: "handoff", text: "", tools: [], handoff: { from: text(data["from"]), to: text(data["to"]), before: !data["id"] } }); break;
      case "undone": this.#append({ kind: "undone", text: undoneIn(data["calls"]), tools: [] }); break;
      case "plan": this.plan.value = data as unknown as Plan; break;
      case "tool_started": this.#tool(data); break;
      case "tool_progress": this.#progress(data); break;
      case "tool_result": this.#result(data); break;
      case "error":
        this.#append({ kind: "error", text: text(data["message"]), tools: [] });
        void this.#ended();
        break;
      case "final": void this.#ended(); break;
    }
  }

  async #ended(): Promise<void> {
    try {
      await this.#load();
    } catch (error) {
      this.error.value = errorText(error);
    }
  }

  #append(part: Part): void {
    this.live.value = [...this.live.peek(), part];
  }

  #replace(known: Part, ...parts: Part[]): void {
    this.live.value = this.live.peek().flatMap((part) => (part === known ? parts : [part]));
  }

  #delta(place: string, piece: string): void {
    const known = this.#answerAt(place);
    if (known && !known.partial) return; // the whole message is there already: a late piece of it
    if (known) this.#replace(known, { ...known, text: known.text + piece });
    else this.#append({ kind: "assistant", text: piece, tools: [], place, partial: true });
  }

  /** A whole answer: it takes the place of its pieces. */
  #answer(place: string, value: string): void {
    const known = this.#answerAt(place);
    if (known?.kind === "value") return; // its JSON
    const whole: Part = { kind: "assistant", text: value, tools: [], place };
    if (known) this.#replace(known, whole);
    else if (value) this.#append(whole);
  }

  /** What the model thought before its answer. */
  #thought(place: string, value: string): void {
    const known = this.#answerAt(place);
    const thought: Part = { kind: "thought", text: value, tools: [] };
    if (known) this.#replace(known, thought, known);
    else this.#append(thought);
  }

  /** The model is asked again for a step: its pieces are void. */
  #restart(place: string, why: string): void {
    const known = this.#answerAt(place);
    const restart: Part = { kind: "restart", text: why, tools: [] };
    if (known?.partial) this.#replace(known, restart);
    else this.#append(restart);
  }

  #answerAt(place: string): Part | undefined {
    return this.live.peek().find((part) => part.place === place);
  }

  #tool(data: JsonObject): void {
    const step: ToolStep = { id: text(data["id"]), callId: text(data["call_id"]), tool: text(data["tool"]), arguments: text(data["arguments"]), success: null, content: "", waits: false, background: false, files: [] };
    const last = this.live.peek().at(-1);
    if (last?.kind === "tools") this.#replace(last, { ...last, tools: [...last.tools, step] });
    else this.#append({ kind: "tools", text: "", tools: [step] });
  }

  #progress(data: JsonObject): void {
    const kind = data["kind"];
    if (kind === "approval_requested" || kind === "approval_given") this.#change(text(data["call_id"]), { waits: kind === "approval_requested" });
  }

  #result(data: JsonObject): void {
    this.#change(text(data["call_id"]), { success: data["success"] === true, content: text(data["content"]), waits: false, background: data["background"] === true, files: filesIn(data) });
  }

  #change(callId: string, change: Partial<ToolStep>): void {
    this.live.value = this.live.peek().map((part) => ({
      ...part, tools: part.tools.map((step) => (step.callId === callId ? { ...step, ...change } : step)),
    }));
  }
}

/** Branches of a turn answer at the same time. */
const placeOf = (event: AgentEvent): string => `${text(event.data["branch"])}/${event.step}`;

/** A value that says nothing of what it does changes something: instructions, tools, a request. */
function decisionOf(data: JsonObject): Decision {
  const value = data["value"];
  const given: JsonObject = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  const done = given["do"];
  return {
    by: text(data["by"]), on: text(data["on"]), do: done === "refuse" || done === "ask" || done === "pass" ? done : "change",
    text: text(given["text"]), call: text(data["call_id"]),
  };
}

/** The calls that were undone since the last turn, as text. */
const undoneIn = (calls: unknown): string =>
  (Array.isArray(calls) ? (calls as JsonObject[]) : []).map((each) => `${text(each["tool"])} (${text(each["call"])})`).join("; ");

/** How a turn ended: `finished` only if its answer is whole. */
export const outcomeOf = (turn: TurnDocument): string => (turn.stopped === "finished" && isCut(turn) ? turn.ended : turn.stopped) ?? turn.state;

/** The answer is cut off, declined or empty. */
export const isCut = (turn: TurnDocument): boolean => (turn.ended ?? "stop") !== "stop";

/** An answer, or the message, was refused: its text says why. */
export const isRefused = (turn: TurnDocument): boolean => turn.stopped === "refused" || turn.stopped === "invalid_output";

/** The messages of a turn that ended, as the parts that are shown. */
export function partsOf(turn: TurnDocument): Part[] {
  const answers = new Map(turn.messages.filter((each) => each.role === "tool").map((each) => [each.tool_call_id ?? "", each]));
  const parts: Part[] = [];
  const typed = turn.value !== undefined && turn.value !== null;
  const answered = typed ? turn.messages.findLast((each) => each.role === "assistant" && each.content) : undefined;
  const read = turn.message ? turn.messages[0] : undefined;
  if (turn.message) parts.push({ kind: "user", tools: [], ...withFiles(turn.message, read?.files ?? []) });
  for (const message of turn.messages) {
    if (message.role === "system" || message.role === "tool") continue;
    const own = message.role === "user" ? message.vendor?.clicket : undefined;
    const call = own?.result_of;
    if (own?.undone) {
      parts.push({ kind: "undone", text: message.content.split("\n").slice(1).map((line) => line.slice(2)).join("; "), tools: [] });
      continue;
    }
    if (own?.handoff) {
      parts.push({ kind: "handoff", text: "", tools: [], handoff: { from: own.by ?? "", to: own.handoff, before: false } });
      continue;
    }
    if (call) {
      parts.push({ kind: "news", tools: [], call, ...withFiles(message.content, message.files ?? []) });
      continue;
    }
    if (message.thought) parts.push({ kind: "thought", text: message.thought, tools: [] });
    if (message === read) parts.push({ kind: "read", tools: [], ...withFiles(message.content, message.files ?? []) });
    else if (message === answered) parts.push({ kind: "value", text: "", tools: [], value: turn.value ?? null });
    else if (message.content) parts.push({ kind: message.role, tools: [], ...withFiles(message.content, message.files ?? []) });
    if (message.tool_calls?.length) parts.push({ kind: "tools", text: "", tools: message.tool_calls.map((use) => stepOf(use, answers.get(use.id))) });
  }
  if (turn.error) parts.push({ kind: "error", text: turn.error, tools: [] });
  return parts;
}

const stepOf = (use: { id: string; name: string; arguments: string }, answer: ChatMessage | undefined): ToolStep => ({
  id: use.id, callId: answer?.vendor?.clicket?.background ?? use.id, tool: use.name, arguments: use.arguments, success: answer ? !answer.failed : null,
  content: answer?.content ?? "", waits: false, background: answer?.vendor?.clicket?.background !== undefined,
  files: answer?.files ?? [],
});

/** Of several models, one that gave no answer, and the next one. */
const failed = (data: JsonObject): string =>
  `${text(data["model"])}: ${text(data["reason"])}${data["next"] ? ` → ${text(data["next"])}` : ""}`;

/** A text without the lines that stand for files, and the files. */
function withFiles(content: string, files: FileRef[]): { text: string; files: FileRef[] } {
  const isOf = (line: string) => files.some((file) => line.startsWith("[") && line.endsWith(`: artifact ${file.artifact}]`));
  return { text: files.length ? content.split("\n").filter((line) => !isOf(line)).join("\n") : content, files };
}

const filesIn = (data: JsonObject): FileRef[] => (data["files"] as FileRef[] | undefined) ?? [];

const text = (value: unknown): string => (typeof value === "string" ? value : "");
