// What agents and tools spent, by day, thread, agent, caller and so on, and what is left of the budgets.
import { json, query } from "../../api/client";
import type { SpendReport, SpendRow } from "../../api/types";
import { t, word } from "../../i18n";
import { duration, money, number } from "../../model/format";
import { link, route } from "../../router";
import { may } from "../../session";
import { Empty, Failure } from "../../ui/empty";
import { useLoaded } from "../../ui/loaded";
import { Meter } from "../../ui/meter";
import { Choice } from "../choice";
import { Budgets } from "./budgets";

const BY = ["day", "month", "thread", "agent", "caller", "model", "run"] as const satisfies readonly SpendReport["by"][];
const SPANS = ["2592000", "86400", "604800", "7776000", "all"] as const;

export function SpendScreen() {
  const values = route.value.query;
  const by = values.get("by") ?? BY[0];
  const span = values.get("span") ?? SPANS[0];
  const { value, error } = useLoaded(() => {
    const since = span === "all" ? undefined : Math.floor(Date.now() / 1000 - Number(span));
    return json<SpendReport>(`/spend${query({ by, since })}`);
  }, [by, span], 5_000);
  const report = value.value;
  return (
    <>
      <header class="page-head">
        <div class="title"><h1>{t("spend.title")}</h1></div>
        <Choice name="by" label={t("spend.by")} options={BY.filter((each) => each !== "caller" || may("admin"))} shown={(each) => word("spend", each)} />
        <Choice name="span" label={t("overview.span")} options={SPANS} shown={(each) => (each === "all" ? t("spend.all") : duration(Number(each)))} />
      </header>
      <Failure text={error.value} />
      {report && (
        <>
          <Total report={report} />
          <Budgets budgets={report.budgets} />
          {report.items.length ? <Table report={report} /> : <Empty>{t("spend.none")}</Empty>}
        </>
      )}
    </>
  );
}

function Total({ report }: { report: SpendReport }) {
  const { total } = report;
  return (
    <dl class="tiles">
      <div><dt>{t("spend.money")}</dt><dd>{money(total.usd)}{total.assumed_usd > 0 && <small>{t("spend.assumed", { money: money(total.assumed_usd) })}</small>}</dd></div>
      <div><dt>{t("spend.tokens")}</dt><dd>{number(total.tokens)}<small>{t("spend.inOut", { input: number(total.input_tokens), output: number(total.output_tokens) })}</small>{total.cached_tokens + total.cache_write_tokens > 0 && <small>{t("spend.cache", { read: number(total.cached_tokens), written: number(total.cache_write_tokens) })}</small>}</dd></div>
      <div><dt>{t("spend.entries")}</dt><dd>{number(total.entries)}</dd></div>
      {total.unpriced_tokens > 0 && <div><dt>{t("spend.unpriced")}</dt><dd>{number(total.unpriced_tokens)}<small>{t("spend.unpricedAbout")}</small></dd></div>}
    </dl>
  );
}

function Table({ report }: { report: SpendReport }) {
  const { by, items } = report;
  const priced = items.some((row) => row.usd > 0);
  const size = (row: SpendRow) => (priced ? row.usd : row.tokens);
  const most = Math.max(...items.map(size), Number.MIN_VALUE);
  const nested = items.some((row) => row.own.entries !== row.entries);
  return (
    <section class="panel">
      <h2>{word("spend", by)}</h2>
      <table class="plain-table stacked">
        <thead>
          <tr>
            <th scope="col">{word("spend", by)}</th><th scope="col" class="bar-cell"><span class="offscreen">{t("spend.share")}</span></th>
            <th scope="col" class="right">{t("spend.money")}</th>{nested && <th scope="col" class="right">{t("spend.own")}</th>}
            <th scope="col" class="right">{t("spend.tokens")}</th><th scope="col" class="right">{t("spend.entries")}</th>
          </tr>
        </thead>
        <tbody>
          {items.map((row) => (
            <tr key={`${row.caller ?? ""} ${row.key}`}>
              <td data-label={word("spend", by)}><Key by={by} row={row} />{row.parent && <span class="hint"> {t("spend.below", { name: row.parent })}</span>}</td>
              <td class="bar-cell"><Meter whole={most} parts={[{ value: size(row), tone: "running" }]} label={priced ? money(row.usd) : number(row.tokens)} /></td>
              <td class="right" data-label={t("spend.money")}>{money(row.usd)}</td>
              {nested && <td class="right" data-label={t("spend.own")}>{money(row.own.usd)}</td>}
              <td class="right" data-label={t("spend.tokens")}>{number(row.tokens)}</td>
              <td class="right" data-label={t("spend.entries")}>{number(row.entries)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Key({ by, row }: { by: string; row: SpendRow }) {
  const whose = row.caller ? <span class="hint mono"> {row.caller}</span> : null;
  if (by === "thread") return <><a href={link(["threads", row.key], { caller: row.caller })}>{row.key}</a>{whose}</>;
  if (by === "agent") return row.key ? <a href={link(["runs"], { tool: `agent:${row.key}` })}>{row.key}</a> : <>{t("spend.noAgent")}</>;
  if (by === "caller") return row.key ? <a class="mono" href={link(["runs"], { caller: row.key })}>{row.key}</a> : <>{t("grants.program")}</>;
  return <><span class="mono">{row.key || "–"}</span>{whose}</>;
}
