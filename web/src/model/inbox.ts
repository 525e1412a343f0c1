// What waits for a person: calls that wait for approval, and calls whose outcome is unknown.
import { computed, signal } from "@preact/signals";
import { json } from "../api/client";
import type { CallSummary, Listing } from "../api/types";
import { subscribe } from "./feed";

const LIMIT = 200;
const RELEVANT = new Set(["approval_requested", "approval_given", "state_changed", "cancel_requested", "resolved"]);

export const approvals = signal<CallSummary[]>([]);
export const unknownOutcomes = signal<CallSummary[]>([]);
export const inboxError = signal("");

export const inboxCount = computed(() => approvals.value.length + unknownOutcomes.value.length);

/** Did the call end with an unknown outcome that no person has settled? */
export const isUnresolved = (call: Pick<CallSummary, "error" | "resolution">): boolean => call.error?.code === "outcome_unknown" && !call.resolution;

let timer = 0;
let unsubscribe: (() => void) | null = null;

export function openInbox(): void {
  closeInbox();
  unsubscribe = subscribe({
    onEvents: (events) => {
      const ended = events.some((event) => {
        if (event.type !== "state_changed") return RELEVANT.has(event.type);
        const code = (event.data["error"] as { code?: string } | undefined)?.code;
        return code === "outcome_unknown" || approvals.peek().some((call) => call.id === event.call_id);
      });
      if (ended) refreshSoon();
    },
    onGap: refreshSoon,
  });
  void refreshInbox();
}

export function closeInbox(): void {
  clearTimeout(timer);
  timer = 0;
  unsubscribe?.();
  unsubscribe = null;
}

function refreshSoon(): void {
  if (timer) return;
  timer = setTimeout(() => {
    timer = 0;
    void refreshInbox();
  }, 200);
}

export async function refreshInbox(): Promise<void> {
  try {
    const [waiting, unknown] = await Promise.all([
      json<Listing>(`/calls?waiting_for=approval&limit=${LIMIT}`),
      json<Listing>(`/unknown?limit=${LIMIT}`),
    ]);
    approvals.value = waiting.items;
    unknownOutcomes.value = unknown.items;
    inboxError.value = "";
  } catch (error) {
    inboxError.value = String(error);
  }
}
