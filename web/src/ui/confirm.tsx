// A button for what cannot be taken back: it asks in a dialog first.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Action } from "./button";
import { Dialog } from "./dialog";
import { Icon, type IconName } from "./icon";

export function Confirmed({ label, question, icon, onConfirm, children }: { label: string; question: string; icon: IconName; onConfirm: () => Promise<unknown>; children?: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="danger" onClick={() => setOpen(true)}><Icon name={icon} /><span>{label}</span></button>
      {open && (
        <Dialog title={question} onClose={() => setOpen(false)}>
          {children}
          <footer><Action kind="danger" icon={icon} onClick={async () => { await onConfirm(); setOpen(false); }}>{label}</Action></footer>
        </Dialog>
      )}
    </>
  );
}
