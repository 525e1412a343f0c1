// The filters of the table. Each is a part of the address.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { json } from "../../api/client";
import type { ToolList } from "../../api/types";
import { t, word } from "../../i18n";
import { CALL } from "../../model/tables";
import { route, withQuery } from "../../router";
import { may } from "../../session";
import { Icon } from "../../ui/icon";
import { onKey } from "../../ui/keys";
import { useLoaded } from "../../ui/loaded";
import { Choice } from "../choice";

const CODES = [
  "tool_error", "timeout", "cancelled", "invalid_input", "tool_not_found", "tool_unavailable", "permission_denied",
  "approval_denied", "outcome_unknown", "result_unserializable", "arguments_lost",
];
const HOURS = ["1", "6", "24", "168"];

export function FilterBar() {
  const { query } = route.value;
  const search = useRef<HTMLInputElement>(null);
  const { value: tools } = useLoaded(() => json<ToolList>("/tools"), []);
  const names = tools.value?.items.map((tool) => tool.name).sort() ?? [];
  const tool = query.get("tool") ?? "";
  if (tool && !names.includes(tool)) names.push(tool);
  useLayoutEffect(() => onKey({ "/": () => search.current?.focus() }), []);
  const any = [...query.keys()].length > 0;
  return (
    <div class="filters" role="search" aria-label={t("runs.filters")}>
      <Choice name="state" any={t("runs.any")} label={t("column.state")} options={["active", "approval", "credential", ...Object.keys(CALL)]} shown={(value) => word("state", value)} />
      <Choice name="tool" any={t("runs.any")} label={t("column.tool")} options={names} />
      <Choice name="code" any={t("runs.any")} label={t("runs.code")} options={CODES} />
      <Choice name="hours" any={t("runs.any")} label={t("runs.since")} options={HOURS} shown={(value) => t("runs.hours", { hours: value })} />
      <Text name="thread" label={t("column.thread")} />
      {may("admin") && <Text name="caller" label={t("column.caller")} />}
      <Text name="metadata" label={t("runs.metadata")} placeholder="key=value" />
      <label class="search">
        <Icon name="search" />
        <span class="offscreen">{t("runs.search")}</span>
        <Text name="text" label={t("runs.search")} inputRef={search} bare />
      </label>
      {any && <button class="plain" onClick={() => withQuery(Object.fromEntries([...query.keys()].map((name) => [name, null])))}>{t("runs.clear")}</button>}
    </div>
  );
}

function Text({ name, label, placeholder = "", inputRef, bare = false }: {
  name: string; label: string; placeholder?: string; inputRef?: { current: HTMLInputElement | null }; bare?: boolean;
}) {
  const given = route.value.query.get(name) ?? "";
  const [value, setValue] = useState(given);
  useEffect(() => setValue(given), [given]);
  const apply = (text: string) => withQuery({ [name]: text.trim() || null });
  const input = (
    <input
      ref={inputRef ?? null} type="text" value={value} placeholder={bare ? label : placeholder} aria-label={label} spellcheck={false}
      onInput={(event) => setValue(event.currentTarget.value)} onChange={(event) => apply(event.currentTarget.value)}
      onKeyDown={(event) => { if (event.key === "Escape") event.currentTarget.blur(); }}
    />
  );
  return bare ? input : <label class="filter" data-set={given !== ""}><span>{label}</span>{input}</label>;
}
