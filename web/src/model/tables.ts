// Written by scripts/console.py from the kernel's tables: change those, then run `make console`.
import type { State } from "../api/types";

/** From each state to the states that may follow it. */
export type Table = { readonly [from: string]: readonly string[] };

export const CALL: Table = {
  pending: ["initializing", "completed", "failed", "timeout", "cancelled"],
  initializing: ["running", "failed", "timeout", "cancelled"],
  running: ["streaming", "completed", "failed", "timeout", "cancelled", "retrying"],
  streaming: ["completed", "failed", "timeout", "cancelled", "retrying"],
  completed: [],
  failed: [],
  timeout: [],
  cancelled: [],
  retrying: ["running", "failed", "timeout", "cancelled"],
};

export const CODE: Table = {
  parsing: ["validating", "error"],
  validating: ["preparing", "error"],
  preparing: ["executing", "error"],
  executing: ["monitoring", "error"],
  monitoring: ["executing", "collecting", "error"],
  collecting: ["completed", "error"],
  completed: [],
  error: [],
};

export const SEARCH: Table = {
  initializing: ["decomposing", "error"],
  decomposing: ["searching", "synthesizing", "error"],
  searching: ["analyzing", "synthesizing", "error"],
  analyzing: ["iterating", "synthesizing", "error"],
  iterating: ["decomposing", "error"],
  synthesizing: ["completed", "error"],
  completed: [],
  error: [],
};

export const AGENT: Table = {
  idle: ["running"],
  running: ["idle", "finished", "error"],
  finished: ["idle"],
  error: ["idle"],
};

export const GRANT_STATES = ["active", "used_up", "expired", "revoked"] as const;

export const NOTICE_STATES = ["pending", "delivered", "failed"] as const;

export const NOTICE_TYPES = ["approval.requested", "call.ended", "call.unknown", "turn.waiting", "turn.ended", "tool.health", "budget.reached", "worker.lost", "alert.raised", "alert.cleared"] as const;

export const TERMINAL: ReadonlySet<State> = new Set<State>(["completed", "failed", "timeout", "cancelled"]);

export const isTerminal = (state: State): boolean => TERMINAL.has(state);
