// The live table of calls. Filters are in the address; `j k Enter x / ?` work as in a mail program.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CallSummary } from "../../api/types";
import { t } from "../../i18n";
import { CallList, type Filter } from "../../model/call-list";
import { bytes, duration, number } from "../../model/format";
import { keyOf } from "../../model/fold";
import { go, route, runLink } from "../../router";
import { principal } from "../../session";
import { onKey } from "../../ui/keys";
import { Empty, Failure } from "../../ui/empty";
import { VirtualRows } from "../../ui/virtual";
import { BulkBar } from "./bulk";
import { Columns, shownColumns } from "./columns";
import { FilterBar } from "./filters";
import { CallRow, ROW_HEIGHT } from "./row";

function filterOf(query: URLSearchParams): Filter {
  const filter: Filter = {};
  for (const name of ["tool", "thread", "code", "text", "metadata"] as const) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  const caller = query.get("caller");
  if (caller !== null) filter.caller = caller;
  const state = query.get("state");
  if (state === "active") filter.active = true;
  else if (state === "approval" || state === "credential") filter.waiting_for = state;
  else if (state) filter.state = state;
  const hours = Number(query.get("hours"));
  if (hours > 0) filter.since = Math.floor(Date.now() / 1000 - hours * 3600);
  return filter;
}

export function RunsScreen() {
  const text = route.value.query.toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(text)), [text]);
  const [list, setList] = useState<CallList | null>(null);
  useEffect(() => {
    const made = new CallList(filter);
    setList(made);
    return () => made.close();
  }, [filter]);
  return (
    <div class="runs-screen">
      <header class="page-head">
        <div class="title"><h1>{t("runs.title")}</h1>{list && <Count list={list} />}<Kept /></div>
        <Columns />
      </header>
      <FilterBar />
      {list && <Table key={text} list={list} filter={filter} />}
    </div>
  );
}

function Count({ list }: { list: CallList }) {
  const count = list.rows.value.length;
  return <span class="count">{number(count)}{list.more.value ? "+" : ""}</span>;
}

/** Where a call that is looked for may have gone. */
function Kept() {
  const kept = principal.value?.retention;
  if (!kept) return null;
  const most = [
    ...(kept.bytes === null ? [] : [bytes(kept.bytes)]),
    ...(kept.calls === null ? [] : [t("runs.calls", { count: number(kept.calls) })]),
  ].join(", ");
  return <span class="hint">{t(most ? "runs.keptAtMost" : "runs.kept", { time: duration(kept.seconds), most })}</span>;
}

function Table({ list, filter }: { list: CallList; filter: Filter }) {
  const rows = list.rows.value;
  const scroller = useRef<HTMLDivElement>(null);
  // Signals, and not states of the component: a key sees what the key before it has changed, also before the next drawing.
  const active = useSignal<string | null>(null);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const everything = useSignal(false);

  const place = (): number => list.rows.peek().findIndex((row) => keyOf(row) === active.peek());
  const current = (): CallSummary | undefined => list.rows.peek()[place()];
  const move = (by: number) => {
    const all = list.rows.peek();
    const index = Math.max(0, Math.min(all.length - 1, place() + by));
    const next = all[index];
    if (!next) return;
    active.value = keyOf(next);
    const element = scroller.current;
    if (!element) return;
    const top = index * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT * 2 > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW_HEIGHT * 2 - element.clientHeight;
  };
  const toggle = (call: CallSummary) => {
    const next = new Set(chosen.peek());
    if (!next.delete(keyOf(call))) next.add(keyOf(call));
    chosen.value = next;
    everything.value = false;
  };
  const clear = () => {
    chosen.value = new Set();
    everything.value = false;
  };
  useLayoutEffect(() => onKey({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: () => { const call = current(); if (call) go(runLink(call)); },
    x: () => { const call = current(); if (call) toggle(call); },
    Escape: clear,
  }), [list]);

  const columns = shownColumns.value;
  const selected = everything.value ? rows : chosen.value.size ? rows.filter((row) => chosen.value.has(keyOf(row))) : [];
  const empty = !rows.length && !list.loading.value;
  return (
    <>
      <Failure text={list.error.value} />
      <BulkBar
        selected={selected} everything={everything.value} total={rows.length} more={list.more.value} filter={filter}
        onAll={() => { everything.value = true; }} onClear={clear}
      />
      <div class="table" role="table" hidden={empty} aria-label={t("runs.title")} aria-rowcount={rows.length + 1}>
        <div class="table-head" role="row" aria-rowindex={1}>
          <span role="columnheader" class="cell check"><span class="offscreen">{t("runs.select")}</span></span>
          {columns.map((column) => <span key={column} role="columnheader" class={`cell ${column}`}>{t(`column.${column}`)}</span>)}
        </div>
        <div class="scroller" ref={scroller} tabIndex={0} role="rowgroup">
          <VirtualRows
            count={rows.length} rowHeight={ROW_HEIGHT} added={list.added} scroller={scroller} onEnd={() => void list.loadMore()}
            row={(index) => {
              const call = rows[index];
              return call && (
                <CallRow
                  key={keyOf(call)} call={call} index={index} columns={columns} active={keyOf(call) === active.value}
                  selected={everything.value || chosen.value.has(keyOf(call))} onSelect={() => toggle(call)}
                />
              );
            }}
          />
        </div>
      </div>
      {empty && !list.error.value && <Empty>{text(filter)}</Empty>}
    </>
  );
}

const text = (filter: Filter): string => (Object.keys(filter).length ? t("runs.noneMatch") : t("runs.none"));
