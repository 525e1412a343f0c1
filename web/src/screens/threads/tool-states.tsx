// Which tools a thread may use now, and why not the others.
import { json, post, query, quoted } from "../../api/client";
import type { ToolStates } from "../../api/types";
import { t } from "../../i18n";
import { may } from "../../session";
import { Action } from "../../ui/button";
import { useLoaded } from "../../ui/loaded";
import { notify } from "../../ui/toasts";
import { StateBadge } from "../../ui/state";

export function ToolStatesPanel({ thread, caller }: { thread: string; caller: string }) {
  const path = `/agents/${quoted(thread)}/tool-states`;
  const place = query({ caller });
  const { value, reload } = useLoaded(() => json<ToolStates>(`${path}${place}`), [thread, caller], 10_000);
  const states = Object.entries(value.value?.data.toolStates ?? {});
  const out = states.filter(([, state]) => state.status !== "available" || state.reason);
  if (!states.length) return null;
  const reset = async (name: string) => {
    await post(`${path}/reset${place}`, { toolName: name });
    notify(t("tools.resetDone", { tool: name }));
    await reload();
  };
  return (
    <details class="panel" open={out.some(([, state]) => state.status !== "available")}>
      <summary>{t("threads.tools", { available: states.length - out.filter(([, state]) => state.status !== "available").length, total: states.length })}</summary>
      <ul class="bare tool-states">
        {out.map(([name, state]) => (
          <li key={name}>
            <StateBadge state={state.status} /> <strong>{name}</strong> <span class="hint">{state.reason}</span>
            {state.status !== "available" && may("call") && <Action kind="plain" icon="again" onClick={() => reset(name)}>{t("tools.reset")}</Action>}
          </li>
        ))}
      </ul>
    </details>
  );
}
