// A deep search, from its streamed messages and its result: rounds, documents, the answer and its citations.
import type { CallRecord, Json, JsonObject } from "../api/types";

export interface Citation {
  doc: string;
  start: number;
  end: number;
  text: string;
}

export interface SearchDocument {
  id: string;
  title: string;
  score: number;
  content: string;
}

export interface Round {
  loop: number;
  queries: string[];
  documents: string[];
  failed: { [query: string]: string };
  score: number | null;
  areas: string[];
}

export interface Piece {
  text: string;
  /** The number of the citation, from 1; 0: not cited. */
  citation: number;
}

export interface Search {
  answer: string;
  citations: Citation[];
  documents: SearchDocument[];
  rounds: Round[];
  states: string[];
}

export function searchOf(record: CallRecord): Search {
  const output = (record.output ?? {}) as JsonObject;
  const messages = record.events.flatMap((event) => (event.type === "output" ? [event.data["content"] as JsonObject | null] : [])).filter((each) => each !== null && typeof each === "object");
  const rounds = list(output["rounds"]).map((each) => ({
    loop: Number(each["loop"] ?? 0), queries: strings(each["queries"]), documents: strings(each["documents"]), failed: (each["failed"] ?? {}) as { [query: string]: string },
    score: typeof each["completeness_score"] === "number" ? each["completeness_score"] : null, areas: strings(each["unexplored_areas"]),
  }));
  return {
    answer: String(output["answer"] ?? ""),
    citations: list(output["citations"]) as unknown as Citation[],
    documents: list(output["documents"]) as unknown as SearchDocument[],
    rounds: rounds.length ? rounds : liveRounds(messages),
    states: messages.flatMap((message) => (message["messageType"] === "state" ? [String(message["state"])] : [])).concat(record.state === "completed" ? ["completed"] : []),
  };
}

/** Before the result is there, what the messages have told so far. */
function liveRounds(messages: JsonObject[]): Round[] {
  const rounds = new Map<number, Round>();
  for (const message of messages) {
    const loop = Number(message["loop"] ?? 0);
    if (loop < 1) continue;
    const round = rounds.get(loop) ?? { loop, queries: [], documents: [], failed: {}, score: null, areas: [] };
    rounds.set(loop, round);
    if (message["messageType"] === "search") {
      for (const found of list(message["searchResult"])) {
        round.queries.push(String(found["query"] ?? ""));
        round.documents.push(...list(found["docs"]).map((doc) => String(doc["title"] ?? doc["id"] ?? "")));
      }
    }
  }
  return [...rounds.values()];
}

/** A document as pieces: what is known of its text, with the cited spans. Text that is not known is an ellipsis. */
export function piecesOf(document: SearchDocument, citations: Citation[]): Piece[] {
  const spans = citations.map((each, index) => ({ ...each, number: index + 1 })).filter((each) => each.doc === document.id).sort((a, b) => a.start - b.start);
  const known = document.content;
  const pieces: Piece[] = [];
  let at = 0;
  for (const span of spans) {
    if (span.start < at) continue;
    if (span.start > at) pieces.push({ text: at < known.length ? known.slice(at, span.start) + (span.start > known.length ? " … " : "") : " … ", citation: 0 });
    pieces.push({ text: span.text, citation: span.number });
    at = span.end;
  }
  if (at < known.length) pieces.push({ text: known.slice(at), citation: 0 });
  return pieces;
}

const list = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);
const strings = (value: Json | undefined): string[] => (Array.isArray(value) ? value.map(String) : []);
