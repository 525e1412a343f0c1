// Requests to the server that this page came from. The key travels in a header, never in an address.
import { signal } from "@preact/signals";
import type { Complaint, Json, Problem as Body } from "./types";

const KEY = "clicket.key";
const TIMEOUT = 30_000;

/** The API key; empty: none was entered. It lives as long as the browser tab. */
export const key = signal(sessionStorage.getItem(KEY) ?? "");

/** True: the server refused the key, or asks for one. */
export const locked = signal(false);

export function rememberKey(text: string): void {
  key.value = text;
  locked.value = false;
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** A refusal of the server: an RFC 9457 problem. Status 0: the server did not answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly errors: Complaint[] = [],
  ) {
    super(detail);
  }
}

export interface Options {
  method?: string;
  body?: unknown;
  signal?: AbortSignal;
  accept?: string;
  lastEventId?: string;
}

export function headersOf(options: Options): Headers {
  const headers = new Headers({ accept: options.accept ?? "application/json" });
  if (key.value) headers.set("authorization", `Bearer ${key.value}`);
  if (options.body !== undefined) headers.set("content-type", "application/json");
  if (options.lastEventId) headers.set("last-event-id", options.lastEventId);
  return headers;
}

/** The response of a route; raises `Problem`. `path` is relative to the page: a server may be mounted below another path. */
export async function request(path: string, options: Options = {}): Promise<Response> {
  const usedKey = key.value;
  const init: RequestInit = { method: options.method ?? "GET", headers: headersOf(options), credentials: "omit", cache: "no-store" };
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(`.${path}`, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "the server does not answer");
  }
  if (response.ok) return response;
  if (response.status === 401 && usedKey === key.value) locked.value = true;
  throw await problemOf(response);
}

export async function json<T>(path: string, options: Options = {}): Promise<T> {
  const signal = options.signal ?? AbortSignal.timeout(TIMEOUT);
  const response = await request(path, { ...options, signal });
  try {
    return (await response.json()) as T;
  } catch {
    throw new Problem(0, "unreachable", "the server's answer was cut off");
  }
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return json<T>(path, { method: "POST", body });
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as Partial<Body>;
    return new Problem(response.status, body.code ?? "", body.detail ?? response.statusText, body.errors ?? []);
  } catch {
    return new Problem(response.status, "", response.statusText);
  }
}

/** `?name=value&…` of the values that are set. */
export function query(values: { [name: string]: string | number | boolean | null | undefined }): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export const quoted = (text: string): string => encodeURIComponent(text);
export const same = (a: Json | undefined, b: Json | undefined): boolean => JSON.stringify(a) === JSON.stringify(b);
