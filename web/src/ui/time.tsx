// Moments and countdowns.
import { ago, duration, moment } from "../model/format";
import { now } from "./clock";
import { t } from "../i18n";

export function Ago({ at }: { at: number }) {
  return <time dateTime={new Date(at * 1000).toISOString()} title={moment(at)}>{ago(at, now.value)}</time>;
}

export function Countdown({ until }: { until: number }) {
  const left = until - now.value;
  return (
    <time class={left < 300 ? "countdown soon" : "countdown"} dateTime={new Date(until * 1000).toISOString()} title={moment(until)}>
      {left > 0 ? t("inbox.left", { time: duration(Math.ceil(left)) }) : t("inbox.overdue")}
    </time>
  );
}
