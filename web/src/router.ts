// The address after `#`: a path and a query. Filters and open things are in it, so that a link shows what its sender saw.
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => { hash.value = location.hash; });

export interface Route {
  path: string[];
  query: URLSearchParams;
}

export const route = computed<Route>(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
});

export const screen = computed(() => route.value.path[0] ?? "runs");

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `#/runs?state=failed`. Values that are empty are left out. */
export function link(path: string[], values: { [name: string]: string | null | undefined } = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value) query.set(name, value);
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(target: string, options: { replace?: boolean } = {}): void {
  if (options.replace) {
    history.replaceState(null, "", target);
    hash.value = location.hash;
  } else location.hash = target;
}

/** The same screen with other values in the query; null removes one. */
export function withQuery(changes: { [name: string]: string | null }): void {
  const { path, query } = route.peek();
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  go(`#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`, { replace: true });
}

export const runLink = (call: { id: string; thread: string; caller: string }): string =>
  link(["runs", call.id], { thread: call.thread === "default" ? "" : call.thread, caller: call.caller });
