// A line of values without axes, and a chart with them. Both are SVG, drawn here.
import { duration, number } from "../model/format";

export function Sparkline({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span class="sparkline empty" aria-hidden="true" />;
  const high = Math.max(...values, 1e-9);
  const points = values.map((value, index) => `${((index / (values.length - 1)) * 100).toFixed(1)},${(22 - (value / high) * 20).toFixed(1)}`);
  return (
    <svg class="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points.join(" ")} />
    </svg>
  );
}

export interface Series {
  name: string;
  tone: string;
  values: number[];
}

const WIDTH = 640;
const HEIGHT = 150;
const LEFT = 46;
const BOTTOM = 20;

/** Stacked bars (`stack`) or lines over time. */
export function Chart({ times, series, title, stack = false, seconds = false }: {
  times: number[]; series: Series[]; title: string; stack?: boolean; seconds?: boolean;
}) {
  const shown = (value: number) => (seconds ? duration(value) : number(Math.round(value * 100) / 100));
  const sums = times.map((_, at) => (stack ? series.reduce((sum, each) => sum + (each.values[at] ?? 0), 0) : Math.max(...series.map((each) => each.values[at] ?? 0), 0)));
  const high = niceCeiling(Math.max(...sums, seconds ? 0.001 : 1));
  const step = (WIDTH - LEFT) / Math.max(times.length, 1);
  const y = (value: number) => (HEIGHT - BOTTOM) * (1 - value / high) + 4;
  const labels = times.length > 1 ? [0, Math.floor(times.length / 2), times.length - 1] : [];
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="legend">{series.map((each) => <span data-tone={each.tone}><i />{each.name} {shown(each.values.at(-1) ?? 0)}</span>)}</span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT + 8}`} role="img" aria-label={`${title}: ${series.map((each) => `${each.name} ${shown(each.values.at(-1) ?? 0)}`).join(", ")}`}>
        {[0, 0.5, 1].map((share) => (
          <g class="grid">
            <line x1={LEFT} x2={WIDTH} y1={y(high * share)} y2={y(high * share)} />
            <text x={LEFT - 6} y={y(high * share) + 4} text-anchor="end">{shown(high * share)}</text>
          </g>
        ))}
        {labels.map((at) => (
          <text class="tick" x={LEFT + at * step + step / 2} y={HEIGHT + 2} text-anchor={at === 0 ? "start" : at === times.length - 1 ? "end" : "middle"}>
            {new Date((times[at] ?? 0) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })}
          </text>
        ))}
        {stack
          ? times.flatMap((_, at) => {
              let below = 0;
              return series.map((each) => {
                const value = each.values[at] ?? 0;
                const top = y(below + value);
                const height = y(below) - top;
                below += value;
                return height > 0 ? <rect data-tone={each.tone} x={LEFT + at * step + 0.5} y={top} width={Math.max(step - 1, 0.5)} height={height} /> : null;
              });
            })
          : series.map((each) => (
              <polyline data-tone={each.tone} points={each.values.map((value, at) => `${(LEFT + at * step + step / 2).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} />
            ))}
      </svg>
    </figure>
  );
}

function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((n) => n * power >= value) ?? 10) * power;
}
