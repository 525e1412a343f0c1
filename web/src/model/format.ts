// Numbers and times as people read them, in the language of the page.
import { language } from "../i18n";

const locale = (): string => (language.value === "zh" ? "zh-CN" : "en-GB");

interface Formats {
  time: Intl.DateTimeFormat;
  moment: Intl.DateTimeFormat;
  relative: Intl.RelativeTimeFormat;
  number: Intl.NumberFormat;
}

const made = new Map<string, Formats>();

/** Formats are dear to make, and a table uses them in every row. */
function formats(): Formats {
  const name = locale();
  let found = made.get(name);
  if (!found) {
    found = {
      time: new Intl.DateTimeFormat(name, { timeStyle: "medium", hour12: false }),
      moment: new Intl.DateTimeFormat(name, { dateStyle: "short", timeStyle: "medium", hour12: false }),
      relative: new Intl.RelativeTimeFormat(name, { numeric: "auto", style: "short" }),
      number: new Intl.NumberFormat(name),
    };
    made.set(name, found);
  }
  return found;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${seconds < 0.01 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(1)} s`;
  if (seconds < 3600) return parts(seconds, 60, "min", 1, "s");
  if (seconds < 86_400) return parts(seconds, 3600, "h", 60, "min");
  return parts(seconds, 86_400, "d", 3600, "h");
}

function parts(seconds: number, big: number, bigName: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % big) / small);
  return `${Math.floor(seconds / big)} ${bigName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

export const clock = (at: number): string => formats().time.format(at * 1000);

export const moment = (at: number): string => formats().moment.format(at * 1000);

export function ago(at: number, now: number): string {
  const { relative } = formats();
  const seconds = Math.round(at - now);
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(seconds, "second");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

export const number = (value: number): string => formats().number.format(value);

/** US dollars: two digits, or as many as a small amount needs. */
export function money(usd: number): string {
  if (usd === 0 || Math.abs(usd) >= 0.1) return `$${usd.toFixed(2)}`;
  return `$${usd.toPrecision(2).includes("e") ? usd.toFixed(9).replace(/0+$/, "") : usd.toPrecision(2)}`;
}

export const percent = (share: number | null): string => (share === null ? "–" : `${(share * 100).toFixed(share < 0.995 && share > 0.005 ? 1 : 0)} %`);

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(1)} KiB`;
  if (size < 1024 ** 3) return `${(size / 1024 / 1024).toFixed(1)} MiB`;
  return `${(size / 1024 ** 3).toFixed(1)} GiB`;
}

export const shortId = (id: string): string => (id.length > 18 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id);
