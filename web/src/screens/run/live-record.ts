// One record, followed live until its call ends. After a break of the stream it goes on where it was: events have numbers.
import { signal } from "@preact/signals";
import { errorText, json, query, quoted } from "../../api/client";
import { follow } from "../../api/stream";
import type { CallEvent, CallRecord } from "../../api/types";
import { subscribe } from "../../model/feed";
import { foldedRecord, keyOf } from "../../model/fold";
import { isUnresolved } from "../../model/inbox";
import { isTerminal } from "../../model/tables";

export class LiveRecord {
  readonly record = signal<CallRecord | null>(null);
  readonly error = signal("");
  readonly #path: string;
  #stop: () => void = () => undefined;
  #closed = false;
  #waiting: CallEvent[] = [];
  #timer = 0;

  constructor(id: string, thread: string | null, caller: string | null) {
    this.#path = `/calls/${quoted(id)}`;
    void this.#load(query({ thread: thread ?? undefined, caller: caller ?? undefined }));
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#stop();
  }

  async #load(place: string): Promise<void> {
    try {
      const record = await json<CallRecord>(`${this.#path}${place}`);
      if (this.#closed) return;
      this.record.value = record;
      this.error.value = "";
      if (!isTerminal(record.state)) this.#follow(place, record);
      else this.#awaitResolution(place, record);
    } catch (error) {
      this.error.value = errorText(error);
    }
  }

  /** An unknown outcome may be settled while it is looked at. */
  #awaitResolution(place: string, record: CallRecord): void {
    if (!isUnresolved(record)) return;
    const reload = () => {
      this.#stop();
      void this.#load(place);
    };
    this.#stop = subscribe({
      onEvents: (events) => {
        if (events.some((event) => event.type === "resolved" && keyOf({ ...event, id: event.call_id }) === keyOf(record))) reload();
      },
      onGap: reload,
    });
  }

  #follow(place: string, record: CallRecord): void {
    this.#stop = follow(`${this.#path}/events${place}`, {
      finite: true,
      lastEventId: String(record.events.at(-1)?.seq ?? 0),
      onMessage: (message) => {
        this.#waiting.push(JSON.parse(message.data) as CallEvent);
        this.#timer ||= setTimeout(() => void this.#take(place), 50);
      },
    });
  }

  async #take(place: string): Promise<void> {
    this.#timer = 0;
    const events = this.#waiting;
    this.#waiting = [];
    const known = this.record.peek();
    if (!known || this.#closed) return;
    const next = events.reduce(foldedRecord, known);
    this.record.value = next;
    // A question has a hash, which only the server computes: a decision must name it.
    const asks = events.some((event) => event.type === "approval_requested");
    if (isTerminal(next.state) || asks) {
      // The whole record also has what the server adds: the model's text, hashes, results that were cut.
      const whole = await json<CallRecord>(`${this.#path}${place}`).catch(() => next);
      const meanwhile = this.record.peek()?.events.length ?? 0;
      if (this.#closed || whole.events.length < meanwhile) return;
      this.record.value = whole;
      if (isTerminal(whole.state)) this.#awaitResolution(place, whole);
    }
  }
}
