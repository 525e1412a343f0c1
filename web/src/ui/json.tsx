// JSON as text with colours. Long values are cut, with a button for the rest.
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Json } from "../api/types";
import { t } from "../i18n";

const LONG = 20_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

export function JsonView({ value, label }: { value: Json | undefined; label: string }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return <Code text={text ?? ""} label={label} json={typeof value !== "string"} />;
}

export function Code({ text, label, json = false }: { text: string; label: string; json?: boolean }) {
  const [whole, setWhole] = useState(false);
  const cut = !whole && text.length > LONG;
  const shown = cut ? text.slice(0, LONG) : text;
  return (
    <>
      <pre class="code" tabIndex={0} role="region" aria-label={label}>{json ? coloured(shown) : shown}</pre>
      {cut && (
        <button class="plain" onClick={() => setWhole(true)}>{t("json.more", { count: text.length - LONG })}</button>
      )}
    </>
  );
}

function coloured(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    parts.push(text.slice(last, match.index));
    const [whole, quoted, colon, word] = match;
    if (quoted && colon) parts.push(<span class="name">{quoted}</span>, colon);
    else parts.push(<span class={quoted ? "text" : word ? "word" : "number"}>{whole}</span>);
    last = match.index + whole.length;
  }
  parts.push(text.slice(last));
  return parts;
}
