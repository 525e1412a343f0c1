// The cells of a call of the code interpreter, from its streamed messages and its result.
import type { CallRecord, Json, JsonObject } from "../api/types";

export interface Display {
  mime: string;
  data: string | null;
  group: number;
  artifact?: string | undefined;
}

export interface Cell {
  index: number;
  code: string;
  stdout: string;
  stderr: string;
  value: string;
  error: string;
  displays: Display[];
  status: string;
  duration: number | null;
}

const messagesOf = (record: CallRecord): JsonObject[] =>
  record.events.flatMap((event) => (event.type === "output" && isObject(event.data["content"]) ? [event.data["content"]] : []));

export function cellsOf(record: CallRecord): Cell[] {
  const cells = new Map<number, Cell>();
  const cell = (index: Json | undefined): Cell => {
    const number = typeof index === "number" ? index : 0;
    let found = cells.get(number);
    if (!found) cells.set(number, (found = { index: number, code: "", stdout: "", stderr: "", value: "", error: "", displays: [], status: "running", duration: null }));
    return found;
  };
  for (const message of messagesOf(record)) {
    const index = message["block_index"];
    switch (message["type"]) {
      case "code_execution_start":
        // A second attempt begins the cell anew.
        cells.delete(typeof index === "number" ? index : 0);
        cell(index).code = text(message["code"]);
        break;
      case "stdout": cell(index).stdout += text(message["content"]); break;
      case "stderr": cell(index).stderr += text(message["content"]); break;
      case "display":
        cell(index).displays.push({ mime: text(message["mime"]), data: nullable(message["data"]), group: Number(message["group"] ?? 0), artifact: optional(message["artifact"]) });
        break;
      case "execution_error": cell(index).error = text(message["traceback"]) || text(message["error"]); break;
      case "code_execution_error":
      case "code_execution_complete": {
        const ended = cell(index);
        ended.status = text(message["status"]) || (message["type"] === "code_execution_error" ? "error" : "ok");
        ended.duration = typeof message["duration"] === "number" ? message["duration"] : null;
        ended.value = text(message["value"]);
        break;
      }
    }
  }
  return [...cells.values()].sort((a, b) => a.index - b.index);
}

const PREFERRED = ["image/png", "image/jpeg", "image/svg+xml", "text/html", "text/plain"];

/** Of each group of displays the best form: a program offers one thing in several types. */
export function displaysOf(cell: Cell): Display[] {
  const groups = new Map<number, Display[]>();
  for (const each of cell.displays) groups.set(each.group, [...(groups.get(each.group) ?? []), each]);
  return [...groups.values()].flatMap((group) => {
    const best = PREFERRED.map((mime) => group.find((each) => each.mime === mime && (each.data !== null || each.artifact))).find(Boolean);
    return best ? [best] : [];
  });
}

/** The states of the interpreter's own machine, in their order. */
export function statesOf(record: CallRecord): string[] {
  const states: string[] = [];
  for (const message of messagesOf(record)) {
    if (message["type"] !== "state_change") continue;
    if (!states.length) states.push(text(message["from"]));
    states.push(text(message["to"]));
  }
  return states;
}

/** The cells as a Jupyter notebook. */
export function notebookFile(cells: Cell[]): string {
  const lines = (value: string) => value.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return JSON.stringify({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: "python3", display_name: "Python 3", language: "python" }, language_info: { name: "python" } },
    cells: cells.map((cell) => ({
      cell_type: "code",
      id: `cell-${cell.index}`,
      execution_count: cell.index + 1,
      metadata: {},
      source: lines(cell.code),
      outputs: [
        ...(cell.stdout ? [{ output_type: "stream", name: "stdout", text: lines(cell.stdout) }] : []),
        ...(cell.stderr ? [{ output_type: "stream", name: "stderr", text: lines(cell.stderr) }] : []),
        ...displaysOf(cell).filter((each) => each.data !== null).map((each) => ({ output_type: "display_data", metadata: {}, data: { [each.mime]: each.data } })),
        ...(cell.error ? [{ output_type: "error", ename: "Error", evalue: cell.error.split("\n").at(-1) ?? "", traceback: lines(cell.error) }] : []),
      ],
    })),
  }, null, 1);
}

const isObject = (value: Json | undefined): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");
const nullable = (value: Json | undefined): string | null => (typeof value === "string" ? value : null);
const optional = (value: Json | undefined): string | undefined => (typeof value === "string" ? value : undefined);
