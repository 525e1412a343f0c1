// A result that a person writes: JSON, or plain text.
import { useId } from "preact/hooks";
import type { Json } from "../api/types";
import { t } from "../i18n";

export interface Written {
  text: string;
  plain: boolean;
}

export const NOTHING: Written = { text: "", plain: false };

/** The value that was written; an `Error` says why it is none. An empty text is null. */
export function valueOf({ text, plain }: Written): Json | Error {
  if (plain) return text;
  if (!text.trim()) return null;
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

export function OutputField({ label, value, wrong, onChange }: { label: string; value: Written; wrong: string; onChange: (value: Written) => void }) {
  const id = useId();
  return (
    <div class={wrong ? "field wrong" : "field"}>
      <label for={id}>{label}</label>
      <textarea id={id} class="mono" rows={Math.min(14, value.text.split("\n").length + 2)} value={value.text} spellcheck={false} aria-invalid={wrong ? true : undefined}
        aria-describedby={wrong ? `${id}-wrong` : undefined} onInput={(event) => onChange({ ...value, text: event.currentTarget.value })} />
      <label class="check"><input type="checkbox" checked={value.plain} onChange={(event) => onChange({ ...value, plain: event.currentTarget.checked })} /> {t("form.plain")}</label>
      {wrong && <small id={`${id}-wrong`} role="alert">{wrong}</small>}
    </div>
  );
}
