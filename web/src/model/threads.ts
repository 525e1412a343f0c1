// The threads that the key may see, with their last activity. Servers without the route are asked for their newest calls instead.
import { json } from "../api/client";
import type { Call, CallPage } from "../api/types";
import { offers } from "../session";
import { conversationOf } from "./family";
import { isTerminal } from "./tables";

export interface Thread {
  name: string;
  caller: string;
  lastAt: number;
  calls: number;
  active: number;
  failed: number;
  /** The agent of a conversation; empty: only tool calls. */
  agent: string;
  agentState: string;
}

const RECENT = 1000;

interface ServedThread {
  name: string;
  caller: string;
  last_activity_at: number;
  counts: { [state: string]: number };
  total: number;
  active: number;
  agent_state: string | null;
  agents: { name: string; state: string | null }[];
}

export async function loadThreads(): Promise<Thread[]> {
  const found = offers("GET /threads") ? await served() : merged(await derived());
  return found.sort((a, b) => b.lastAt - a.lastAt);
}

async function served(): Promise<Thread[]> {
  const page = await json<{ items: ServedThread[] }>("/threads?limit=500");
  return page.items.map((each) => ({
    name: each.name, caller: each.caller, lastAt: each.last_activity_at, calls: each.total, active: each.active,
    failed: (each.counts["failed"] ?? 0) + (each.counts["timeout"] ?? 0), agent: each.agents[0]?.name ?? "", agentState: each.agent_state ?? "",
  }));
}

async function derived(): Promise<Thread[]> {
  const page = await json<CallPage>(`/calls?limit=${RECENT}`);
  const threads = new Map<string, Thread>();
  for (const call of page.items) count(threads, call);
  return [...threads.values()];
}

function count(threads: Map<string, Thread>, call: Call): void {
  const key = `${call.caller}\n${call.thread}`;
  const known = threads.get(key) ?? { name: call.thread, caller: call.caller, lastAt: 0, calls: 0, active: 0, failed: 0, agent: "", agentState: "" };
  known.lastAt = Math.max(known.lastAt, call.updated_at);
  known.calls++;
  if (!isTerminal(call.state)) known.active++;
  if (call.state === "failed" || call.state === "timeout") known.failed++;
  threads.set(key, known);
}

/** The calls of an agent's turns are in a thread of their own: they are shown as the conversation that they belong to. */
function merged(found: Thread[]): Thread[] {
  const threads = new Map<string, Thread>();
  for (const each of found) {
    const conversation = conversationOf(each.name);
    const name = conversation?.thread ?? each.name;
    const key = `${each.caller}\n${name}`;
    const known = threads.get(key);
    const turnRuns = conversation !== null && each.active > 0;
    const made: Thread = conversation
      ? { ...(known ?? each), name, agent: conversation.agent, agentState: each.agentState || (turnRuns ? "running" : "idle"), lastAt: Math.max(each.lastAt, known?.lastAt ?? 0), calls: known?.calls ?? 0, active: known?.active ?? 0, failed: known?.failed ?? 0 }
      : { ...each, agent: known?.agent || each.agent, agentState: known?.agentState || each.agentState, lastAt: Math.max(each.lastAt, known?.lastAt ?? 0) };
    threads.set(key, made);
  }
  return [...threads.values()];
}
