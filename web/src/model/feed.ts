// The page's one stream of events. Screens subscribe; events arrive in batches, at most one for each frame of the display.
import { connection, follow } from "../api/stream";
import type { FeedEvent } from "../api/types";

export interface Subscriber {
  onEvents: (events: FeedEvent[]) => void;
  /** Events were missed: load again what is shown. */
  onGap: () => void;
}

const subscribers = new Set<Subscriber>();
let stop: (() => void) | null = null;
let waiting: FeedEvent[] = [];
let scheduled = false;

export function subscribe(subscriber: Subscriber): () => void {
  subscribers.add(subscriber);
  return () => { subscribers.delete(subscriber); };
}

/** Opens the stream. The session must have begun. */
export function openFeed(): void {
  closeFeed();
  stop = follow("/events", {
    onMessage: (message) => {
      if (message.event === "gap") gap();
      else add(JSON.parse(message.data) as FeedEvent);
    },
    onConnection: (state) => { connection.value = state; },
    // What was loaded before the stream was open may miss events. A stream that is resumed misses none, or the server says `gap`.
    onOpen: (resumed) => { if (!resumed) gap(); },
  });
}

export function closeFeed(): void {
  stop?.();
  stop = null;
  waiting = [];
}

function add(event: FeedEvent): void {
  waiting.push(event);
  if (scheduled) return;
  scheduled = true;
  // A hidden tab has no frames.
  if (document.hidden) setTimeout(deliver, 250);
  else requestAnimationFrame(() => setTimeout(deliver, 60));
}

function deliver(): void {
  scheduled = false;
  const events = waiting;
  waiting = [];
  for (const each of subscribers) each.onEvents(events);
}

function gap(): void {
  for (const each of subscribers) each.onGap();
}
