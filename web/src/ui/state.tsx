// The state of a call, a thread or a tool, as a small coloured word. The colour never says it alone.
import { word } from "../i18n";

/** What a call waits for is said in place of its state. */
const WAITS = new Set(["approval", "credential", "dep", "external", "reconcile", "time"]);

/** `label`: the text, if the state has another name here. */
export function StateBadge({ state, waiting, label }: { state: string; waiting?: string | null | undefined; label?: string }) {
  const shown = waiting && WAITS.has(waiting) ? waiting : state;
  return (
    <span class="badge" data-state={shown}>
      <span class="dot" />
      {label ?? word("state", shown)}
    </span>
  );
}
