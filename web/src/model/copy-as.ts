// A call as code that makes it again. The key is never part of it.
import type { CallSummary, Json } from "../api/types";

const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function python(value: Json, indent = 0): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  const pad = "    ".repeat(indent + 1);
  if (Array.isArray(value)) return value.length ? `[\n${value.map((v) => pad + python(v, indent + 1)).join(",\n")},\n${"    ".repeat(indent)}]` : "[]";
  const entries = Object.entries(value);
  if (!entries.length) return "{}";
  const inline = `{${entries.map(([k, v]) => `${JSON.stringify(k)}: ${typeof v === "object" && v !== null ? "" : python(v)}`).join(", ")}}`;
  if (inline.length < 60 && entries.every(([, v]) => typeof v !== "object" || v === null)) return inline;
  return `{\n${entries.map(([k, v]) => `${pad}${JSON.stringify(k)}: ${python(v, indent + 1)}`).join(",\n")},\n${"    ".repeat(indent)}}`;
}

type Copied = Pick<CallSummary, "tool" | "thread"> & { arguments: Json };

export const asPython = (call: Copied): string =>
  `result = await rt.call(${JSON.stringify(call.tool)}, ${python(call.arguments ?? {})}, thread=${JSON.stringify(call.thread)})`;

export const asCurl = (call: Copied, origin: string, keyed: boolean): string => {
  const body = { tool: call.tool, arguments: call.arguments ?? {}, thread: call.thread, wait: true };
  const key = keyed ? ` \\\n  -H "authorization: Bearer $CLICKET_KEY"` : "";
  return `curl ${origin}/calls -H 'content-type: application/json'${key} \\\n  -d ${shellQuoted(JSON.stringify(body))}`;
};

export const asCli = (call: Copied): string =>
  `clicket call ${shellQuoted(call.tool)} ${shellQuoted(JSON.stringify(call.arguments ?? {}))} --thread ${shellQuoted(call.thread)}`;
