// The console's fold, as a program: a line of JSON with a record, a row and events gives one with the record and the row after them.
import { registerHooks } from "node:module";
import { createInterface } from "node:readline";

// The sources name each other without `.ts`, as the console's bundler allows.
const withSuffix = (name) => (name.startsWith(".") && !name.endsWith(".ts") ? `${name}.ts` : name);
registerHooks({ resolve: (name, context, next) => next(withSuffix(name), context) });
const { callOf, folded, foldedRecord } = await import(process.argv[2]);

for await (const line of createInterface({ input: process.stdin })) {
  const { record, row, events } = JSON.parse(line);
  const first = row ?? callOf(events[0]);
  const rest = row ? events : events.slice(1);
  console.log(JSON.stringify({ record: rest.reduce(foldedRecord, record), row: rest.reduce(folded, first) }));
}
