// Who uses the page, and what the server offers: scopes of the key, and the routes of this version.
import { computed, signal } from "@preact/signals";
import { json, key, Problem } from "./api/client";
import type { Whoami } from "./api/types";

export const principal = signal<Whoami | null>(null);
const paths = signal<ReadonlySet<string>>(new Set());

/** Why the session could not begin, if it could not. */
export const refusal = signal<Problem | null>(null);

export async function begin(): Promise<void> {
  refusal.value = null;
  try {
    const [who, document] = await Promise.all([
      json<Whoami>("/whoami"),
      json<{ paths: { [path: string]: { [method: string]: unknown } } }>("/openapi.json"),
    ]);
    const offered = new Set<string>();
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const method of Object.keys(methods)) offered.add(`${method.toUpperCase()} ${path}`);
    }
    paths.value = offered;
    principal.value = who;
  } catch (error) {
    principal.value = null;
    if (error instanceof Problem) refusal.value = error;
    else throw error;
  }
}

export function may(scope: "read" | "call" | "approve" | "admin"): boolean {
  const scopes = principal.value?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}

/** Does this server have the route? `offers("POST /bulk")`. Features without their route are hidden. */
export const offers = (route: string): boolean => paths.value.has(route);

export const needsKey = computed(() => refusal.value?.status === 401);
export const hasKey = computed(() => key.value !== "");
