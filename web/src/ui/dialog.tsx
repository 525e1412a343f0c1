// A modal dialog: the browser's own, which keeps the focus inside and closes with Escape.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { Icon } from "./icon";

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={onClose} onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="plain square" aria-label={t("close")} onClick={() => dialog.current?.close()}><Icon name="close" /></button>
      </header>
      <div class="body">{children}</div>
    </dialog>
  );
}
