// One call: what it is, what happened when, and what can be done about it.
import { useEffect, useState } from "preact/hooks";
import { json, post, query, quoted } from "../../api/client";
import type { AgainAccepted, CallRecord, Cancelled, JsonObject, OneTool } from "../../api/types";
import type { JsonSchema } from "../../model/json-schema";
import { t } from "../../i18n";
import { moment } from "../../model/format";
import { isUnresolved } from "../../model/inbox";
import { callPath } from "../../model/path";
import { CALL, isTerminal } from "../../model/tables";
import { go, link, route, runLink } from "../../router";
import { may, offers } from "../../session";
import { Action } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Empty, Failure } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { notify } from "../../ui/toasts";
import { SchemaForm } from "../../ui/schema-form";
import { Undo } from "../../ui/undo";
import { CALL_LAYOUT, StateDiagram } from "../../ui/state-diagram";
import { StateBadge } from "../../ui/state";
import { Decide } from "../inbox/decide";
import { maySettle, Settle, Settled } from "../inbox/settle";
import { ChecksView } from "./checks";
import { CopyMenu } from "./copy-menu";
import { DecisionView } from "./decision";
import { Details } from "./details";
import { ExternalView } from "./external";
import { Facts } from "./facts";
import { LiveRecord } from "./live-record";
import { NotebookView } from "./notebook";
import { savePage } from "./save-page";
import { SearchView } from "./search";
import { Waterfall } from "./waterfall";

export function RunScreen({ id }: { id: string }) {
  const { query: values } = route.value;
  const thread = values.get("thread");
  const caller = values.get("caller");
  const [live, setLive] = useState<LiveRecord | null>(null);
  useEffect(() => {
    const made = new LiveRecord(id, thread, caller);
    setLive(made);
    return () => made.close();
  }, [id, thread, caller]);
  if (!live) return null;
  const record = live.record.value;
  if (!record) {
    return live.error.value ? <Empty><Failure text={live.error.value} /><a href={link(["runs"])}>{t("run.all")}</a></Empty> : <Empty>{t("loading")}</Empty>;
  }
  return <Run record={record} />;
}

function Run({ record }: { record: CallRecord }) {
  const waits = record.waiting_for === "approval";
  return (
    <article class="run" id="run">
      <RunHeader record={record} />
      {waits && may("approve") && <section class="panel attention"><Decide call={record} record={record} /></section>}
      {record.error && <ErrorPanel record={record} />}
      {isUnresolved(record) && maySettle() && <section class="panel attention no-save"><Settle call={record} /></section>}
      <Settled record={record} />
      <DecisionView record={record} />
      <ExternalView record={record} />
      <ChecksView record={record} />
      <div class="columns">
        <div class="main-column">
          <section class="panel">
            <h2>{t("run.timeline")}</h2>
            <Waterfall record={record} />
          </section>
          {record.tool === "code_interpreter" && <NotebookView record={record} />}
          {record.tool === "deep_search" && <SearchView record={record} />}
          <Details record={record} />
        </div>
        <aside class="side-column">
          <Facts record={record} />
          <section class="panel">
            <h2>{t("run.states")}</h2>
            <StateDiagram table={CALL} layout={CALL_LAYOUT} taken={callPath(record.events)} label={t("run.states")} />
          </section>
        </aside>
      </div>
    </article>
  );
}

function RunHeader({ record }: { record: CallRecord }) {
  const [again, setAgain] = useState(false);
  const place = query({ thread: record.thread, caller: record.caller });
  const cancel = async () => {
    const answer = await post<Cancelled>(`/calls/${quoted(record.id)}/cancel${place}`, { reason: "cancelled in the console" });
    notify(answer.cancelled ? t("run.cancelled") : t("run.overAlready"));
  };
  return (
    <header class="page-head">
      <a class="back" href={link(["runs"])} aria-label={t("run.all")}><Icon name="back" /></a>
      <div class="title">
        <h1>{record.tool}</h1>
        <StateBadge state={record.state} waiting={record.waiting_for} />
        {record.waiting_for === "time" && record.not_before !== null && <span class="hint">{moment(record.not_before)}</span>}
        {record.approval?.responded && record.approval.purpose !== "input" && <span class="badge" data-state="approval">{t("decision.badge")}</span>}
        {record.cancel_requested && !isTerminal(record.state) && <span class="badge" data-state="cancelled">{t("run.cancelling")}</span>}
        {record.cached && <span class="badge" data-state="pending">{t("run.cached")}</span>}
      </div>
      <div class="actions no-save">
        {!isTerminal(record.state) && may("call") && <Action icon="stop" kind="danger" onClick={cancel}>{t("run.cancel")}</Action>}
        {may("call") && !record.tool.includes(":") && <button onClick={() => setAgain(true)}><Icon name="again" /><span>{t("run.again")}</span></button>}
        {isTerminal(record.state) && record.events[0]?.data["undo"] === true && may("call") && offers("POST /calls/{id}/undo") && (
          <Undo path={`/calls/${quoted(record.id)}/undo${place}`} body={{}} caller={record.caller} />
        )}
        <CopyMenu record={record} />
        <Action icon="save" onClick={() => savePage(record)}>{t("run.save")}</Action>
      </div>
      {again && <RunAgain record={record} onClose={() => setAgain(false)} />}
    </header>
  );
}

function RunAgain({ record, onClose }: { record: CallRecord; onClose: () => void }) {
  const [schema, setSchema] = useState<JsonSchema>({});
  const [value, setValue] = useState<JsonObject>((record.arguments as JsonObject | null) ?? {});
  useEffect(() => {
    json<OneTool>(`/tools/${quoted(record.tool)}`).then(({ tool }) => setSchema(tool.input_schema), () => undefined);
  }, []);
  const run = async () => {
    const edited = JSON.stringify(value) === JSON.stringify(record.arguments) ? {} : { arguments: value };
    const made = await post<AgainAccepted>(`/calls/${quoted(record.id)}/again${query({ thread: record.thread, caller: record.caller })}`, edited);
    onClose();
    go(runLink({ id: made.id, thread: made.thread, caller: record.caller }));
  };
  return (
    <Dialog title={t("run.againTitle", { tool: record.tool })} onClose={onClose}>
      <SchemaForm schema={schema} value={value} onChange={setValue} />
      <footer><Action kind="main" icon="again" onClick={run}>{t("run.again")}</Action></footer>
    </Dialog>
  );
}

function ErrorPanel({ record }: { record: CallRecord }) {
  const error = record.error;
  if (!error) return null;
  const traceback = record.attempts.findLast((attempt) => attempt.traceback)?.traceback;
  return (
    <section class="panel error-panel" aria-label={t("run.error")}>
      <h2><code>{error.code}</code>{error.type && error.type !== error.code ? ` ${error.type}` : ""}</h2>
      <p>{error.message}</p>
      {isUnresolved(record) && <p class="hint">{t("inbox.unknownHint")} <code>{record.idempotency_key}</code></p>}
      {traceback && <details><summary>{t("run.traceback")}</summary><pre class="code" tabIndex={0}>{traceback}</pre></details>}
    </section>
  );
}
