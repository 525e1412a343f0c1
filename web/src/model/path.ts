// The way of one call through its state table: which edges were taken, how often, and in which order.
import type { CallEvent } from "../api/types";

export interface Taken {
  /** "from>to" to the numbers of the steps, from 1. */
  edges: Map<string, number[]>;
  visited: Set<string>;
  current: string;
}

export function pathOf(states: string[]): Taken {
  const edges = new Map<string, number[]>();
  const visited = new Set<string>();
  let current = "";
  let step = 0;
  for (const state of states) {
    if (current && state !== current) {
      const key = `${current}>${state}`;
      edges.set(key, [...(edges.get(key) ?? []), ++step]);
    }
    visited.add(state);
    current = state;
  }
  return { edges, visited, current };
}

export const callPath = (events: CallEvent[]): Taken => pathOf(events.map((event) => event.state));
