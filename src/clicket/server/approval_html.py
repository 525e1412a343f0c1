"""The HTML of the approver page, in English and Chinese. No scripts, no images, no links; every text from outside is escaped."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from clicket.model import Record
from clicket.model.codec import encode
from clicket.printable import escaped
from clicket.server.page_html import POLICY, language_of, page, shown, shown_time

__all__ = ["POLICY", "TEXTS", "decision_page", "language_of", "message_page"]

_MAX_ARGUMENTS = 50_000
TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Approval",
        "question": "A tool call waits for your decision",
        "tool": "Tool",
        "caller": "Asked by",
        "program": "the program itself",
        "why": "Why it is asked",
        "no_reason": "no reason given",
        "recovery": "The process that ran this call died. It may have had its effect already. Approving runs it again.",
        "arguments": "Arguments",
        "cut": "The arguments are too long to be shown here whole. Decide in the console instead.",
        "asked": "Asked at",
        "until": "This link works once, until",
        "reason": "Reason (recorded with the decision)",
        "approve": "Approve",
        "deny": "Deny",
        "approved": "Approved. The call goes on.",
        "denied": "Denied. The call does not run.",
        "invalid": "This link is not valid.",
        "expired": "This link has expired.",
        "used": "This link was used already. It works once.",
        "changed": "The call waits for another decision than the one that this link was made for. Nothing was changed.",
        "decided": "The call does not wait for a decision any more. Nothing was changed.",
        "choose": "Choose Approve or Deny.",
    },
    "zh": {
        "title": "审批",
        "question": "一次工具调用正在等待您的决定",
        "tool": "工具",
        "caller": "调用方",
        "program": "程序自身",
        "why": "询问原因",
        "no_reason": "未说明原因",
        "recovery": "运行此调用的进程已崩溃，调用可能已经生效。批准后将再次运行。",
        "arguments": "参数",
        "cut": "参数过长，无法在此完整显示。请在控制台中决定。",
        "asked": "询问时间",
        "until": "此链接只能使用一次，有效期至",
        "reason": "理由（与决定一并记录）",
        "approve": "批准",
        "deny": "拒绝",
        "approved": "已批准，调用将继续执行。",
        "denied": "已拒绝，调用不会执行。",
        "invalid": "此链接无效。",
        "expired": "此链接已过期。",
        "used": "此链接已被使用，只能使用一次。",
        "changed": "该调用等待的决定与此链接所针对的不同。未做任何更改。",
        "decided": "该调用已不再等待决定。未做任何更改。",
        "choose": "请选择“批准”或“拒绝”。",
    },
}


def decision_page(record: Record, expires_at: float, language: str) -> bytes:
    """What is asked, and a form with the two answers."""
    said, asked = TEXTS[language], record.approval or {}
    arguments, whole = _json(record.arguments)
    rows = [
        (said["tool"], f"<strong>{shown(record.tool)}</strong>"),
        (said["caller"], shown(record.caller) or said["program"]),
        (said["why"], shown(asked.get("why") or said["no_reason"])),
        (said["asked"], shown_time(asked.get("requested_at"))),
    ]
    listed = "".join(f"<dt>{name}</dt><dd><bdi>{value}</bdi></dd>" for name, value in rows)
    warning = f"<p><strong>{said['recovery']}</strong></p>" if asked.get("purpose") == "recovery" else ""
    form = (
        f'<form method="post"><label for="reason">{said["reason"]}</label>'
        '<textarea id="reason" name="reason" rows="2" maxlength="500"></textarea>'
        f'<button name="decision" value="approve">{said["approve"]}</button>'
        f'<button name="decision" value="deny">{said["deny"]}</button></form>'
    )
    body = (
        f"<h1>{said['question']}</h1>{warning}<dl>{listed}<dt>{said['arguments']}</dt></dl>"
        f'<pre dir="ltr">{arguments}</pre>'
        + (form if whole else f"<p><strong>{said['cut']}</strong></p>")
        + f'<p class="note">{said["until"]} {shown_time(expires_at)}.</p>'
    )
    return page(said["title"], body, language)


def message_page(text: str, language: str) -> bytes:
    """One sentence, by its name in `TEXTS`."""
    said = TEXTS[language]
    return page(said["title"], f"<h1>{said['title']}</h1><p>{said[text]}</p>", language)


def _json(arguments: Any) -> tuple[str, bool]:
    """The arguments as escaped JSON, and whether they are whole."""
    text = msgspec.json.format(encode(arguments), indent=2).decode()
    whole = len(text) <= _MAX_ARGUMENTS
    return escape(escaped(text if whole else text[:_MAX_ARGUMENTS], lines=True)), whole
