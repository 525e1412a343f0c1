// Saves what the page shows of a call as one HTML file that needs nothing else: no server, no script, no network.
import { save } from "../../ui/frame";
import type { CallRecord } from "../../api/types";
import { escapedJson, marked } from "../../model/printable";

const POLICY = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">`;

export async function savePage(record: CallRecord): Promise<void> {
  const page = document.getElementById("run")?.cloneNode(true) as HTMLElement | undefined;
  if (!page) return;
  for (const each of page.querySelectorAll(".no-save, button, iframe, dialog, .back")) each.remove();
  for (const each of page.querySelectorAll("a")) each.removeAttribute("href");
  for (const each of page.querySelectorAll("details")) each.setAttribute("open", "");
  for (const each of page.querySelectorAll("[hidden]")) each.removeAttribute("hidden");
  const style = await (await fetch("./console/app.css", { credentials: "omit" })).text();
  const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const json = escaped(escapedJson(JSON.stringify(record, null, 2)));
  const html =
    `<!doctype html><html lang="${document.documentElement.lang}" data-theme="${document.documentElement.dataset["theme"] ?? ""}">` +
    `<head><meta charset="utf-8">${POLICY}<meta name="viewport" content="width=device-width"><title>${escaped(marked(`${record.tool} ${record.id}`))}</title>` +
    `<style>${style.replaceAll("</", "<\\/")}</style></head><body class="saved"><main>${page.outerHTML}` +
    `<section class="panel"><h2>JSON</h2><details><summary>JSON</summary><pre class="code">${json}</pre></details></section></main></body></html>`;
  const name = `${record.tool}-${record.id}`.replaceAll(/[^\w.-]+/g, "_").slice(0, 100);
  save(`${name}.html`, html, "text/html");
}
