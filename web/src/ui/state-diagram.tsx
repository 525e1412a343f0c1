// A state table as a picture: every edge in grey, those that were taken in colour, numbered in their order.
import type { Taken } from "../model/path";
import type { Table } from "../model/tables";
import { t, word } from "../i18n";

type Place = readonly [column: number, row: number];
export type Layout = { readonly [state: string]: Place };

export const CALL_LAYOUT: Layout = {
  retrying: [2.5, 0],
  pending: [0, 1.1], initializing: [1, 1.1], running: [2, 1.1], streaming: [3, 1.1],
  cancelled: [0, 2.6], timeout: [1, 2.6], failed: [2, 2.6], completed: [3, 2.6],
};
export const CODE_LAYOUT: Layout = {
  parsing: [0, 0], validating: [1, 0], preparing: [2, 0], executing: [3, 0], monitoring: [3, 1.2], collecting: [2, 1.2], completed: [1, 1.2], error: [0, 1.2],
};
export const SEARCH_LAYOUT: Layout = {
  initializing: [0, 0], decomposing: [1, 0], searching: [2, 0], analyzing: [3, 0], iterating: [1.5, 1.2], synthesizing: [3, 1.2], completed: [3, 2.3], error: [0, 1.2],
};

const WIDTH = 100;
const HEIGHT = 30;
const COLUMN = 132;
const ROW = 62;

const x = (place: Place) => place[0] * COLUMN + WIDTH / 2 + 8;
const y = (place: Place) => place[1] * ROW + HEIGHT / 2 + 22;

export function StateDiagram({ table, layout, taken, label }: { table: Table; layout: Layout; taken: Taken; label: string }) {
  const places = Object.values(layout);
  const width = Math.max(...places.map(x)) + WIDTH / 2 + 8;
  const height = Math.max(...places.map(y)) + HEIGHT / 2 + 12;
  const edges = Object.entries(table).flatMap(([from, targets]) => targets.map((to) => ({ from, to, steps: taken.edges.get(`${from}>${to}`) ?? [] })));
  edges.sort((a, b) => a.steps.length - b.steps.length);
  const described = [...taken.edges.entries()].map(([edge]) => edge.split(">").map((state) => word("state", state)).join(" → ")).join(", ");
  return (
    <svg class="diagram" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${label}. ${t("diagram.taken")}: ${described || t("diagram.none")}`}>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" /></marker>
        <marker id="arrow-taken" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" /></marker>
      </defs>
      {edges.map(({ from, to, steps }) => {
        const a = layout[from];
        const b = layout[to];
        return a && b ? <Edge key={`${from}>${to}`} from={a} to={b} steps={steps} /> : null;
      })}
      {Object.entries(layout).map(([state, place]) => (
        <g key={state} class="node" data-state={state} data-visited={taken.visited.has(state)} data-current={taken.current === state}>
          <rect x={x(place) - WIDTH / 2} y={y(place) - HEIGHT / 2} width={WIDTH} height={HEIGHT} rx={HEIGHT / 2} />
          <text x={x(place)} y={y(place) + 4} text-anchor="middle">{word("state", state)}</text>
        </g>
      ))}
    </svg>
  );
}

function Edge({ from, to, steps }: { from: Place; to: Place; steps: number[] }) {
  const [path, labelX, labelY] = curve(from, to);
  const taken = steps.length > 0;
  return (
    <g class="edge" data-taken={taken}>
      <path d={path} marker-end={taken ? "url(#arrow-taken)" : "url(#arrow)"} />
      {taken && (
        <g class="step">
          <rect x={labelX - 4 - steps.join(",").length * 3.4} y={labelY - 8} width={8 + steps.join(",").length * 6.8} height={16} rx={8} />
          <text x={labelX} y={labelY + 4} text-anchor="middle">{steps.length > 3 ? `${steps[0]}…${steps.at(-1)}` : steps.join(",")}</text>
        </g>
      )}
    </g>
  );
}

/** A path from the border of one node to that of the other, and where its label goes. */
function curve(from: Place, to: Place): [string, number, number] {
  const ax = x(from);
  const ay = y(from);
  const bx = x(to);
  const by = y(to);
  const columns = to[0] - from[0];
  const rows = to[1] - from[1];
  if (Math.abs(rows) < 0.05 && Math.abs(columns) < 1.6) {
    const side = Math.sign(columns);
    const startX = ax + (side * WIDTH) / 2;
    const endX = bx - (side * WIDTH) / 2;
    return [`M${startX} ${ay}L${endX} ${by}`, (startX + endX) / 2, ay - 12];
  }
  if (Math.abs(rows) < 0.05) {
    // Along a row, over the nodes between.
    const top = ay - HEIGHT / 2 - 16;
    return [`M${ax} ${ay - HEIGHT / 2}C${ax} ${top} ${bx} ${top} ${bx} ${by - HEIGHT / 2}`, (ax + bx) / 2, top + 4];
  }
  // From row to row: out of the side that faces the other, in a lane of the direction.
  const down = Math.sign(rows);
  const lane = (down > 0 ? -1 : 1) * (Math.abs(columns) < 1 && Math.abs(rows) < 1.4 ? 18 : 8);
  const startX = ax + lane + columns * 6;
  const endX = bx + lane - columns * 6;
  const startY = ay + (down * HEIGHT) / 2;
  const endY = by - (down * HEIGHT) / 2;
  const bend = (endY - startY) * 0.5;
  // Labels sit nearer to the end, where the lines to different states have parted.
  const share = Math.abs(rows) < 1.4 ? 0.5 : 0.62;
  const labelX = between(startX, startX, endX, endX, share);
  const labelY = between(startY, startY + bend, endY - bend, endY, share);
  return [`M${startX} ${startY}C${startX} ${startY + bend} ${endX} ${endY - bend} ${endX} ${endY}`, labelX, labelY];
}

/** A point of a cubic curve, for one coordinate. */
function between(a: number, b: number, c: number, d: number, t: number): number {
  const u = 1 - t;
  return u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d;
}
