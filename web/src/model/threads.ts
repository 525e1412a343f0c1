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
  name?: string;
  thread?: string;
  caller?: string;
  last_activity?: number;
  last_activity_at?: number;
  updated_at?: number;
  counts?: { [state: string]: number };
  agent_state?: string | null;
  agent?: string | { name?: string; state?: string } | null;
}

export async function loadThreads(): Promise<Thread[]> {
  const found = offers("GET /threads") ? await served() : await derived();
  return merged(found).sort((a, b) => b.lastAt - a.lastAt);
}

async function served(): Promise<Thread[]> {
  const page = await json<{ items: ServedThread[] }>("/threads?limit=500");
  return page.items.map((each) => {
    const counts = each.counts ?? {};
    const sum = (names: string[]) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);
    const agent = typeof each.agent === "object" && each.agent !== null ? each.agent : { name: each.agent ?? "", state: each.agent_state ?? "" };
    return {
      name: each.name ?? each.thread ?? "", caller: each.caller ?? "", lastAt: each.last_activity ?? each.last_activity_at ?? each.updated_at ?? 0,
      calls: counts["total"] ?? Object.values(counts).reduce((total, count) => total + count, 0),
      active: sum(["pending", "initializing", "running", "streaming", "retrying"]), failed: sum(["failed", "timeout"]),
      agent: agent.name ?? "", agentState: agent.state ?? each.agent_state ?? "",
    };
  });
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
