"""The HTML of the approver page, in English and Chinese. No scripts, no images, no links; every text from outside is escaped.

Arguments and answers are edited as JSON in plain text fields, and only if the link allows it.
"""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from clicket.kernel import State
from clicket.model import Record
from clicket.model.codec import clean, encode
from clicket.model.printable import escaped_json, marked
from clicket.server.page_html import POLICY, language_of, page, shown, shown_time, with_marks
from clicket.telemetry.webhooks.approval_links import Link
from clicket.tools.question import InputQuestion, question_of

__all__ = ["POLICY", "TEXTS", "Tried", "decision_page", "language_of", "message_page"]

_MAX_ARGUMENTS = 50_000
_MAX_TEXT = 4_000
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
        "edit": "Approve with other arguments",
        "edited": "Arguments (JSON). They are recorded beside the ones that were asked for.",
        "respond": "Answer in the tool's place",
        "output": "Result (JSON; a text is in quotes). The call completes with it, and the tool does not run.",
        "give": "Answer",
        "approvals": "Approvals so far",
        "not_json": "The result is not JSON. A text must be in quotes.",
        "no_output": "Write a result to answer with.",
        "approved": "Approved. The call goes on.",
        "more": "Approved. Another person must approve it, too, before it runs.",
        "answered": "Answered. The call completes with your result.",
        "denied": "Denied. The call does not run.",
        "invalid": "This link is not valid.",
        "expired": "This link has expired.",
        "used": "This link was used already. It works once.",
        "changed": "The call waits for another decision than the one that this link was made for. Nothing was changed.",
        "decided": "The call does not wait for a decision any more. Nothing was changed.",
        "choose": "Choose Approve or Deny.",
        "input_title": "Question",
        "input_question": "A tool asks for your input",
        "input_source": "Question from",
        "input_message": "Message",
        "input_url": "Address to open",
        "input_schema": "Fields of the form (JSON Schema)",
        "input_output": "Answer (a JSON object with these fields). The tool goes on with it.",
        "input_not_allowed": "This link does not allow answers. Answer in the console, or decline here.",
        "input_done": "Done",
        "input_decline": "Decline",
        "input_not_json": "The answer is not JSON.",
        "input_no_output": "Write an answer.",
        "input_approved": "Recorded. The tool goes on.",
        "input_answered": "Answered. The tool goes on with your answer.",
        "input_denied": "Declined. The tool goes on without an answer.",
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
        "edit": "以其他参数批准",
        "edited": "参数（JSON）。它们将与原来请求的参数一并记录。",
        "respond": "代替工具作答",
        "output": "结果（JSON；文本须加引号）。调用将以此完成，工具不会运行。",
        "give": "作答",
        "approvals": "已有的批准",
        "not_json": "结果不是 JSON。文本须加引号。",
        "no_output": "请填写要作答的结果。",
        "approved": "已批准，调用将继续执行。",
        "more": "已批准。执行前还需另一个人批准。",
        "answered": "已作答，调用将以您的结果完成。",
        "denied": "已拒绝，调用不会执行。",
        "invalid": "此链接无效。",
        "expired": "此链接已过期。",
        "used": "此链接已被使用，只能使用一次。",
        "changed": "该调用等待的决定与此链接所针对的不同。未做任何更改。",
        "decided": "该调用已不再等待决定。未做任何更改。",
        "choose": "请选择“批准”或“拒绝”。",
        "input_title": "提问",
        "input_question": "工具需要您的输入",
        "input_source": "提问方",
        "input_message": "消息",
        "input_url": "要打开的地址",
        "input_schema": "表单字段（JSON Schema）",
        "input_output": "答复（包含这些字段的 JSON 对象）。工具将带着它继续。",
        "input_not_allowed": "此链接不允许作答。请在控制台中作答，或在此谢绝。",
        "input_done": "已完成",
        "input_decline": "谢绝",
        "input_not_json": "答复不是 JSON。",
        "input_no_output": "请填写答复。",
        "input_approved": "已记录，工具将继续。",
        "input_answered": "已作答，工具将带着您的答复继续。",
        "input_denied": "已谢绝，工具将在没有答复的情况下继续。",
    },
}


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A form that was refused, and why. It is shown again."""

    problem: str
    reason: str = ""
    arguments: str | None = None
    output: str | None = None


def decision_page(record: Record, link: Link, language: str, tried: Tried | None = None) -> bytes:
    """What is asked, and a form with the answers that the link allows."""
    question = question_of(record.approval)
    if question is not None:
        return _input_page(record, question, link, language, tried)
    said = TEXTS[language]
    asked = record.approval or {}
    arguments, whole = _json(record.arguments)
    rows = [
        (said["tool"], f"<strong>{shown(record.tool)}</strong>"),
        (said["caller"], shown(record.caller) or said["program"]),
        (said["why"], shown(asked.get("why") or said["no_reason"])),
        (said["asked"], shown_time(asked.get("requested_at"))),
    ]
    if asked.get("approvers", 1) > 1:
        names = ", ".join(shown(each.get("by")) or "?" for each in asked["approvals"])
        rows.append((said["approvals"], f"{len(asked['approvals'])} / {asked['approvers']} {names}"))
    listed = _listed(rows)
    warning = f"<p><strong>{said['recovery']}</strong></p>" if asked.get("purpose") == "recovery" else ""
    form = (
        f'<form method="post">{_reason_field(said, tried)}'
        + _edit_field(record, link, said, tried)
        + f'<button name="decision" value="approve">{said["approve"]}</button>'
        f'<button name="decision" value="deny">{said["deny"]}</button>'
        + _answer_field(record, link, said, tried)
        + "</form>"
    )
    body = (
        f"<h1>{said['question']}</h1>{_problem(tried)}{warning}<dl>{listed}<dt>{said['arguments']}</dt></dl>"
        f'<pre dir="ltr">{arguments}</pre>'
        + (form if whole else f"<p><strong>{said['cut']}</strong></p>")
        + f'<p class="note">{said["until"]} {shown_time(link.expires_at)}.</p>'
    )
    return page(said["title"], body, language)


def _input_page(record: Record, question: InputQuestion, link: Link, language: str, tried: Tried | None) -> bytes:
    """A tool's own question: its message and form as text, an answer if the link allows one, and a refusal. The call was started, so it
    has neither arguments to edit nor a result to give in the tool's place."""
    said = TEXTS[language]
    asked = record.approval or {}
    rows = [
        (said["tool"], f"<strong>{shown(record.tool)}</strong>"),
        (said["caller"], shown(record.caller) or said["program"]),
        (said["input_source"], shown(question.source)),
        (said["input_message"], _shown_lines(question.message)),
        (said["asked"], shown_time(asked.get("requested_at"))),
    ]
    if question.url:
        rows.append((said["input_url"], _shown_lines(question.url)))
    schema = ""
    whole = True
    answer = f'<button name="decision" value="approve">{said["input_done"]}</button>'
    if question.schema is not None:
        fields, whole = _json(question.schema)
        schema = f'<dl><dt>{said["input_schema"]}</dt></dl><pre dir="ltr">{fields}</pre>'
        answer = f"<p>{said['input_not_allowed']}</p>"
    if question.schema is not None and "respond" in link.allows:
        text = tried.output if tried else None
        button = f'<button name="decision" value="respond">{said["give"]}</button>'
        answer = _field("output", said["give"], said["input_output"], text or "", rows=6, is_open=True, after=button)
    form = (
        f'<form method="post">{_reason_field(said, tried)}{answer}'
        f'<button name="decision" value="deny">{said["input_decline"]}</button></form>'
    )
    body = (
        f"<h1>{said['input_question']}</h1>{_problem(tried)}<dl>{_listed(rows)}</dl>{schema}"
        + (form if whole else f"<p><strong>{said['cut']}</strong></p>")
        + f'<p class="note">{said["until"]} {shown_time(link.expires_at)}.</p>'
    )
    return page(said["input_title"], body, language)


def _listed(rows: list[tuple[str, str]]) -> str:
    return "".join(f"<dt>{name}</dt><dd><bdi>{value}</bdi></dd>" for name, value in rows)


def _reason_field(said: dict[str, str], tried: Tried | None) -> str:
    return (
        f'<label for="reason">{said["reason"]}</label>'
        f'<textarea id="reason" name="reason" rows="2" maxlength="500">{_text(tried.reason if tried else "")}</textarea>'
    )


def _problem(tried: Tried | None) -> str:
    return f'<p class="problem" role="alert">{_shown_lines(tried.problem[:_MAX_TEXT])}</p>' if tried else ""


def _edit_field(record: Record, link: Link, said: dict[str, str], tried: Tried | None) -> str:
    """All approvers of a call must see the same arguments, so those of a call with several are not edited."""
    if "edit" not in link.allows or (record.approval or {}).get("approvers", 1) > 1:
        return ""
    text = tried.arguments if tried and tried.arguments is not None else None
    content = _editable(record.arguments) if text is None else text
    return _field("arguments", said["edit"], said["edited"], content, rows=12, is_open=text is not None)


def _answer_field(record: Record, link: Link, said: dict[str, str], tried: Tried | None) -> str:
    """A call that was started before cannot be answered: its effect may have happened."""
    if "respond" not in link.allows or record.state is not State.PENDING:
        return ""
    text = tried.output if tried else None
    button = f'<button name="decision" value="respond">{said["give"]}</button>'
    return _field("output", said["respond"], said["output"], text or "", rows=4, is_open=text is not None, after=button)


def _field(name: str, title: str, label: str, text: str, *, rows: int, is_open: bool, after: str = "") -> str:
    return (
        f'<details{" open" if is_open else ""}><summary>{title}</summary><label for="{name}">{label}</label>'
        f'<textarea class="json" id="{name}" name="{name}" rows="{rows}" spellcheck="false" dir="ltr">{_text(text)}</textarea>{after}'
        "</details>"
    )


def _editable(arguments: Any) -> str:
    """The arguments as JSON that can be read back. Characters that turn a text around are escapes in it."""
    return msgspec.json.format(escaped_json(encode(arguments).decode()), indent=2)


def _text(text: str) -> str:
    """The content of a text field, in which marks are plain text; a browser drops its first line break."""
    return marked(escape(_in_lines(text)), lines=True)


def _shown_lines(text: str) -> str:
    return with_marks(_in_lines(text), lines=True)


def _in_lines(text: str) -> str:
    return clean(text).replace("\r\n", "\n")


def message_page(text: str, language: str) -> bytes:
    """One sentence, by its name in `TEXTS`."""
    said = TEXTS[language]
    return page(said["title"], f"<h1>{said['title']}</h1><p>{said[text]}</p>", language)


def _json(arguments: Any) -> tuple[str, bool]:
    """The arguments as escaped JSON, and whether they are whole."""
    text = msgspec.json.format(encode(arguments), indent=2).decode()
    whole = len(text) <= _MAX_ARGUMENTS
    return with_marks(text if whole else text[:_MAX_ARGUMENTS], lines=True), whole
