// A small part of Markdown, as elements: paragraphs, headings, lists, code, emphasis and links. HTML and pictures in it stay text.
import type { ComponentChildren, JSX } from "preact";
import { inProse } from "./marks";

const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|\*([^*\n]+)\*|!?\[([^\]\n]*)\]\(([^)\s]+)\)/g;
const SAFE = /^https?:\/\//i;

export function Markdown({ text }: { text: string }) {
  return <div class="prose">{inProse(() => blocks(text.replaceAll("\r\n", "\n")))}</div>;
}

function blocks(text: string): JSX.Element[] {
  const lines = text.split("\n");
  const made: JSX.Element[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence) {
      let end = at + 1;
      while (end < lines.length && !(lines[end] ?? "").trimStart().startsWith(fence)) end++;
      made.push(<pre class="code" tabIndex={0}>{lines.slice(at + 1, end).join("\n")}</pre>);
      at = end + 1;
    } else if (!line.trim()) at++;
    else if (/^#{1,6}\s/.test(line)) {
      made.push(<p class="heading">{inline(line.replace(/^#+\s+/, ""))}</p>);
      at++;
    } else if (LIST.test(line)) {
      const ordered = /^\s*\d/.test(line);
      const items: string[] = [];
      while (at < lines.length && LIST.test(lines[at] ?? "")) items.push((lines[at++] ?? "").replace(LIST, ""));
      const children = items.map((item) => <li>{inline(item)}</li>);
      made.push(ordered ? <ol>{children}</ol> : <ul>{children}</ul>);
    } else {
      const from = at;
      while (at < lines.length && (lines[at] ?? "").trim() && !LIST.test(lines[at] ?? "") && !/^( {0,3}(`{3}|~{3})|#{1,6}\s)/.test(lines[at] ?? "")) at++;
      if (at === from) at++;
      made.push(<p>{inline(lines.slice(from, at).join("\n"))}</p>);
    }
  }
  return made;
}

const LIST = /^\s*(?:[-*+]|\d{1,4}[.)])\s+/;

function inline(text: string): ComponentChildren[] {
  const made: ComponentChildren[] = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    made.push(text.slice(last, match.index));
    const [whole, , code, bold, italic, label, target] = match;
    if (code) made.push(<code>{code}</code>);
    else if (bold) made.push(<strong>{bold}</strong>);
    else if (italic) made.push(<em>{italic}</em>);
    else if (target && SAFE.test(target) && !whole.startsWith("!")) made.push(<a href={target} target="_blank" rel="noopener noreferrer nofollow">{label || target}</a>);
    else made.push(whole);
    last = match.index + whole.length;
  }
  made.push(text.slice(last));
  return made;
}
