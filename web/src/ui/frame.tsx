// HTML and pictures that programs made. A frame has no scripts, no origin and no network; a picture is a picture.
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api/client";

interface Policy { createHTML(text: string): string }
interface Factory { createPolicy(name: string, rules: { createHTML: (text: string) => string }): Policy }
const factory = (globalThis as { trustedTypes?: Factory }).trustedTypes;
// The only HTML that this page ever parses or sets: that of a frame with an empty sandbox.
const policy = factory?.createPolicy("clicket-frame", { createHTML: (text) => text });

const HEAD = `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:"><meta charset="utf-8">`;
const LEFT_OUT = "script, style, link, meta, base, title, iframe, frame, object, embed, form, input, button, video, audio, source, template, noscript";

/** What a frame shows: no scripts and no styles, which its policy would refuse with an error each, and no links out of it. */
function quieted(html: string): string {
  // Styles are left out before the parser sees them: it would report each as a violation of the page's policy.
  const bare = html.replace(/<style\b[^>]*>[\s\S]*?(?:<\/style\s*>|$)/gi, "").replace(/([\s/"'])style\s*=/gi, "$1data-style=");
  const parsed = new DOMParser().parseFromString(policy ? policy.createHTML(bare) : bare, "text/html");
  for (const each of parsed.querySelectorAll(LEFT_OUT)) each.remove();
  for (const each of parsed.querySelectorAll("*")) {
    for (const { name, value } of [...each.attributes]) {
      const loads = ["src", "srcset", "href", "xlink:href", "action", "background", "poster", "data", "ping"].includes(name);
      if (name === "style" || name.startsWith("on") || (loads && !value.startsWith("data:image/"))) each.removeAttribute(name);
    }
  }
  return parsed.body.innerHTML;
}

export function HtmlFrame({ html, title }: { html: string; title: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const text = HEAD + quieted(html);
    if (frame.current) frame.current.srcdoc = policy ? policy.createHTML(text) : text;
  }, [html]);
  return <iframe ref={frame} class="frame" title={title} sandbox="" referrerpolicy="no-referrer" loading="lazy" />;
}

/** A picture as a data address: of Base64, of SVG text, or of an artifact. SVG in an image runs no script and loads nothing. */
export function Picture({ mime, data, artifact, title }: { mime: string; data: string | null; artifact?: string | undefined; title: string }) {
  const [source, setSource] = useState("");
  useEffect(() => {
    if (data !== null) setSource(addressOf(mime, data));
    else if (artifact) void load(artifact, mime).then(setSource, () => setSource(""));
  }, [mime, data, artifact]);
  return source ? <img class="picture" src={source} alt={title} /> : null;
}

const addressOf = (mime: string, data: string): string =>
  mime === "image/svg+xml" ? `data:${mime};charset=utf-8,${encodeURIComponent(data)}` : `data:${mime};base64,${data.replaceAll(/\s/g, "")}`;

async function load(artifact: string, mime: string): Promise<string> {
  const blob = await (await request(`/artifacts/${encodeURIComponent(artifact)}`)).blob();
  return await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([blob], { type: mime }));
  });
}

/** Saves bytes or text as a file. */
export function save(name: string, content: BlobPart, type: string): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
