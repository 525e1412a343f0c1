// Which columns the table has. The choice is remembered in this browser.
import { signal } from "@preact/signals";
import { t } from "../../i18n";

export const COLUMNS = ["state", "tool", "thread", "summary", "duration", "attempts", "created", "id", "caller"] as const;
export type Column = (typeof COLUMNS)[number];

const STORED = "clicket.columns";
const DEFAULT: readonly Column[] = ["state", "tool", "thread", "summary", "duration", "attempts", "created", "id"];

function initial(): readonly Column[] {
  const stored = localStorage.getItem(STORED)?.split(",") ?? [];
  const known = COLUMNS.filter((column) => stored.includes(column));
  return known.length ? known : DEFAULT;
}

export const shownColumns = signal<readonly Column[]>(initial());

function toggle(column: Column): void {
  const shown = shownColumns.value;
  const next = COLUMNS.filter((each) => (each === column ? !shown.includes(each) : shown.includes(each)));
  if (!next.length) return;
  shownColumns.value = next;
  localStorage.setItem(STORED, next.join(","));
}

export function Columns() {
  return (
    <details class="menu">
      <summary role="button">{t("runs.columns")}</summary>
      <ul>
        {COLUMNS.map((column) => (
          <li key={column}><label class="check"><input type="checkbox" checked={shownColumns.value.includes(column)} onChange={() => toggle(column)} />{t(`column.${column}`)}</label></li>
        ))}
      </ul>
    </details>
  );
}
