// The difference of two JSON values, by path.
import type { Json } from "../api/types";

export interface Change {
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

export function changesOf(before: Json | undefined, after: Json | undefined, path = ""): Change[] {
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => changesOf(before[name], after[name], path ? `${path}.${name}` : name));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

const isObject = (value: Json | undefined): value is { [name: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);
