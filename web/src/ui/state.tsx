// The state of a call, a thread or a tool, as a small coloured word. The colour never says it alone.
import { word } from "../i18n";

export function StateBadge({ state, waiting }: { state: string; waiting?: string | null | undefined }) {
  const shown = waiting === "approval" ? "approval" : state;
  return (
    <span class="badge" data-state={shown}>
      <span class="dot" />
      {word("state", shown)}
    </span>
  );
}
