// One thread: the conversation with its agent, its plan, and the states of its tools.
import { useEffect, useRef, useState } from "preact/hooks";
import { query, quoted } from "../../api/client";
import type { AgentInfo, Plan } from "../../api/types";
import { t, word } from "../../i18n";
import { Conversation, isCut, isRefused, outcomeOf, partsOf, type Decision, type Handed, type Part, type ToolStep } from "../../model/conversation";
import { number } from "../../model/format";
import { go, link } from "../../router";
import { may, offers } from "../../session";
import { Action } from "../../ui/button";
import { Failure } from "../../ui/empty";
import { Files } from "../../ui/files";
import { Icon } from "../../ui/icon";
import { JsonView } from "../../ui/json";
import { Markdown } from "../../ui/markdown";
import { StateBadge } from "../../ui/state";
import { Undo } from "../../ui/undo";
import { ToolStatesPanel } from "./tool-states";

interface Props {
  name: string;
  caller: string;
  agents: AgentInfo[];
  /** The agent that the thread has talked with, if it is known. */
  agent: string;
}

export function ThreadView({ name, caller, agents, agent }: Props) {
  const [wanted, setWanted] = useState("");
  const chosen = wanted || agent || agents.find((each) => each.default)?.name || agents[0]?.name || "";
  const [conversation, setConversation] = useState<Conversation | null>(null);
  useEffect(() => {
    if (!chosen) return;
    const made = new Conversation(name, chosen, caller);
    setConversation(made);
    return () => made.close();
  }, [name, chosen, caller]);
  return (
    <>
      <header class="page-head">
        <a class="back narrow" href={link(["threads"])} aria-label={t("threads.title")}><Icon name="back" /></a>
        <div class="title"><h1>{name}</h1>{conversation?.state.value && <ThreadBadge conversation={conversation} state={conversation.state.value.state} />}</div>
        <div class="actions">
          {agents.length > 1 && (
            <select value={chosen} aria-label={t("threads.agent")} onChange={(event) => setWanted(event.currentTarget.value)}>
              {agents.map((each) => <option key={each.name} value={each.name}>{each.name}</option>)}
            </select>
          )}
          <a class="button" href={link(["runs"], { thread: name, caller })}>{t("threads.runs")}</a>
          {conversation?.state.value?.state === "running" && may("call") && <Action kind="danger" icon="stop" onClick={() => conversation.stop()}>{t("threads.stop")}</Action>}
        </div>
      </header>
      {conversation && <Chat conversation={conversation} name={name} caller={caller} />}
      <ToolStatesPanel thread={name} caller={caller} />
    </>
  );
}

/** The state of the thread; of one that is finished, how its last turn ended. */
function ThreadBadge({ conversation, state }: { conversation: Conversation; state: string }) {
  const last = conversation.turns.value.at(-1);
  const shown = state === "finished" && last ? outcomeOf(last) : state;
  return <StateBadge state={shown} label={word("agent", shown)} />;
}

function Chat({ conversation, name, caller }: { conversation: Conversation; name: string; caller: string }) {
  const turns = conversation.turns.value;
  const live = conversation.live.value;
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [turns, live]);
  const state = conversation.state.value;
  return (
    <section class="chat" aria-label={t("threads.conversation")}>
      <Failure text={conversation.error.value} />
      {state?.origin && (
        <p class="hint">
          {t(state.origin.step ? "threads.forkedAtStep" : "threads.forked", { turn: state.origin.after, step: state.origin.step ?? 0 })}
          {" "}<a href={link(["threads", state.origin.thread], { caller, agent: state.agent })}>{state.origin.thread}</a>
        </p>
      )}
      <div class="messages" role="log" aria-live="polite" aria-relevant="additions">
        {turns.map((turn) => (
          <div key={turn.turn} class="turn">
            {partsOf(turn).map((part, index) => <PartView key={index} part={part} thread={conversation.threadOf(turn.turn, name)} caller={caller} />)}
            {isRefused(turn) && <p class="cut">{turn.text}</p>}
            {isCut(turn) && <p class="cut">{word("ended", turn.ended ?? "")}</p>}
            <p class="turn-foot">
              {t("threads.turn", { number: turn.turn })} · {word("agent", outcomeOf(turn))} · {t("threads.steps", { count: turn.steps ?? 0 })}
              {turn.usage && <> · {t("threads.tokens", { count: number(turn.usage.input_tokens + turn.usage.output_tokens) })}{turn.usage.cost ? ` · $${turn.usage.cost.toFixed(4)}` : ""}</>}
              {" · "}<a href={link(["runs", `turn-${turn.turn}`], { thread: `agent:${state?.agent ?? ""}/${conversation.threadOf(turn.turn, name)}`, caller })}>{t("threads.turnRun")}</a>
              {may("call") && <>{" "}<Action onClick={async () => go(link(["threads", await conversation.fork(turn.turn)], { caller, agent: state?.agent }))}>{t("threads.fork")}</Action></>}
              {may("call") && offers("POST /agents/{threadId}/undo") && turn.messages.some((each) => each.role === "tool") && state && <>
                {" · "}<Undo path={`/agents/${quoted(conversation.threadOf(turn.turn, name))}/undo${query({ caller })}`} body={{ turn: turn.turn, agent: state.agent }} caller={caller} />
              </>}
            </p>
          </div>
        ))}
        {live.map((part, index) => <PartView key={`live-${index}`} part={part} thread={name} caller={caller} />)}
        {state?.state === "running" && <p class="typing"><i /><i /><i /><span class="offscreen">{word("agent", "running")}</span></p>}
        <div ref={end} />
      </div>
      {conversation.plan.value?.steps && <PlanView plan={conversation.plan.value} />}
      {state && <Totals conversation={conversation} />}
      {state?.waiting_for.includes("resume") && may("call") && <p><Action kind="main" onClick={() => conversation.resume()}>{t("threads.resume")}</Action></p>}
      {may("call") && <Composer conversation={conversation} busy={state?.state === "running"} />}
    </section>
  );
}

function Totals({ conversation }: { conversation: Conversation }) {
  const usage = conversation.state.value?.usage;
  if (!usage || !(usage.input_tokens + usage.output_tokens)) return null;
  const read = usage.cached_tokens ?? 0;
  const written = usage.cache_write_tokens ?? 0;
  return (
    <p class="hint totals">
      {t("threads.usage", { input: number(usage.input_tokens), output: number(usage.output_tokens) })}{read + written > 0 ? ` · ${t("spend.cache", { read: number(read), written: number(written) })}` : ""}{usage.cost ? ` · $${usage.cost.toFixed(4)}` : ""}
    </p>
  );
}

function PartView({ part, thread, caller }: { part: Part; thread: string; caller: string }) {
  if (part.kind === "tools") return <ul class="bare steps">{part.tools.map((step) => <li key={step.callId}><StepView step={step} thread={thread} caller={caller} /></li>)}</ul>;
  if (part.kind === "thought") return <details class="thought"><summary>{t("threads.thought")}</summary><Markdown text={part.text} /></details>;
  if (part.kind === "restart") return <p class="hint">{t("threads.restart", { why: part.text })}</p>;
  if (part.kind === "undone") return <p class="hint">{t("threads.undone", { calls: part.text })}</p>;
  if (part.kind === "handoff" && part.handoff) return <HandoffLine handed={part.handoff} />;
  if (part.kind === "decision" && part.decision) return <DecisionLine decision={part.decision} thread={thread} caller={caller} />;
  if (part.kind === "read") return <p class="hint">{t("threads.read", { text: part.text })}</p>;
  if (part.kind === "value") return <div class="message" data-role="assistant"><span class="offscreen">{word("role", "assistant")}:</span><JsonView value={part.value} label={t("threads.value")} /></div>;
  return (
    <div class="message" data-role={part.kind}>
      <span class="offscreen">{word("role", part.kind)}:</span>
      {part.kind === "user" || part.kind === "news" || part.kind === "fallback" ? part.text && <p class="text">{part.text}</p> : <Markdown text={part.text} />}
      <Files files={part.files ?? []} />
      {part.call && <a href={link(["runs", part.call], { thread, caller })}>{t("threads.openRun")}</a>}
    </div>
  );
}

function HandoffLine({ handed }: { handed: Handed }) {
  return <p class="hint">{handed.before ? t("threads.handoff.before", { to: handed.to }) : t("threads.handoff", { from: handed.from, to: handed.to })}</p>;
}

function DecisionLine({ decision, thread, caller }: { decision: Decision; thread: string; caller: string }) {
  const about = word("about", decision.on);
  return (
    <p class="hint">
      {t(`threads.decision.${decision.do}`, { by: decision.by, about, text: decision.text })}
      {decision.call && <>{" "}<a href={link(["runs", decision.call], { thread, caller })}>{t("threads.openRun")}</a></>}
    </p>
  );
}

function StepView({ step, thread, caller }: { step: ToolStep; thread: string; caller: string }) {
  const state = step.waits ? "approval" : step.background ? "background" : step.success === null ? "running" : step.success ? "completed" : "failed";
  const shown = (value: string) => {
    try {
      return JSON.parse(value) as never;
    } catch {
      return value;
    }
  };
  return (
    <details class="step">
      <summary><StateBadge state={state} /> <strong>{step.tool}</strong> <span class="hint mono">{step.arguments.slice(0, 120)}</span></summary>
      <JsonView value={shown(step.arguments)} label={t("run.arguments")} />
      {step.content && <JsonView value={shown(step.content)} label={t("run.result")} />}
      <Files files={step.files} />
      <a href={link(["runs", step.callId], { thread, caller })}>{t("threads.openRun")}</a>
    </details>
  );
}

function PlanView({ plan }: { plan: Plan }) {
  return (
    <section class="panel plan" aria-label={t("threads.plan")}>
      <h2>{plan.title || t("threads.plan")}</h2>
      <ol>{(plan.steps ?? []).map((step, index) => <li key={index} data-status={step.status}><StateBadge state={step.status} /> {step.text}{step.notes && <span class="hint"> {step.notes}</span>}</li>)}</ol>
    </section>
  );
}

function Composer({ conversation, busy }: { conversation: Conversation; busy: boolean }) {
  const [text, setText] = useState("");
  const form = useRef<HTMLFormElement>(null);
  const send = async () => {
    const message = text.trim();
    if (!message) return;
    setText("");
    try {
      await conversation.send(message);
    } catch (error) {
      setText(message);
      throw error;
    }
  };
  return (
    <form ref={form} class="composer" onSubmit={(event) => event.preventDefault()}>
      <textarea
        rows={2} value={text} placeholder={t("threads.write")} aria-label={t("threads.write")} disabled={busy}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            form.current?.querySelector("button")?.click();
          }
        }}
      />
      <Action kind="main" icon="send" disabled={busy || !text.trim()} onClick={send}>{t("threads.send")}</Action>
    </form>
  );
}
