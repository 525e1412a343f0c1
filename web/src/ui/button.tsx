// A button that works: it is busy while its action runs, and says when the action failed.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { errorText } from "../api/client";
import { notify } from "./toasts";
import { Icon, type IconName } from "./icon";

interface Props {
  onClick: () => unknown;
  children: ComponentChildren;
  icon?: IconName;
  kind?: "main" | "danger" | "plain";
  disabled?: boolean;
  title?: string;
}

export function Action({ onClick, children, icon, kind, disabled, title }: Props) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await onClick();
    } catch (error) {
      notify(errorText(error), "bad");
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={kind ?? ""} disabled={busy || disabled} aria-busy={busy} title={title} onClick={run}>
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </button>
  );
}
