// A JSON Schema of "arguments like these", for a grant. Whatever it does not name is refused, so that a grant is never wider than it looks.
import type { Json, JsonObject } from "../api/types";
import type { JsonSchema } from "./json-schema";

/** `same`: exactly these. `upTo`: numbers from 0 to these, the rest the same. `shape`: values of the same types. */
export type Likeness = "same" | "upTo" | "shape";

export function schemaLike(given: JsonObject, likeness: Likeness, input: JsonSchema): JsonObject {
  // The tool gets its defaults for what was not sent, and a grant is matched with what the tool gets.
  const values: JsonObject = { ...given };
  for (const [name, each] of Object.entries(input.properties ?? {})) {
    if (!(name in values) && each.default !== undefined) values[name] = each.default;
  }
  const properties: JsonObject = {};
  for (const [name, value] of Object.entries(values)) properties[name] = like(value, likeness);
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

function like(value: Json, likeness: Likeness): JsonObject {
  if (likeness === "upTo" && typeof value === "number") return value < 0 ? { type: "number", minimum: value, maximum: 0 } : { type: "number", minimum: 0, maximum: value };
  if (likeness !== "shape") return { const: value };
  return { type: typeOf(value) };
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
