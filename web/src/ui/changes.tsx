// What was asked for beside what will run, for each value that differs.
import { t } from "../i18n";
import type { Change } from "../model/diff";

export function Changes({ changes }: { changes: Change[] }) {
  const text = (value: unknown) => (value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
  return (
    <table class="changes">
      <thead><tr><th scope="col">{t("diff.field")}</th><th scope="col">{t("diff.asked")}</th><th scope="col">{t("diff.runs")}</th></tr></thead>
      <tbody>
        {changes.map((change) => (
          <tr key={change.path}>
            <th scope="row" class="mono">{change.path}</th>
            <td><del>{text(change.before)}</del></td>
            <td><ins>{text(change.after)}</ins></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
