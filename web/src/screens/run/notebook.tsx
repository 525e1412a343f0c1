// A call of the code interpreter as a notebook: cells, their output as it comes, plots, tables, variables and files.
import type { CallRecord, JsonObject } from "../../api/types";
import { t, word } from "../../i18n";
import { duration } from "../../model/format";
import { cellsOf, displaysOf, notebookFile, statesOf, type Cell } from "../../model/notebook";
import { pathOf } from "../../model/path";
import { CODE } from "../../model/tables";
import { Action } from "../../ui/button";
import { Download } from "../../ui/files";
import { HtmlFrame, Picture, save } from "../../ui/frame";
import { CODE_LAYOUT, StateDiagram } from "../../ui/state-diagram";

export function NotebookView({ record }: { record: CallRecord }) {
  const cells = cellsOf(record);
  const output = (record.output ?? {}) as JsonObject;
  const files = (output["files"] as JsonObject[] | undefined) ?? [];
  const variables = (output["variables"] as JsonObject[] | undefined) ?? [];
  const isolation = output["isolation"] as { level?: string; layers?: string[]; gaps?: string[] } | undefined;
  return (
    <section class="panel notebook">
      <header class="panel-head">
        <h2>{t("notebook.title")}</h2>
        <span class="no-save"><Action icon="save" kind="plain" onClick={() => save(`${record.id}.ipynb`, notebookFile(cells), "application/x-ipynb+json")}>.ipynb</Action></span>
      </header>
      {cells.map((cell) => <CellView key={cell.index} cell={cell} />)}
      {variables.length > 0 && (
        <details>
          <summary>{t("notebook.variables", { count: variables.length })}</summary>
          <table class="plain-table">
            <thead><tr><th scope="col">{t("notebook.name")}</th><th scope="col">{t("notebook.type")}</th><th scope="col">{t("notebook.value")}</th></tr></thead>
            <tbody>{variables.map((each) => <tr key={String(each["name"])}><td class="mono">{String(each["name"])}</td><td class="mono">{String(each["type"])}</td><td class="mono">{String(each["value"])}</td></tr>)}</tbody>
          </table>
        </details>
      )}
      {files.length > 0 && (
        <>
          <h3>{t("notebook.files")}</h3>
          <ul class="bare">{files.map((file) => <li key={String(file["name"])}><FileLink file={file} /></li>)}</ul>
        </>
      )}
      {isolation && (
        <p class="hint">{t("notebook.isolation", { level: isolation.level ?? "" })}: {(isolation.layers ?? []).join(", ")}</p>
      )}
      <details>
        <summary>{t("notebook.states")}</summary>
        <StateDiagram table={CODE} layout={CODE_LAYOUT} taken={pathOf(statesOf(record))} label={t("notebook.states")} />
      </details>
    </section>
  );
}

function CellView({ cell }: { cell: Cell }) {
  return (
    <div class="cell" data-status={cell.status}>
      <div class="gutter" aria-hidden="true">[{cell.index + 1}]</div>
      <div class="content">
        <pre class="code source" tabIndex={0}>{cell.code.replace(/\n$/, "")}</pre>
        {cell.stdout && <pre class="out" tabIndex={0}>{cell.stdout}</pre>}
        {cell.stderr && <pre class="out err" tabIndex={0}>{cell.stderr}</pre>}
        {cell.value && !displaysOf(cell).length && <pre class="out" tabIndex={0}>{cell.value}</pre>}
        {displaysOf(cell).map((each, index) =>
          each.mime.startsWith("image/") ? <Picture key={index} mime={each.mime} data={each.data} artifact={each.artifact} title={t("notebook.plot", { number: cell.index + 1 })} />
            : each.mime === "text/html" ? <HtmlFrame key={index} html={each.data ?? ""} title={t("notebook.html", { number: cell.index + 1 })} />
              : <pre key={index} class="out" tabIndex={0}>{each.data}</pre>,
        )}
        {cell.error && <pre class="out err" tabIndex={0}>{cell.error}</pre>}
        <p class="cell-foot">{word("outcome", cell.status)}{cell.duration !== null && ` · ${duration(cell.duration)}`}</p>
      </div>
    </div>
  );
}

function FileLink({ file }: { file: JsonObject }) {
  const name = String(file["name"] ?? "");
  const artifact = file["artifact"];
  const size = Number(file["size"] ?? 0);
  if (typeof artifact !== "string") return <span class="mono">{name}</span>;
  return <Download artifact={artifact} name={name} size={size} />;
}
