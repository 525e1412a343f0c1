// Copy the call as code.
import type { CallRecord } from "../../api/types";
import { t } from "../../i18n";
import { asCli, asCurl, asPython } from "../../model/copy-as";
import { principal } from "../../session";
import { Icon } from "../../ui/icon";
import { copy } from "../../ui/toasts";

export function CopyMenu({ record }: { record: CallRecord }) {
  const origin = location.href.replace(/[?#].*$/, "").replace(/\/$/, "");
  const choices: [string, () => string][] = [
    ["Python", () => asPython(record)],
    ["curl", () => asCurl(record, origin, principal.value?.keyed ?? false)],
    [t("run.commandLine"), () => asCli(record)],
    ["JSON", () => JSON.stringify(record, null, 2)],
  ];
  return (
    <details class="menu">
      <summary role="button"><Icon name="copy" /><span>{t("run.copyAs")}</span></summary>
      <ul>
        {choices.map(([name, text]) => (
          <li key={name}>
            <button class="plain" onClick={(event) => { void copy(text()); event.currentTarget.closest("details")?.removeAttribute("open"); }}>{name}</button>
          </li>
        ))}
      </ul>
    </details>
  );
}
