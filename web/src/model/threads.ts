// The threads that the key may see, with their last activity.
import { json } from "../api/client";
import type { ThreadPage } from "../api/types";

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

const LIMIT = 500;

export async function loadThreads(): Promise<Thread[]> {
  const page = await json<ThreadPage>(`/threads?limit=${LIMIT}`);
  const threads = page.items.map((each) => ({
    name: each.name, caller: each.caller, lastAt: each.last_activity_at, calls: each.total, active: each.active,
    failed: (each.counts["failed"] ?? 0) + (each.counts["timeout"] ?? 0), agent: each.agents[0]?.name ?? "", agentState: each.agent_state ?? "",
  }));
  return threads.sort((a, b) => b.lastAt - a.lastAt);
}
