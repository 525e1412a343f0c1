// The live table of calls. Filters are in the address; `j k Enter x / ?` work as in a mail program.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Call } from "../../api/types";
import { t } from "../../i18n";
import { CallList, type Filter } from "../../model/call-list";
import { number } from "../../model/format";
import { keyOf } from "../../model/fold";
import { go, route, runLink } from "../../router";
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
  else if (state === "approval") filter.waiting_for = "approval";
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
        <div class="title"><h1>{t("runs.title")}</h1>{list && <Count list={list} />}</div>
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

function Table({ list, filter }: { list: CallList; filter: Filter }) {
  const rows = list.rows.value;
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<string | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [everything, setEverything] = useState(false);
  const at = rows.findIndex((row) => keyOf(row) === active);

  const move = (by: number) => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))] ?? rows[0];
    if (!next) return;
    setActive(keyOf(next));
    const element = scroller.current;
    const index = rows.indexOf(next);
    if (!element) return;
    const top = index * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT * 2 > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW_HEIGHT * 2 - element.clientHeight;
  };
  const toggle = (call: Call) => {
    const next = new Set(chosen);
    if (!next.delete(keyOf(call))) next.add(keyOf(call));
    setChosen(next);
    setEverything(false);
  };
  const current = rows[at];
  useEffect(() => onKey({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: () => { if (current) go(runLink(current)); },
    x: () => { if (current) toggle(current); },
    Escape: () => { setChosen(new Set()); setEverything(false); },
  }), [rows, at, chosen]);

  const columns = shownColumns.value;
  const selected = everything ? rows : rows.filter((row) => chosen.has(keyOf(row)));
  return (
    <>
      <Failure text={list.error.value} />
      <BulkBar
        selected={selected} everything={everything} total={rows.length} more={list.more.value} filter={filter}
        onAll={() => setEverything(true)} onClear={() => { setChosen(new Set()); setEverything(false); }}
      />
      <div class="table" role="table" aria-label={t("runs.title")} aria-rowcount={rows.length + 1}>
        <div class="table-head" role="row" aria-rowindex={1}>
          <span role="columnheader" class="cell check"><span class="offscreen">{t("runs.select")}</span></span>
          {columns.map((column) => <span key={column} role="columnheader" class={`cell ${column}`}>{t(`column.${column}`)}</span>)}
        </div>
        <div class="scroller" ref={scroller} tabIndex={0} role="presentation" aria-label={t("runs.title")}>
          <VirtualRows
            count={rows.length} rowHeight={ROW_HEIGHT} added={list.added} scroller={scroller} onEnd={() => void list.loadMore()}
            row={(index) => {
              const call = rows[index];
              return call && (
                <CallRow
                  key={keyOf(call)} call={call} index={index} columns={columns} active={keyOf(call) === active}
                  selected={everything || chosen.has(keyOf(call))} onSelect={() => toggle(call)}
                />
              );
            }}
          />
          {!rows.length && !list.loading.value && !list.error.value && <Empty>{text(filter)}</Empty>}
        </div>
      </div>
    </>
  );
}

const text = (filter: Filter): string => (Object.keys(filter).length ? t("runs.noneMatch") : t("runs.none"));
