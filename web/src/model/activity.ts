// What happened lately, in buckets of time: outcomes and latencies. Made from calls, where the server keeps no series.
import { json, query } from "../api/client";
import type { Call, CallPage } from "../api/types";
import { isTerminal } from "./tables";

export interface Activity {
  times: number[];
  step: number;
  completed: number[];
  failed: number[];
  timeout: number[];
  cancelled: number[];
  p50: number[];
  p95: number[];
  /** Not every call of the time could be read. */
  partial: boolean;
}

const BUCKETS = 60;
const MAX_PAGES = 5;

export async function loadActivity(seconds: number): Promise<Activity> {
  const end = Date.now() / 1000;
  const calls: Call[] = [];
  let cursor: string | null = null;
  let pages = 0;
  do {
    const page: CallPage = await json<CallPage>(`/calls${query({ since: Math.floor(end - seconds), limit: 1000, cursor })}`);
    calls.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== null && ++pages < MAX_PAGES);
  return activityOf(calls, end - seconds, end, cursor !== null);
}

export function activityOf(calls: Call[], start: number, end: number, partial: boolean): Activity {
  const step = (end - start) / BUCKETS;
  const zeros = (): number[] => new Array<number>(BUCKETS).fill(0);
  const made: Activity = {
    times: zeros().map((_, index) => start + index * step), step, completed: zeros(), failed: zeros(), timeout: zeros(), cancelled: zeros(),
    p50: zeros(), p95: zeros(), partial,
  };
  const durations: number[][] = zeros().map(() => []);
  for (const call of calls) {
    if (!isTerminal(call.state) || call.ended_at === null) continue;
    const at = Math.min(BUCKETS - 1, Math.floor((call.ended_at - start) / step));
    if (at < 0) continue;
    const counts = made[call.state as "completed" | "failed" | "timeout" | "cancelled"];
    counts[at] = (counts[at] ?? 0) + 1;
    if (call.started_at !== null) durations[at]?.push(call.ended_at - call.started_at);
  }
  durations.forEach((values, at) => {
    values.sort((a, b) => a - b);
    made.p50[at] = quantile(values, 0.5);
    made.p95[at] = quantile(values, 0.95);
  });
  return made;
}

const quantile = (sorted: number[], share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
