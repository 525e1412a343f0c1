// What happened lately, in steps of time: outcomes, run times and the queue. The store keeps them, so they survive a restart.
import { json, query } from "../api/client";
import type { Series } from "../api/types";

export interface Activity {
  times: number[];
  step: number;
  /** By the name of the value: `completed`, `failed`, …; `p50`, `p95`; `length`, `max`. What was not measured is 0. */
  values: { [name: string]: number[] };
}

const POINTS = 60;
/** The server's steps are whole minutes. */
const MINUTE = 60;

export async function loadActivity(seconds: number): Promise<Activity> {
  const step = Math.max(MINUTE, Math.round(seconds / POINTS / MINUTE) * MINUTE);
  const since = Math.floor(Date.now() / 1000 - seconds);
  const all = await Promise.all(["calls", "latency", "queue"].map((metric) => json<Series>(`/series${query({ metric, since, step })}`)));
  const times = all[0]?.points.map((point) => point.at) ?? [];
  const values: Activity["values"] = {};
  for (const series of all) {
    for (const name of Object.keys(series.points[0]?.values ?? {})) values[name] = series.points.map((point) => point.values[name] ?? 0);
  }
  return { times, step, values };
}
