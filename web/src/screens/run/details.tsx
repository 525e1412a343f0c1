// Arguments, output, result and events of a call, as tabs.
import { useState } from "preact/hooks";
import { request, query, quoted } from "../../api/client";
import type { CallRecord, Json } from "../../api/types";
import { t, word } from "../../i18n";
import { bytes, clock, duration } from "../../model/format";
import { changesOf } from "../../model/diff";
import { Action } from "../../ui/button";
import { Changes } from "../../ui/changes";
import { Files } from "../../ui/files";
import { save } from "../../ui/frame";
import { Code, JsonView } from "../../ui/json";
import { Tabs } from "../../ui/tabs";

export function Details({ record }: { record: CallRecord }) {
  const outputs = record.events.filter((event) => event.type === "output");
  const [tab, setTab] = useState(outputs.length && record.output === null ? "output" : "arguments");
  const tabs = [
    { id: "arguments", label: t("run.arguments") },
    { id: "result", label: t("run.result") },
    ...(outputs.length ? [{ id: "output", label: `${t("run.output")} (${outputs.length})` }] : []),
    { id: "events", label: `${t("run.events")} (${record.events.length})` },
  ];
  return (
    <section class="panel">
      <Tabs tabs={tabs} value={tab} onChange={setTab} label={t("run.details")}>
        {tab === "arguments" && <Arguments record={record} />}
        {tab === "result" && <Result record={record} />}
        {tab === "output" && <Output record={record} />}
        {tab === "events" && <Events record={record} />}
      </Tabs>
    </section>
  );
}

function Arguments({ record }: { record: CallRecord }) {
  const created = record.events[0]?.data["arguments"];
  const given = record.events.find((event) => event.type === "approval_given" && "arguments" in event.data);
  const changes = given ? changesOf(created as Json | undefined, given.data["arguments"]) : [];
  return (
    <>
      {record.refused && <p class="hint">{t("run.refused")} <code>{JSON.stringify(record.refused)}</code></p>}
      {changes.length > 0 && (
        <>
          <h3>{t("run.edited", { by: String(given?.data["by"] || t("run.someone")) })}</h3>
          <Changes changes={changes} />
        </>
      )}
      <JsonView value={record.arguments} label={t("run.arguments")} />
    </>
  );
}

function Result({ record }: { record: CallRecord }) {
  const download = async () => {
    const place = query({ thread: record.thread, caller: record.caller });
    const response = await request(`/calls/${quoted(record.id)}/result${place}`);
    const type = response.headers.get("content-type") ?? "application/octet-stream";
    save(`${record.id.replaceAll(/[^\w.-]+/g, "_")}.${type.includes("json") ? "json" : "txt"}`, await response.blob(), type);
  };
  if (record.error) return <p class="hint">{t("run.noResult")}</p>;
  if (record.ended_at === null) return <p class="hint">{t("run.notYet")}</p>;
  const size = record.metadata["artifact_size"];
  return (
    <>
      {record.truncated && <p class="hint">{t("run.truncated")}{typeof size === "number" ? ` (${bytes(size)})` : ""}</p>}
      <JsonView value={record.truncated ? record.content : record.output} label={t("run.result")} />
      <Files files={record.files ?? []} />
      <div class="no-save"><Action icon="save" kind="plain" onClick={download}>{t("run.download")}</Action></div>
    </>
  );
}

function Output({ record }: { record: CallRecord }) {
  const outputs = record.events.filter((event) => event.type === "output").map((event) => event.data["content"]);
  const text = outputs.every((each) => typeof each === "string") ? outputs.join("") : outputs.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n");
  return <Code text={text} label={t("run.output")} />;
}

function Events({ record }: { record: CallRecord }) {
  const [noise, setNoise] = useState(false);
  const quiet = new Set(["output", "progress", "heartbeat"]);
  const shown = record.events.filter((event) => noise || !quiet.has(event.type));
  return (
    <>
      <label class="check no-save"><input type="checkbox" checked={noise} onChange={(event) => setNoise(event.currentTarget.checked)} />{t("run.allEvents")}</label>
      <table class="events">
        <thead><tr><th scope="col">#</th><th scope="col">{t("run.at")}</th><th scope="col">{t("run.event")}</th><th scope="col">{t("column.state")}</th><th scope="col">{t("run.data")}</th></tr></thead>
        <tbody>
          {shown.slice(-500).map((event) => (
            <tr key={event.seq}>
              <td>{event.seq}</td>
              <td title={clock(event.at)}>+{duration(event.at - record.created_at)}</td>
              <td class="mono">{event.type}</td>
              <td>{word("state", event.state)}</td>
              <td class="mono data">{briefly(event.data)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function briefly(data: { [name: string]: Json }): string {
  const text = JSON.stringify(data, (name, value: unknown) => (name === "traceback" ? undefined : typeof value === "string" && value.length > 200 ? `${value.slice(0, 200)}…` : value));
  return text.length > 600 ? `${text.slice(0, 600)}…` : text === "{}" ? "" : text;
}
