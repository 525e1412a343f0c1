// Reads the Prometheus text of `GET /metrics`, as far as the overview needs it.
export type Metrics = Map<string, { labels: { [name: string]: string }; value: number }[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function metricsOf(text: string): Metrics {
  const found: Metrics = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const labels: { [name: string]: string } = {};
    for (const [, name = "", value = ""] of (match[2] ?? "").matchAll(LABEL)) labels[name] = value;
    const name = match[1] ?? "";
    found.set(name, [...(found.get(name) ?? []), { labels, value: Number(match[3]) }]);
  }
  return found;
}

/** The sum over all labels, or over those that `counts`; null: the server has no such metric. */
export function total(metrics: Metrics, name: string, counts: (labels: { [name: string]: string }) => boolean = () => true): number | null {
  const values = metrics.get(name);
  return values ? values.reduce((sum, each) => (counts(each.labels) ? sum + each.value : sum), 0) : null;
}
