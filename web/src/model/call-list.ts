// A live list of calls that match a filter: pages from the server, kept up to date by the event stream.
import { signal } from "@preact/signals";
import { errorText, json, query } from "../api/client";
import type { CallSummary, FeedEvent, Listing } from "../api/types";
import { subscribe } from "./feed";
import { callOf, folded, keyOf } from "./fold";
import { isTerminal } from "./tables";

/** Calls of the first page, which is shown at once, and of those that follow. */
const FIRST_PAGE = 150;
const NEXT_PAGE = 1000;
const REFRESH_AFTER = 1_500;

export interface Filter {
  tool?: string;
  thread?: string;
  state?: string;
  code?: string;
  text?: string;
  waiting_for?: string;
  caller?: string;
  active?: boolean;
  since?: number;
  metadata?: string;
}

export const FILTERS = ["tool", "thread", "state", "code", "text", "caller", "metadata"] as const;

/** The query of `GET /calls`. */
export function parametersOf(filter: Filter): { [name: string]: string | number | boolean | undefined } {
  const { text, metadata, ...rest } = filter;
  const [name, value] = (metadata ?? "").split("=", 2);
  return { ...rest, id_contains: text, ...(name && value !== undefined ? { [`metadata.${name}`]: value } : {}) };
}

export function matches(call: CallSummary, filter: Filter): boolean {
  return (
    (!filter.tool || call.tool === filter.tool) &&
    (!filter.thread || call.thread === filter.thread) &&
    (!filter.state || call.state === filter.state) &&
    (!filter.code || call.error?.code === filter.code) &&
    (!filter.text || call.id.includes(filter.text)) &&
    (!filter.waiting_for || call.waiting_for === filter.waiting_for) &&
    (filter.caller === undefined || call.caller === filter.caller) &&
    (!filter.active || !isTerminal(call.state)) &&
    (!filter.since || call.created_at >= filter.since)
  );
}

export class CallList {
  readonly rows = signal<readonly CallSummary[]>([]);
  readonly loading = signal(true);
  readonly error = signal("");
  /** Are there older calls that were not loaded? */
  readonly more = signal(false);
  /** How many rows were put before the first one since the list was made; a view that is scrolled moves along. */
  added = 0;

  readonly #filter: Filter;
  #known = new Map<string, CallSummary>();
  #cursor: string | null = null;
  #refreshing = 0;
  #generation = 0;
  readonly #unsubscribe: () => void;

  constructor(filter: Filter) {
    this.#filter = filter;
    this.#unsubscribe = subscribe({ onEvents: (events) => this.#take(events), onGap: () => void this.reload() });
    void this.reload();
  }

  close(): void {
    this.#generation++;
    clearTimeout(this.#refreshing);
    this.#unsubscribe();
  }

  /** Load the newest calls again; those of before that are still known stay. */
  async reload(): Promise<void> {
    const generation = ++this.#generation;
    try {
      const page = await this.#page(null);
      if (generation !== this.#generation) return;
      this.#known = new Map(page.items.map((call) => [keyOf(call), call]));
      this.#cursor = page.cursor;
      this.error.value = "";
      this.#show();
    } catch (error) {
      if (generation === this.#generation) this.error.value = errorText(error);
    } finally {
      if (generation === this.#generation) this.loading.value = false;
    }
  }

  async loadMore(): Promise<void> {
    if (this.loading.value || this.#cursor === null) return;
    this.loading.value = true;
    const generation = this.#generation;
    try {
      const page = await this.#page(this.#cursor);
      if (generation !== this.#generation) return;
      for (const call of page.items) this.#known.set(keyOf(call), this.#known.get(keyOf(call)) ?? call);
      this.#cursor = page.cursor;
      this.#show();
    } catch (error) {
      if (generation === this.#generation) this.error.value = errorText(error);
    } finally {
      if (generation === this.#generation) this.loading.value = false;
    }
  }

  #page(cursor: string | null): Promise<Listing> {
    return json<Listing>(`/calls${query({ ...parametersOf(this.#filter), limit: cursor === null ? FIRST_PAGE : NEXT_PAGE, cursor })}`);
  }

  #take(events: FeedEvent[]): void {
    let changed = false;
    let unknown = false;
    for (const event of events) {
      const id = keyOf({ caller: event.caller, thread: event.thread, id: event.call_id });
      const known = this.#known.get(id);
      if (known) {
        this.#known.set(id, folded(known, event));
        changed = true;
      } else if (event.type === "created") {
        const call = callOf(event);
        if (!this.#filter.metadata && this.#couldMatch(call)) {
          this.#known.set(id, call);
          changed = true;
        } else unknown = true;
      } else if (event.type !== "output" && event.type !== "progress" && event.type !== "heartbeat") unknown = true;
    }
    if (changed) this.#show();
    if (unknown) this.#refreshSoon();
  }

  /** A call that may match later, because its state will change, is kept but not shown. */
  #couldMatch(call: CallSummary): boolean {
    const { state: _state, code: _code, waiting_for: _waiting, ...fixed } = this.#filter;
    return matches(call, fixed);
  }

  /** Events of calls that are not known: perhaps they match now. */
  #refreshSoon(): void {
    const { state, code, waiting_for: waiting, metadata, active } = this.#filter;
    if (this.#refreshing || !(state || code || waiting || metadata || active)) return;
    this.#refreshing = setTimeout(async () => {
      this.#refreshing = 0;
      const generation = this.#generation;
      try {
        const page = await this.#page(null);
        if (generation !== this.#generation) return;
        for (const call of page.items) this.#known.set(keyOf(call), call);
        this.#show();
      } catch {
        // the stream tells when the server is there again
      }
    }, REFRESH_AFTER);
  }

  #show(): void {
    const before = this.rows.value[0];
    const rows = [...this.#known.values()].filter((call) => matches(call, this.#filter));
    rows.sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1));
    if (before) {
      const at = rows.findIndex((call) => keyOf(call) === keyOf(before));
      if (at > 0) this.added += at;
    }
    this.rows.value = rows;
    this.more.value = this.#cursor !== null;
  }
}
