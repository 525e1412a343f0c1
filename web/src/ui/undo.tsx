// Undoes a call, or the calls of a turn, after a confirmation that lists what will be undone, and what cannot be and why.
import { useEffect, useState } from "preact/hooks";
import { errorText, post } from "../api/client";
import type { CallUndo, JsonObject, UndoReport } from "../api/types";
import { t } from "../i18n";
import { link } from "../router";
import { Action } from "./button";
import { Dialog } from "./dialog";
import { Failure } from "./empty";
import { notify } from "./toasts";

const LISTS = ["waiting", "undone", "unknown", "failed", "impossible"] as const;

interface Props {
  /** Of the request, with its query. */
  path: string;
  body: JsonObject;
  caller: string;
  onDone?: () => unknown;
}

/** A button, and the dialog that it opens. */
export function Undo({ path, body, caller, onDone }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Action icon="again" kind="plain" onClick={() => setOpen(true)}>{t("undo")}</Action>
      {open && <UndoDialog path={path} body={body} caller={caller} onClose={() => { setOpen(false); void onDone?.(); }} />}
    </>
  );
}

function UndoDialog({ path, body, caller, onClose }: Omit<Props, "onDone"> & { onClose: () => void }) {
  const [report, setReport] = useState<UndoReport | null>(null);
  const [error, setError] = useState("");
  const [done, setDone] = useState(false);
  useEffect(() => {
    post<UndoReport>(path, { ...body, dry: true }).then(setReport, (reason: unknown) => setError(errorText(reason)));
  }, [path]);
  const undo = async (options: JsonObject) => {
    setReport(await post<UndoReport>(path, { ...body, ...options }));
    setDone(true);
    notify(t("undo.asked"));
  };
  const failed = report !== null && report.failed.length > 0;
  return (
    <Dialog title={t("undo.title")} onClose={onClose}>
      <Failure text={error} />
      {report === null && !error && <p class="hint">{t("loading")}</p>}
      {report && LISTS.map((name) => report[name].length > 0 && <Listed key={name} title={t(done && name === "waiting" ? "undo.left" : `undo.${name}`)} calls={report[name]} caller={caller} />)}
      {report && LISTS.every((name) => report[name].length === 0) && <p>{t("undo.nothing")}</p>}
      <footer>
        {failed && <Action kind="danger" onClick={() => undo({ retry: true })}>{t("undo.retry")}</Action>}
        {report && !done && report.waiting.length > 0 && !failed && <Action kind="danger" onClick={() => undo({})}>{t("undo.confirm", { count: report.waiting.length })}</Action>}
      </footer>
    </Dialog>
  );
}

function Listed({ title, calls, caller }: { title: string; calls: CallUndo[]; caller: string }) {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul class="bare">
        {calls.map((call) => (
          <li key={`${call.thread} ${call.id}`}>
            <a href={link(["runs", call.undo || call.id], { thread: call.thread, caller })}><strong>{call.tool}</strong></a> <span class="hint">{call.reason}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
