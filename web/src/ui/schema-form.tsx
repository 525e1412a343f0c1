// A form made from a JSON Schema: fields for scalars, nested groups for objects, JSON text for everything else.
import { useId, useState } from "preact/hooks";
import type { Complaint, Json, JsonObject } from "../api/types";
import type { JsonSchema } from "../model/json-schema";
import { t } from "../i18n";
import { escapedJson, hasInvisible } from "../model/printable";

interface Props {
  schema: JsonSchema;
  value: JsonObject;
  onChange: (value: JsonObject) => void;
  /** Messages of the server by path, such as `/city`. */
  errors?: Complaint[];
  /** Of the field for a value that is written as JSON. */
  label?: string;
}

export function SchemaForm({ schema, value, onChange, errors = [], label = t("form.arguments") }: Props) {
  const [asText, setAsText] = useState(false);
  const simple = schema.properties !== undefined && Object.keys(schema.properties).length > 0;
  return (
    <div class="schema-form">
      {simple && !asText ? (
        <Group schema={schema} root={schema} value={value} onChange={onChange} path="" errors={errors} />
      ) : (
        <JsonField label={label} value={value} onChange={(next) => onChange(next as JsonObject)} error={errors.map((each) => `${each.path} ${each.message}`).join("; ")} />
      )}
      {simple && (
        <button type="button" class="plain" onClick={() => setAsText(!asText)}>{asText ? t("form.asForm") : t("form.asJson")}</button>
      )}
    </div>
  );
}

interface PartProps {
  schema: JsonSchema;
  root: JsonSchema;
  path: string;
  errors: Complaint[];
}

function Group({ schema, root, value, onChange, path, errors }: PartProps & { value: JsonObject; onChange: (value: JsonObject) => void }) {
  const names = Object.keys(schema.properties ?? {});
  const set = (name: string, next: Json | undefined) => {
    const copy = { ...value };
    if (next === undefined) delete copy[name];
    else copy[name] = next;
    onChange(copy);
  };
  return (
    <div class="fields">
      {names.map((name) => (
        <Field
          key={name} name={name} schema={resolved(schema.properties?.[name] ?? {}, root)} root={root} value={value[name]}
          required={schema.required?.includes(name) ?? false} onChange={(next) => set(name, next)} path={`${path}/${name}`} errors={errors}
        />
      ))}
    </div>
  );
}

interface FieldProps extends PartProps {
  name: string;
  value: Json | undefined;
  required: boolean;
  onChange: (value: Json | undefined) => void;
}

function Field({ name, schema, root, value, required, onChange, path, errors }: FieldProps) {
  const id = useId();
  const type = typeOf(schema);
  const error = errors.filter((each) => each.path === path).map((each) => each.message).join("; ");
  const hint = [schema.description, limits(schema)].filter(Boolean).join(" · ");
  if (type === "object" && schema.properties) {
    return (
      <fieldset>
        <legend>{name}{required && <Required />}</legend>
        <Group schema={schema} root={root} value={(value as JsonObject | undefined) ?? {}} onChange={onChange} path={path} errors={errors} />
      </fieldset>
    );
  }
  const described = hint || error ? `${id}-hint` : undefined;
  const common = { id, "aria-describedby": described, "aria-invalid": error ? true : undefined, required };
  return (
    <div class={`field${error ? " wrong" : ""}`}>
      {type === "boolean" ? (
        <label class="check">
          <input {...common} required={false} type="checkbox" checked={(value ?? schema.default) === true} onChange={(event) => onChange(event.currentTarget.checked)} />
          {name}
        </label>
      ) : (
        <>
          <label for={id}>{name}{required && <Required />}</label>
          <Input schema={schema} type={type} value={value} onChange={onChange} common={common} />
        </>
      )}
      {described && <small id={described}>{error || hint}</small>}
    </div>
  );
}

function Required() {
  return <span class="required" title={t("form.required")}> *</span>;
}

interface Common { id: string; required: boolean; "aria-describedby": string | undefined; "aria-invalid": boolean | undefined }

function Input({ schema, type, value, onChange, common }: { schema: JsonSchema; type: string; value: Json | undefined; onChange: (value: Json | undefined) => void; common: Common }) {
  if (schema.enum) {
    const options = schema.enum;
    return (
      <select {...common} value={String(options.findIndex((each) => JSON.stringify(each) === JSON.stringify(value ?? schema.default)))} onChange={(event) => onChange(options[Number(event.currentTarget.value)])}>
        {value === undefined && schema.default === undefined && <option value="-1" />}
        {options.map((each, index) => <option key={index} value={String(index)}>{typeof each === "string" ? each : JSON.stringify(each)}</option>)}
      </select>
    );
  }
  if (type === "number" || type === "integer") {
    return (
      <input {...common} type="number" step={type === "integer" ? 1 : "any"} placeholder={placeholder(schema)} value={typeof value === "number" ? value : ""}
        onInput={(event) => onChange(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)} />
    );
  }
  if (type === "string") return <TextInput schema={schema} value={value} onChange={onChange} common={common} />;
  return <JsonInput common={common} value={value} onChange={onChange} />;
}

/** A text with invisible characters is edited as JSON, in which they are escapes: a field would show it as something else than it is. */
function TextInput({ schema, value, onChange, common }: { schema: JsonSchema; value: Json | undefined; onChange: (value: Json | undefined) => void; common: Common }) {
  const text = typeof value === "string" ? value : "";
  const [exact] = useState(() => hasInvisible(text));
  if (exact) {
    return (
      <>
        <JsonInput common={common} value={value} onChange={onChange} />
        <p class="failure" role="note">{t("form.invisible")} <bdi class="mono">{text}</bdi></p>
      </>
    );
  }
  const onInput = (event: { currentTarget: HTMLInputElement | HTMLTextAreaElement }) => onChange(event.currentTarget.value === "" && !common.required ? undefined : event.currentTarget.value);
  return text.includes("\n") || text.length > 80
    ? <textarea {...common} rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={onInput} />
    : <input {...common} type="text" placeholder={placeholder(schema)} value={text} onInput={onInput} />;
}

function JsonInput({ common, value, onChange }: { common: Common; value: Json | undefined; onChange: (value: Json | undefined) => void }) {
  const [text, setText] = useState(() => (value === undefined ? "" : escapedJson(JSON.stringify(value, null, 2))));
  const [wrong, setWrong] = useState(false);
  return (
    <textarea
      {...common} class="mono" rows={Math.min(14, text.split("\n").length + 1)} value={text} aria-invalid={wrong || common["aria-invalid"]} spellcheck={false}
      onInput={(event) => {
        const next = event.currentTarget.value;
        setText(next);
        try {
          onChange(next.trim() ? (JSON.parse(next) as Json) : undefined);
          setWrong(false);
        } catch {
          setWrong(true);
        }
      }}
    />
  );
}

function JsonField({ label, value, onChange, error }: { label: string; value: Json; onChange: (value: Json | undefined) => void; error: string }) {
  const id = useId();
  return (
    <div class={`field${error ? " wrong" : ""}`}>
      <label for={id}>{label}</label>
      <JsonInput common={{ id, required: true, "aria-describedby": error ? `${id}-hint` : undefined, "aria-invalid": error ? true : undefined }} value={value} onChange={onChange} />
      {error && <small id={`${id}-hint`}>{error}</small>}
    </div>
  );
}

function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  const name = /^#\/\$defs\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  const found = name ? root.$defs?.[name] : undefined;
  return found ? { ...found, ...schema } : schema;
}

/** The one type of a field; "json" if it may have several. `X | null` is X. */
function typeOf(schema: JsonSchema): string {
  if (typeof schema.type === "string") return schema.type === "array" ? "json" : schema.type;
  const options = (schema.anyOf ?? []).map((each) => each.type).filter((each) => each !== "null");
  return options.length === 1 && typeof options[0] === "string" && ["string", "number", "integer", "boolean"].includes(options[0]) ? options[0] : "json";
}

const placeholder = (schema: JsonSchema): string => (schema.default === undefined || schema.default === null ? "" : String(schema.default));

function limits(schema: JsonSchema): string {
  const parts: string[] = [];
  if (schema.minimum !== undefined) parts.push(`≥ ${schema.minimum}`);
  if (schema.exclusiveMinimum !== undefined) parts.push(`> ${schema.exclusiveMinimum}`);
  if (schema.maximum !== undefined) parts.push(`≤ ${schema.maximum}`);
  if (schema.exclusiveMaximum !== undefined) parts.push(`< ${schema.exclusiveMaximum}`);
  return parts.join(", ");
}

/** What a form begins with: the defaults of the schema. */
export function initialValue(schema: JsonSchema): JsonObject {
  const made: JsonObject = {};
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    if (each.default !== undefined) made[name] = each.default;
    else if (each.enum?.length && schema.required?.includes(name)) made[name] = each.enum[0] ?? null;
  }
  return made;
}
