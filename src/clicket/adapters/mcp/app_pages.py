"""The HTML of MCP Apps: small pages without links, images or requests, for the sandboxed frame of a host.

What comes from calls is escaped, or set as text by the one script there is. The policy of each page allows that script and the style by
their hashes, and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from typing import Any

import msgspec

from clicket.model import Record
from clicket.model.codec import clean
from clicket.model.printable import js_class, marked
from clicket.model.version import version

__all__ = ["approvals_page", "call_page", "result_page"]

_MAX_TEXT = 2_000
_MAX_BLOCK = 50_000
_STYLE = (
    ":root{color-scheme:light dark}body{margin:12px;font:14px/1.5 system-ui,sans-serif}h1{font-size:15px;margin:0 0 8px}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:8px;border-radius:6px;margin:4px 0}"
    "dt{opacity:.7}dd{margin:0 0 6px}section{border-top:1px solid #8884;padding:8px 0}.bad{color:#c33}"
    "mark{font:.8em ui-monospace,monospace;padding:0 2px;border-radius:3px;background:#c33;color:#fff;direction:ltr;unicode-bidi:isolate}"
)
_SCRIPT = """
"use strict";
(() => {
  const parent = window.parent, show = document.getElementById("result"), state = document.getElementById("state");
  const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const size = () => send({ method: "ui/notifications/size-changed",
    params: { width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight } });
  const marked = (value) => value.replace(/[INVISIBLE]/gu, (each) => each === "\\n" || each === "\\t" ? each
    : "⟨U+" + each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
  const text = (value) => typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const render = (result) => {
    const failed = result.isError === true, blocks = Array.isArray(result.content) ? result.content : [];
    const said = blocks.filter((block) => block && block.type === "text").map((block) => text(block.text)).join("\\n");
    const shown = result.structuredContent === undefined || result.structuredContent === null ? said : text(result.structuredContent);
    state.textContent = failed ? "failed" : "completed";
    state.className = failed ? "bad" : "";
    show.textContent = marked(String(shown).slice(0, LIMIT));
    size();
  };
  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== parent || !message || message.jsonrpc !== "2.0") return;
    if (message.id === 1 && "result" in message) { send({ method: "ui/notifications/initialized", params: {} }); size(); }
    else if (message.method === "ui/notifications/tool-result" && message.params) render(message.params);
    else if (message.method === "ui/notifications/tool-cancelled") { state.textContent = "cancelled"; size(); }
    else if (message.id !== undefined && message.method) send({ id: message.id, result: {} });
  });
  send({ id: 1, method: "ui/initialize", params: { protocolVersion: "2026-01-26", appCapabilities: {},
    appInfo: { name: "clicket", version: "VERSION" } } });
})();
"""


def result_page() -> str:
    """Shows the result of a tool, as the host passes it to the frame. The same for every call."""
    script = _SCRIPT.replace("LIMIT", str(_MAX_BLOCK)).replace("VERSION", version()).replace("INVISIBLE", js_class())
    body = f'<h1 id="state">running</h1><pre id="result" dir="auto"></pre><script>{script}</script>'
    return _page("Result", body, script)


def approvals_page(waiting: Iterable[Record]) -> str:
    """The calls that wait for a person, as they are now."""
    sections = [f"<section>{_question(record)}</section>" for record in waiting]
    return _page("Approvals", "<h1>Waiting for a person</h1>" + ("".join(sections) or "<p>Nothing waits.</p>"))


def call_page(record: Record) -> str:
    """One call, as it is now: its question, or its result."""
    if record.waiting_for == "approval":
        return _page("Approval", f"<h1>Waiting for a person</h1>{_question(record)}")
    failed = record.error is not None
    shown = record.error.message if record.error is not None else record.content
    facts = _facts(("tool", record.tool), ("call", record.id), ("state", str(record.state)))
    return _page("Call", f"<h1{' class=bad' if failed else ''}>{_text(record.tool)}</h1>{facts}{_block(shown)}")


def _question(record: Record) -> str:
    asked = record.approval or {}
    question = asked.get("question") or {}
    link = question.get("url") if isinstance(question, dict) else None
    facts = _facts(
        ("tool", record.tool),
        ("call", record.id),
        ("why", asked.get("why") or "the policy asks for it"),
        *((("link, shown only", link),) if link else ()),
    )
    return facts + _block(msgspec.json.format(msgspec.json.encode(record.arguments), indent=2).decode())


def _facts(*rows: tuple[str, Any]) -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd><bdi>{_text(value)}</bdi></dd>' for name, value in rows)}</dl>"


def _text(value: Any) -> str:
    return _marked(clean(str(value))[:_MAX_TEXT])


def _block(text: str) -> str:
    return f'<pre dir="auto">{_marked(clean(text)[:_MAX_BLOCK], lines=True)}</pre>'


def _marked(text: str, *, lines: bool = False) -> str:
    return marked(escape(text), lines=lines, around=("<mark>", "</mark>"))


def _page(title: str, body: str, script: str = "") -> str:
    allowed = f"default-src 'none'; style-src '{_hash(_STYLE)}'; base-uri 'none'; form-action 'none'"
    policy = f"{allowed}; script-src '{_hash(script)}'" if script else allowed
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
