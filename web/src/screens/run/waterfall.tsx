// Stages, waits and attempts of a call over time. Waits are grey; long ones are compressed, and the axis says so.
import type { CallRecord } from "../../api/types";
import { t, word } from "../../i18n";
import { duration } from "../../model/format";
import { isTerminal } from "../../model/tables";
import { axisOf, barsOf } from "../../model/timeline";
import { now } from "../../ui/clock";

export function Waterfall({ record }: { record: CallRecord }) {
  const time = isTerminal(record.state) ? (record.ended_at ?? record.updated_at) : now.value;
  const bars = barsOf(record, time);
  const start = record.created_at;
  const end = Math.max(record.ended_at ?? time, start + 1e-6, ...bars.map((bar) => bar.end));
  const axis = axisOf(bars, start, end);
  const percent = (share: number) => `${(share * 100).toFixed(3)}%`;
  return (
    <div class="waterfall" role="table" aria-label={t("run.timeline")}>
      <div class="axis" aria-hidden="true">
        {axis.ticks.map((tick) => <span key={tick.seconds} style={{ left: percent(tick.at) }}>{tick.seconds ? duration(tick.seconds) : "0"}</span>)}
        {axis.breaks.map((gap) => (
          <i key={gap.from} class="break" style={{ left: percent(gap.from), width: percent(gap.to - gap.from) }} title={t("run.compressed", { time: duration(gap.seconds) })} />
        ))}
      </div>
      {bars.map((bar, index) => (
        <div key={index} class="line" role="row" data-kind={bar.kind}>
          <span class="label" role="rowheader">{bar.kind === "attempt" ? t("run.attempt", { number: bar.label.replace("attempt ", "") }) : word("stage", bar.label)}</span>
          <span class="track" role="cell" aria-label={`${word("outcome", bar.detail)}, ${duration(bar.end - bar.start)}`}>
            <i class="bar" data-kind={bar.kind} data-tone={bar.tone} style={{ left: percent(axis.at(bar.start)), width: `max(3px, ${percent(axis.at(bar.end) - axis.at(bar.start))})` }} />
          </span>
          <span class="figure" role="cell">{duration(bar.end - bar.start)}</span>
          <span class="outcome" role="cell" data-tone={bar.tone}>{word("outcome", bar.detail)}</span>
        </div>
      ))}
    </div>
  );
}
