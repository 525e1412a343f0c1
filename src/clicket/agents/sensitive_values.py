"""Masks values of sensitive fields (`@tool(sensitive=[…])`) that a model wrote into the arguments of a tool call. Only the model and
the tool get them: the turn's record, its events and the thread's history have the mask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from clicket.agents.entries import (
    Answer,
    Decision,
    Ended,
    Entry,
    HandedOver,
    Held,
    News,
    PlanState,
    Reply,
    Result,
    Results,
    Tried,
    Use,
)
from clicket.model.chat import ChatMessage, Delta, ToolUse
from clicket.model.codec import decode, encode
from clicket.model.files import shown_in
from clicket.safety.vault import (
    MASK,
    Secrets,
    Window,
    hide,
    hide_said,
    hide_text,
    look,
    still_masked,
    together,
    watch_for,
)

__all__ = ["SensitiveValues", "masked_deltas"]

E = TypeVar("E", bound=Entry)
_ALL = encode({"arguments": MASK}).decode()
"""Replaces arguments that are no JSON object: which part of them is sensitive is not known."""


class SensitiveValues:
    """Of one turn and its branches. `fields_of(tool)`: the fields that a tool declares as sensitive.

    Each method returns its argument with the values masked; without values, the argument itself.
    """

    def __init__(self, fields_of: Callable[[str], frozenset[str]]) -> None:
        self.fields_of: Callable[[str], frozenset[str]] = fields_of
        self.secrets: Secrets | None = None
        """The values so far; None: there are none."""
        self.is_empty: bool = True
        """No tool call so far was of a tool with sensitive fields: there is nothing to mask."""
        self._shown: dict[str, str] = {}

    def take(self, uses: Iterable[ToolUse]) -> None:
        """Collect the values in new tool calls."""
        fields_of = self.fields_of
        for use in uses:
            fields = fields_of(use.name)
            if not fields:
                continue
            self.is_empty = False
            arguments = _parsed(use.arguments)
            found = None if arguments is None else look(arguments, None, fields, refuse=False)
            self._shown[use.id] = _ALL if found is None else encode(found.arguments).decode()
            self.secrets = together(self.secrets, found)
            if self.secrets is not None:
                watch_for(self.secrets)

    def is_masked(self, use: ToolUse) -> bool:
        """Did the model write the mask where a value is needed? The tool must not run with it."""
        return bool(self.fields_of(use.name)) and MASK in use.arguments and still_masked(_parsed(use.arguments))

    def text(self, text: str) -> str:
        return text if self.secrets is None else hide_text(text, self.secrets)

    def message(self, message: ChatMessage) -> ChatMessage:
        if self.is_empty:
            return message
        if message.role == "user" and message.vendor is None:  # the user's own text is not masked
            return message
        content = self.text(message.content)
        return msgspec.structs.replace(
            message,
            content=content,
            files=shown_in(content, message.files),
            thought=self.text(message.thought),
            uses=tuple(
                msgspec.structs.replace(use, arguments=self._arguments(use.id, use.arguments)) for use in message.uses
            ),
            vendor=self._vendor(message.vendor),
        )

    def entry(self, entry: E) -> E:
        """An entry of the turn's record; only fields that hold texts of the model or of tools are masked."""
        if self.is_empty:
            return entry
        shown: dict[str, Any] = {}
        match entry:
            case Reply():
                uses = [Use(use.id, use.name, self._arguments(use.id, use.arguments)) for use in entry.uses]
                shown = {"text": self.text(entry.text), "thought": self.text(entry.thought), "uses": uses}
                shown["vendor"] = self._vendor(entry.vendor)
            case Held():
                shown = {"reply": self.entry(entry.reply), "answer": entry.answer and self.entry(entry.answer)}
            case Results() | News():
                shown = {"items": [self._result(item) for item in entry.items]}
            case Answer() | Decision() if self.secrets is not None:
                shown = {"value": hide_said(entry.value, self.secrets)}
            case PlanState():
                shown = {"plan": self.plan(entry.plan)}
            case HandedOver():
                shown = {"reason": self.text(entry.reason)}
            case Tried():
                shown = {"error": self.text(entry.error)}
            case Ended():
                shown = {"text": self.text(entry.text), "error": self.text(entry.error)}
                if self.secrets is not None:
                    shown["value"] = hide_said(entry.value, self.secrets)
        return msgspec.structs.replace(entry, **shown)

    def plan(self, body: dict[str, Any] | None) -> dict[str, Any] | None:
        if body is None or self.secrets is None:
            return body
        steps = [{**step, "text": self.text(step["text"]), "notes": self.text(step["notes"])} for step in body["steps"]]
        return {**body, "title": self.text(body["title"]), "steps": steps}

    def _result(self, item: Result) -> Result:
        text = self.text(item.text)
        return msgspec.structs.replace(item, text=text, files=list(shown_in(text, item.files)))

    def _arguments(self, id: str, arguments: str) -> str:
        return self.text(self._shown.get(id, arguments))

    def _vendor(self, vendor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """None if it holds a value: vendors accept their own data only unchanged."""
        if vendor is None or self.secrets is None:
            return vendor
        plain = dict(vendor)
        return vendor if hide_said(plain, self.secrets) == hide(plain) else None


def _parsed(arguments: str) -> Any:
    try:
        found = decode(arguments or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if type(found) is dict else None


def masked_deltas(
    values: SensitiveValues, tell: Callable[[Delta], None]
) -> tuple[Callable[[Delta], None], Callable[[], None]]:
    """`(take, end)`: `take` passes the deltas of one reply on with the values masked; `end` passes on the rest.

    Deltas of the arguments of a tool with sensitive fields are dropped: readers get the masked call when it is recorded.
    """
    names: dict[int, str] = {}
    windows: dict[str, Window] = {}
    if values.secrets is not None:
        windows = {"text": Window(values.secrets), "thought": Window(values.secrets)}

    def take(piece: Delta) -> None:
        window = windows.get(piece.kind)
        if piece.kind == "name":
            names[piece.use] = names.get(piece.use, "") + piece.text
        elif piece.kind == "arguments" and values.fields_of(names.get(piece.use, "")):
            return
        elif window is not None:
            piece = Delta(piece.kind, window.push(piece.text))
            if not piece.text:
                return
        tell(piece)

    def end() -> None:
        for kind, window in windows.items():
            rest = window.flush()
            if rest:
                tell(Delta("thought" if kind == "thought" else "text", rest))

    return take, end
