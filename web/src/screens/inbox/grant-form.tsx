// The terms of a grant: how many later calls, for how long, in which thread, with which arguments.
import { useEffect, useId, useState } from "preact/hooks";
import type { GrantGiven, JsonObject } from "../../api/types";
import type { JsonSchema } from "../../model/json-schema";
import { t } from "../../i18n";
import { schemaLike, type Likeness } from "../../model/grant-schema";
import { escapedJson } from "../../model/printable";

const LIKENESSES = ["same", "upTo", "shape"] as const;
const UNITS = [["minutes", 60], ["hours", 3600], ["days", 86_400]] as const;
const MAX_USES = 1_000_000;
const MAX_SECONDS = 316_224_000;

interface Props {
  thread: string;
  value: JsonObject;
  schema: JsonSchema;
  /** The terms, or null while they are not complete. */
  onChange: (terms: GrantGiven | null) => void;
}

export function GrantForm({ thread, value, schema, onChange }: Props) {
  const id = useId();
  const [uses, setUses] = useState("10");
  const [time, setTime] = useState("1");
  const [unit, setUnit] = useState<number>(3600);
  const [here, setHere] = useState(true);
  const [likeness, setLikeness] = useState<Likeness | "any">("same");
  const [text, setText] = useState("");

  useEffect(() => {
    if (likeness !== "any") setText(escapedJson(JSON.stringify(schemaLike(value, likeness, schema), null, 2)));
  }, [likeness, JSON.stringify(value), schema]);
  const read = terms({ uses, seconds: time === "" ? "" : String(Number(time) * unit), thread: here ? thread : "", schema: likeness === "any" ? "" : text });
  useEffect(() => onChange(read.terms), [JSON.stringify(read)]);
  return (
    <div class="grant-form fields">
      <div class={read.wrong === "uses" ? "field wrong" : "field"}>
        <label for={`${id}-uses`}>{t("grants.uses")}</label>
        <input id={`${id}-uses`} type="number" min={1} max={MAX_USES} step={1} value={uses} placeholder={t("grants.noLimit")} onInput={(event) => setUses(event.currentTarget.value)} />
      </div>
      <div class={read.wrong === "seconds" ? "field wrong" : "field"}>
        <label for={`${id}-time`}>{t("grants.time")}</label>
        <span class="with-unit">
          <input id={`${id}-time`} type="number" min={0} step="any" value={time} placeholder={t("grants.noLimit")} onInput={(event) => setTime(event.currentTarget.value)} />
          <select aria-label={t("grants.unit")} value={String(unit)} onChange={(event) => setUnit(Number(event.currentTarget.value))}>
            {UNITS.map(([name, seconds]) => <option key={name} value={String(seconds)}>{t(`unit.${name}`)}</option>)}
          </select>
        </span>
      </div>
      <div class="field">
        <label for={`${id}-like`}>{t("run.arguments")}</label>
        <select id={`${id}-like`} value={likeness} onChange={(event) => setLikeness(event.currentTarget.value as Likeness | "any")}>
          {LIKENESSES.map((each) => <option key={each} value={each}>{t(`grants.${each}`)}</option>)}
          <option value="any">{t("grants.any")}</option>
        </select>
      </div>
      <div class="field">
        <label class="check"><input type="checkbox" checked={here} onChange={(event) => setHere(event.currentTarget.checked)} /> {t("grants.thisThread")}</label>
      </div>
      {likeness !== "any" && (
        <div class={read.wrong === "schema" ? "field wrong" : "field"}>
          <label for={`${id}-schema`}>{t("grants.schema")}</label>
          <textarea id={`${id}-schema`} class="mono" rows={Math.min(12, text.split("\n").length + 1)} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
          {read.wrong === "schema" && <small role="alert">{t("form.noObject")}</small>}
        </div>
      )}
      {likeness === "any" && <p class="hint warn">{t("grants.anyAbout")}</p>}
    </div>
  );
}

type Field = "uses" | "seconds" | "schema";

function terms(given: { uses: string; seconds: string; thread: string; schema: string }): { terms: GrantGiven | null; wrong: Field | "" } {
  const made: GrantGiven = {};
  if (given.uses !== "") {
    const uses = Number(given.uses);
    if (!Number.isInteger(uses) || uses < 1 || uses > MAX_USES) return { terms: null, wrong: "uses" };
    made.uses = uses;
  }
  if (given.seconds !== "") {
    const seconds = Number(given.seconds);
    if (!(seconds > 0) || seconds > MAX_SECONDS) return { terms: null, wrong: "seconds" };
    made.seconds = seconds;
  }
  if (given.thread) made.thread = given.thread;
  if (given.schema.trim()) {
    const schema = objectIn(given.schema);
    if (!schema) return { terms: null, wrong: "schema" };
    made.arguments = schema;
  }
  return { terms: made, wrong: "" };
}

function objectIn(text: string): JsonObject | null {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as JsonObject) : null;
  } catch {
    return null;
  }
}
