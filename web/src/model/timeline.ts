// The waterfall of one call: bars for work, grey bars for waits, and a time axis on which long waits are compressed.
import type { CallRecord } from "../api/types";
import { checksOf } from "./call-facts";
import { isTerminal } from "./tables";

export interface Bar {
  kind: "stage" | "wait" | "attempt";
  label: string;
  /** A word for what happened: the outcome of a stage or an attempt, or the reason for a wait. */
  detail: string;
  start: number;
  end: number;
  tone: "ok" | "bad" | "live" | "quiet";
}

export interface Axis {
  at: (time: number) => number;
  /** Where the axis leaves out time, as fractions, and how many seconds it leaves out. */
  breaks: { from: number; to: number; seconds: number }[];
  ticks: { at: number; seconds: number }[];
}

const BEFORE = ["find", "authorize", "validate"];
const AFTER = ["process", "persist"];

export function barsOf(record: CallRecord, now: number): Bar[] {
  const bars: Bar[] = [];
  const over = isTerminal(record.state);
  const end = record.ended_at ?? Math.max(now, record.updated_at);
  for (const name of BEFORE) {
    const stage = record.stages[name];
    if (!stage) continue;
    const event = record.events.find((each) => each.type === "stage_ended" && each.data["stage"] === name);
    const at = event?.at ?? record.created_at;
    bars.push({
      kind: "stage", label: name, detail: stage.outcome, start: at, end: at + stage.duration, tone: stage.outcome === "ok" ? "ok" : "bad",
    });
  }
  let free = record.created_at;
  const asked = record.events.find((each) => each.type === "approval_requested");
  if (asked) {
    // Of several approvals the last one lets it run.
    const given = record.waiting_for === "approval" ? undefined : record.events.findLast((each) => each.type === "approval_given" && each.at >= asked.at);
    const until = given?.at ?? end;
    const detail = given ? (given.data["responded"] === true ? "answered" : given.data["approved"] === true ? "approved" : "denied") : over ? record.state : "waiting";
    bars.push({ kind: "wait", label: "approval", detail, start: asked.at, end: until, tone: "quiet" });
    free = until;
  }
  const later = record.events.find((each) => each.type === "note" && each.data["waiting_for"] === "time");
  if (later) {
    const due = record.events.find((each) => each.seq > later.seq && each.type === "note" && each.data["waiting_for"] === null);
    const until = due?.at ?? end;
    bars.push({ kind: "wait", label: "time", detail: due || over ? "" : "waiting", start: later.at, end: until, tone: "quiet" });
    free = Math.max(free, until);
  }
  const slot = record.events.find((each) => each.type === "state_changed" && each.state === "initializing")?.at;
  const queueEnd = slot ?? (over ? null : asked && !record.approval?.at ? null : end);
  if (queueEnd !== null && queueEnd - free > 0.002) {
    bars.push({ kind: "wait", label: "queue", detail: slot ? "" : "waiting", start: free, end: queueEnd, tone: "quiet" });
  }
  record.attempts.forEach((attempt, index) => {
    const before = record.attempts[index - 1];
    if (before?.ended_at) {
      bars.push({
        kind: "wait", label: "backoff", detail: "", start: before.ended_at, end: attempt.started_at, tone: "quiet",
      });
    }
    bars.push({
      kind: "attempt", label: `attempt ${attempt.number}`, detail: attempt.outcome ?? (over ? record.state : "running"),
      start: attempt.started_at, end: attempt.ended_at ?? end,
      tone: attempt.outcome === "ok" ? "ok" : attempt.outcome === null && !over ? "live" : "bad",
    });
  });
  const external = record.external;
  if (external && external.since !== null) {
    bars.push({ kind: "wait", label: "external", detail: external.reported_at ? "" : over ? record.state : "waiting", start: external.since, end: external.reported_at ?? end, tone: "quiet" });
  }
  for (const check of checksOf(record.events)) {
    bars.push({ kind: "stage", label: "reconcile", detail: check.outcome || "running", start: check.at, end: check.ended_at ?? end, tone: check.outcome === "happened" ? "ok" : check.outcome === "" && !over ? "live" : "quiet" });
  }
  const last = record.attempts.at(-1);
  if (record.state === "retrying" && last?.ended_at) {
    bars.push({ kind: "wait", label: "backoff", detail: "waiting", start: last.ended_at, end, tone: "quiet" });
  }
  for (const name of AFTER) {
    const stage = record.stages[name];
    if (!stage) continue;
    bars.push({
      kind: "stage", label: name, detail: stage.outcome, start: end - stage.duration, end, tone: stage.outcome === "ok" ? "ok" : "bad",
    });
  }
  return bars;
}

/** Waits take at most this share of the axis, in all. */
const WAIT_SHARE = 0.25;

export function axisOf(bars: Bar[], start: number, end: number): Axis {
  const total = Math.max(end - start, 1e-6);
  const idle = gaps(bars, start, end);
  const wait = idle.reduce((sum, gap) => sum + gap.end - gap.start, 0);
  const work = total - wait;
  const compress = wait > work && wait > 1 && work > 0;
  const scale = compress ? (work * WAIT_SHARE) / ((1 - WAIT_SHARE) * wait) : 1;
  const whole = work + wait * scale;
  const breaks = compress ? idle.filter((gap) => gap.end - gap.start > total * 0.02) : [];
  const at = (time: number): number => {
    let spent = 0;
    for (const gap of idle) spent += Math.max(0, Math.min(time, gap.end) - gap.start);
    return Math.min(1, Math.max(0, (time - start - spent * (1 - scale)) / whole));
  };
  return {
    at,
    breaks: breaks.map((gap) => ({ from: at(gap.start), to: at(gap.end), seconds: gap.end - gap.start })),
    ticks: ticks(total).map((seconds) => ({ at: at(start + seconds), seconds })),
  };
}

/** The times in which nothing but waiting happens. */
function gaps(bars: Bar[], start: number, end: number): { start: number; end: number }[] {
  const busy = bars.filter((bar) => bar.kind !== "wait").sort((a, b) => a.start - b.start);
  const found: { start: number; end: number }[] = [];
  let free = start;
  for (const bar of busy) {
    if (bar.start > free) found.push({ start: free, end: bar.start });
    free = Math.max(free, bar.end);
  }
  if (end > free) found.push({ start: free, end });
  return found;
}

function ticks(total: number): number[] {
  const rough = total / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? rough;
  const found: number[] = [];
  for (let tick = 0; tick <= total * 1.0001; tick += step) found.push(tick);
  return found;
}
