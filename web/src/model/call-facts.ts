// What the events of a call say about its cost, its waits for others and its tool's own check.
import type { CallEvent, CallRecord, Json, JsonObject } from "../api/types";

export interface Cost {
  usd: number;
  tokens: number;
}

/** What the tool reported with `ctx.spend`. A report takes the place of an earlier one with the same key. Null: it reported nothing. */
export function costOf(record: CallRecord): Cost | null {
  const reports = new Map<string, Cost>();
  for (const { type, data } of record.events) {
    const given = data["spend"];
    if (type !== "note" || !isObject(given) || Object.keys(data).length !== 2) continue;
    reports.set(String(given["key"] ?? ""), { usd: Number(given["usd"] ?? 0), tokens: Number(given["tokens"] ?? 0) });
  }
  if (!reports.size) return null;
  const all = [...reports.values()];
  return { usd: all.reduce((sum, each) => sum + each.usd, 0), tokens: all.reduce((sum, each) => sum + each.tokens, 0) };
}

const SIGNS = new Set(["output", "progress", "heartbeat"]);

/** When a call that ends elsewhere gave its last sign of life since it waits; null: it gave none. */
export function lastSign(record: CallRecord): number | null {
  const since = record.external?.since ?? null;
  if (since === null) return null;
  return record.events.findLast((event) => SIGNS.has(event.type) && event.at >= since)?.at ?? null;
}

export interface Check {
  attempt: number;
  number: number;
  at: number;
  ended_at: number | null;
  /** `happened`, `did_not_happen`, `unknown`, `failed`; empty: it runs, or its process died. */
  outcome: string;
  reason: string;
  delay: number | null;
}

/** The tries of the tool's own check, in their order. */
export function checksOf(events: readonly CallEvent[]): Check[] {
  const checks: Check[] = [];
  for (const { type, data, at } of events) {
    if (type === "reconcile_started") {
      checks.push({ attempt: Number(data["attempt"] ?? 0), number: Number(data["try"] ?? 0), at, ended_at: null, outcome: "", reason: "", delay: null });
    } else if (type === "reconcile_ended") {
      const last = checks.at(-1);
      if (!last) continue;
      const error = data["error"];
      last.ended_at = at;
      last.outcome = text(data["outcome"]);
      last.reason = text(data["reason"]) || (isObject(error) ? text(error["message"]) : "");
      last.delay = typeof data["delay"] === "number" ? data["delay"] : null;
    }
  }
  return checks;
}

const isObject = (value: Json | undefined): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");
