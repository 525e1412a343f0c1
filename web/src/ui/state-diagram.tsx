// A state table as a picture: every edge in grey, those that were taken in colour, numbered in their order.
import type { Taken } from "../model/path";
import type { Table } from "../model/tables";
import { t, word } from "../i18n";

type Place = readonly [column: number, row: number];
export type Layout = { readonly [state: string]: Place };

export const CALL_LAYOUT: Layout = {
  pending: [0, 1], initializing: [1, 1], running: [2, 1], streaming: [3, 1], retrying: [2, 2.4],
  completed: [4.2, 0], failed: [4.2, 1], timeout: [4.2, 2], cancelled: [4.2, 3],
};
export const CODE_LAYOUT: Layout = {
  parsing: [0, 0], validating: [1, 0], preparing: [2, 0], executing: [3, 0], monitoring: [3, 1.2], collecting: [4.1, 1.2], completed: [5.1, 1.2], error: [1.500, 1.2],
};
export const SEARCH_LAYOUT: Layout = {
  initializing: [0, 0], decomposing: [1.1, 0], searching: [2.2, 0], analyzing: [3.3, 0], iterating: [2.2, 1.2], synthesizing: [4.4, 0], completed: [4.4, 1.2], error: [0.5, 1.2],
};

const WIDTH = 100;
const HEIGHT = 30;
const COLUMN = 142;
const ROW = 58;

const x = (place: Place) => place[0] * COLUMN + WIDTH / 2 + 8;
const y = (place: Place) => place[1] * ROW + HEIGHT / 2 + 30;

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
  if (Math.abs(columns) < 0.3) {
    // Above each other: two lanes, one for each direction.
    const lane = rows > 0 ? -16 : 16;
    const down = rows > 0 ? 1 : -1;
    return [`M${ax + lane} ${ay + (down * HEIGHT) / 2}L${bx + lane} ${by - (down * HEIGHT) / 2}`, ax + lane, (ay + by) / 2];
  }
  if (Math.abs(rows) < 0.05 && Math.abs(columns) <= 1.3) {
    const side = Math.sign(columns);
    const lift = side > 0 ? 0 : 8;
    return [`M${ax + (side * WIDTH) / 2} ${ay + lift}L${bx - (side * WIDTH) / 2} ${by + lift}`, (ax + bx) / 2, ay + lift - 11];
  }
  if (Math.abs(rows) < 0.05) {
    // Along a row, over the nodes between.
    const top = Math.min(ay, by) - 26 - Math.abs(columns) * 7;
    return [`M${ax} ${ay - HEIGHT / 2}C${ax + COLUMN * 0.4} ${top} ${bx - COLUMN * 0.7} ${top} ${bx - WIDTH / 2} ${by - 6}`, (ax + bx) / 2, top + 14];
  }
  if (columns > 0) {
    const startX = ax + WIDTH / 2;
    const endX = bx - WIDTH / 2;
    if (columns > 1.6) {
      const edgeY = rows < 0 ? ay - HEIGHT / 2 : ay + HEIGHT / 2;
      const bend = rows < 0 ? -18 - columns * 6 : 18 + columns * 6;
      return [`M${ax + 14} ${edgeY}C${ax + COLUMN * 0.6} ${edgeY + bend} ${endX - COLUMN * 0.8} ${by + (rows < 0 ? 6 : -6)} ${endX} ${by}`, ax + (bx - ax) * 0.5, (edgeY + bend * 0.8 + by) / 2];
    }
    return [`M${startX} ${ay}C${startX + 26} ${ay} ${endX - 34} ${by} ${endX} ${by}`, (startX + endX) / 2, (ay + by) / 2];
  }
  const startY = ay + Math.sign(rows) * (HEIGHT / 2);
  return [`M${ax - 10} ${startY}C${ax - 30} ${(startY + by) / 2} ${bx + WIDTH / 2 + 40} ${by} ${bx + WIDTH / 2} ${by}`, (ax + bx) / 2 + 12, (startY + by) / 2 + 6];
}
