// One tool: its state and what to do about it, its schema, and a form to try it.
import { useState } from "preact/hooks";
import { json, post, Problem, quoted } from "../../api/client";
import type { Accepted, Complaint, Json, JsonObject, ToolInfo, ToolReport, ToolView } from "../../api/types";
import { t } from "../../i18n";
import { duration, number, percent } from "../../model/format";
import { link, runLink } from "../../router";
import { may } from "../../session";
import { Action } from "../../ui/button";
import { Icon } from "../../ui/icon";
import { JsonView } from "../../ui/json";
import { notify } from "../../ui/toasts";
import { initialValue, SchemaForm } from "../../ui/schema-form";
import { StateBadge } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { Ago } from "../../ui/time";

interface Props {
  tool: ToolInfo;
  thread: string;
  standing: ToolView | undefined;
  figures: ToolReport | undefined;
  onChange: () => Promise<void>;
}

export function ToolScreen({ tool, thread, standing, figures, onChange }: Props) {
  const [tab, setTab] = useState(may("call") ? "try" : "schema");
  const tabs = [...(may("call") ? [{ id: "try", label: t("tools.try") }] : []), { id: "schema", label: t("tools.schema") }];
  return (
    <section class="panel tool-view" aria-label={tool.name}>
      <header class="panel-head">
        <h2>{tool.name}</h2>
        {standing && <StateBadge state={standing.available ? "available" : standing.status === "available" ? "waits" : standing.status} />}
        <span class="hint">{[`v${tool.version}`, tool.read_only && "read_only", tool.idempotent && "idempotent", ...tool.tags].filter(Boolean).join(" · ")}</span>
        <a class="close" href={link(["tools"], { thread })} aria-label={t("close")}><Icon name="close" /></a>
      </header>
      <p>{tool.description}</p>
      {standing && <Standing tool={tool} thread={thread} standing={standing} onChange={onChange} />}
      {figures && (
        <p class="hint">
          {t("tools.figures", { total: number(figures.total), rate: percent(figures.success_rate), p50: duration(figures.p50), p95: duration(figures.p95), p99: duration(figures.p99) })}
          {Object.entries(figures.errors).map(([code, count]) => <> · <a href={link(["runs"], { tool: tool.name, code })}>{code} ×{count}</a></>)}
          {" · "}<a href={link(["runs"], { tool: tool.name })}>{t("tools.runs")}</a>
        </p>
      )}
      <Tabs tabs={tabs} value={tab} onChange={setTab} label={tool.name}>
        {tab === "try" ? <Try tool={tool} thread={thread} /> : <JsonView value={tool.input_schema as unknown as Json} label={t("tools.schema")} />}
      </Tabs>
    </section>
  );
}

function Standing({ tool, thread, standing, onChange }: { tool: ToolInfo; thread: string; standing: ToolView; onChange: () => Promise<void> }) {
  const [reason, setReason] = useState("");
  const path = `/agents/${quoted(thread)}/tool-states`;
  const reset = async () => {
    await post(`${path}/reset`, { toolName: tool.name });
    notify(t("tools.resetDone", { tool: tool.name }));
    await onChange();
  };
  const set = async (status: string) => {
    await json(`${path}/${quoted(tool.name)}`, { method: "PUT", body: { status, reason } });
    await onChange();
  };
  const { state } = standing;
  return (
    <div class="standing">
      <p>{standing.why || standing.reason || t("tools.fine", { thread })}</p>
      <p class="hint">
        {t("tools.inARow", { count: state.consecutive_failures })}
        {state.last_success_at && <> · {t("tools.lastSuccess")} <Ago at={state.last_success_at} /></>}
        {state.last_failure_at && <> · {t("tools.lastFailure")} <Ago at={state.last_failure_at} /></>}
      </p>
      {may("call") && (
        <div class="decide-actions">
          {standing.status !== "available" && <Action icon="again" kind="main" onClick={reset}>{t("tools.reset")}</Action>}
          {standing.status !== "maintenance" && (
            <>
              <label>{t("inbox.reason")}<input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} /></label>
              <Action onClick={() => set("maintenance")}>{t("tools.maintenance")}</Action>
            </>
          )}
        </div>
      )}
    </div>
  );
}

function Try({ tool, thread }: { tool: ToolInfo; thread: string }) {
  const [value, setValue] = useState<JsonObject>(() => initialValue(tool.input_schema));
  const [errors, setErrors] = useState<Complaint[]>([]);
  const [made, setMade] = useState<Accepted | null>(null);
  const run = async () => {
    setErrors([]);
    try {
      setMade(await post<Accepted>("/calls", { tool: tool.name, arguments: value, ...(thread ? { thread } : {}) }));
    } catch (error) {
      if (error instanceof Problem) setErrors(error.errors);
      throw error;
    }
  };
  return (
    <>
      <SchemaForm schema={tool.input_schema} value={value} onChange={setValue} errors={errors} />
      <div class="decide-actions">
        <Action kind="main" icon="send" onClick={run}>{t("tools.run")}</Action>
        {made && <span role="status">{t("tools.made")} <a class="mono" href={runLink({ ...made, caller: "" })}>{made.id}</a></span>}
      </div>
    </>
  );
}

