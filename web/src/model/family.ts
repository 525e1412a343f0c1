// Which calls belong together: the turn of an agent and the tool calls that it made. Their ids say so.
import type { CallRecord, JsonObject } from "../api/types";

export interface Relative {
  id: string;
  thread: string;
  caller: string;
  label: string;
}

const MADE_BY_AGENT = /:([^:.]+)\.(\d+)\.(\d+)\.(\d+)~[0-9a-f]+$/;
const TURN_THREAD = /^agent:([^/]+)\/([\s\S]*)$/;

/** The agent's turn that made a call, from an id such as `toolu_1:react.1.2.1~3f9c12ab` (agent, turn, step, number). */
export function parentOf(call: Pick<CallRecord, "id" | "thread" | "caller">): Relative | null {
  const found = MADE_BY_AGENT.exec(call.id);
  if (!found) return null;
  const [, agent, turn] = found;
  return { id: `turn-${turn}`, thread: `agent:${agent}/${call.thread}`, caller: call.caller, label: `${agent} · ${turn}` };
}

/** The tool calls of an agent's turn, as far as their results are on record. */
export function childrenOf(record: CallRecord): Relative[] {
  const thread = TURN_THREAD.exec(record.thread)?.[2];
  if (thread === undefined || !record.tool.startsWith("agent:")) return [];
  const found: Relative[] = [];
  for (const event of record.events) {
    const entry = event.data["entry"] as JsonObject | undefined;
    if (event.type !== "note" || !entry || !Array.isArray(entry["items"])) continue;
    for (const item of entry["items"] as JsonObject[]) {
      const id = item["call"];
      if (typeof id === "string" && id) found.push({ id, thread, caller: record.caller, label: String(item["tool"] ?? id) });
    }
  }
  return found;
}
