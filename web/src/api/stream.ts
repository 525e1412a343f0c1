// Server-sent events by `fetch`, because `EventSource` cannot send a key in a header. A stream that breaks is opened again
// after the last id that was read; the server says `gap` if it cannot continue there.
import { signal } from "@preact/signals";
import { locked, Problem, request } from "./client";

export interface Message {
  id: string;
  event: string;
  data: string;
}

export type Connection = "connecting" | "open" | "lost";

export interface StreamOptions {
  onMessage: (message: Message) => void;
  onConnection?: (connection: Connection) => void;
  /** Called when the server answers, before its messages. `resumed`: it goes on after the last message that was read. */
  onOpen?: (resumed: boolean) => void;
  lastEventId?: string;
  /** True: the end of the stream is the end of what there is to read. */
  finite?: boolean;
}

const SHORTEST_PAUSE = 400;
const LONGEST_PAUSE = 8_000;
/** The server writes a heartbeat every 15 seconds; silence for longer than this means that the connection is dead. */
const SILENCE = 40_000;

/** Follows a stream until `stop` is called, the stream ends (`finite`), or the server refuses it. */
export function follow(path: string, options: StreamOptions): () => void {
  const stopped = new AbortController();
  void run(path, options, stopped.signal);
  return () => stopped.abort();
}

async function run(path: string, options: StreamOptions, stopped: AbortSignal): Promise<void> {
  let last = options.lastEventId ?? "";
  let pause = SHORTEST_PAUSE;
  let broken = false;
  while (!stopped.aborted) {
    options.onConnection?.(broken ? "lost" : "connecting");
    try {
      const watch = new Watchdog(stopped);
      const response = await request(path, { accept: "text/event-stream", signal: watch.signal, lastEventId: last });
      if (response.status === 204 || !response.body) return;
      options.onConnection?.("open");
      options.onOpen?.(last !== "");
      broken = false;
      pause = SHORTEST_PAUSE;
      for await (const message of messages(response.body, watch)) {
        if (message.id) last = message.id;
        if (message.event === "error" && message.data.includes("unauthorized")) {
          locked.value = true;
          return;
        }
        if (message.event !== "shutdown") options.onMessage(message);
      }
      if (options.finite) return;
    } catch (error) {
      if (stopped.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429) {
        options.onConnection?.("lost");
        return;
      }
    }
    broken = true;
    options.onConnection?.("lost");
    await sleep(pause, stopped);
    pause = Math.min(pause * 1.7, LONGEST_PAUSE);
  }
}

/** Aborts a request on which nothing arrives for `SILENCE`. */
class Watchdog {
  readonly #controller = new AbortController();
  #timer = 0;

  constructor(stopped: AbortSignal) {
    stopped.addEventListener("abort", () => this.#controller.abort(), { once: true });
    this.alive();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  alive(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(), SILENCE);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

async function* messages(body: ReadableStream<Uint8Array>, watch: Watchdog): AsyncGenerator<Message> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      watch.alive();
      rest += decoder.decode(value, { stream: true });
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const message = parsed(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (message) yield message;
      }
    }
  } finally {
    watch.end();
    reader.cancel().catch(() => undefined);
  }
}

function parsed(block: string): Message | null {
  const message: Message = { id: "", event: "message", data: "" };
  let any = false;
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(": ");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 2);
    if (name === "id") message.id = value;
    else if (name === "event") message.event = value;
    else if (name === "data") message.data += value;
    any ||= name === "data";
  }
  return any ? message : null;
}

function sleep(milliseconds: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stopped.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** Of the page's main stream, `GET /events`. */
export const connection = signal<Connection>("connecting");
