"""Values of declared fields (`@tool(sensitive=[…])`) that a model wrote into the arguments of a tool call. Only the model and the tool
get them: the turn's record, its events and the thread's history have the mask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from clicket.model.chat import ChatMessage, Delta, ToolUse
from clicket.model.codec import decode, encode
from clicket.vault import MASK, Secrets, Window, hide, hide_said, hide_text, look, still_masked, together, watch_for

__all__ = ["DeclaredValues", "shown_deltas"]

Entry = dict[str, Any]
_ALL = encode({"arguments": MASK}).decode()
"""In place of arguments that cannot be read as an object: which part of them is declared is not known."""


class DeclaredValues:
    """Of one turn and its forks. `sensitive(tool)` are the fields that a tool declares."""

    def __init__(self, sensitive: Callable[[str], frozenset[str]]) -> None:
        self.sensitive: Callable[[str], frozenset[str]] = sensitive
        self.secrets: Secrets | None = None
        """The values so far; None: there are none."""
        self._shown: dict[str, str] = {}

    def take(self, uses: Iterable[ToolUse]) -> None:
        """Learn the values in new tool calls."""
        for use in uses:
            declared = self.sensitive(use.name)
            if not declared:
                continue
            arguments = _read(use.arguments)
            found = None if arguments is None else look(arguments, None, declared, refuse=False)
            self._shown[use.id] = _ALL if found is None else encode(found.arguments).decode()
            self.secrets = together(self.secrets, found)
            if self.secrets is not None:
                watch_for(self.secrets)

    def is_masked(self, use: ToolUse) -> bool:
        """Did the model write the mask in place of a value that it was not shown? The tool must not run with it."""
        return bool(self.sensitive(use.name)) and MASK in use.arguments and still_masked(_read(use.arguments))

    # As it is shown. Without declared values everything is shown as it is.

    def text(self, text: str) -> str:
        return text if self.secrets is None else hide_text(text, self.secrets)

    def message(self, message: ChatMessage) -> ChatMessage:
        if self.secrets is None and not self._shown:
            return message
        if message.role == "user":  # what a person wrote stays as it was written
            return message
        return msgspec.structs.replace(
            message,
            content=self.text(message.content),
            thought=self.text(message.thought),
            uses=tuple(msgspec.structs.replace(use, arguments=self._arguments(use.id, use.arguments)) for use in message.uses),
            vendor=self._vendor(message.vendor),
        )  # fmt: skip

    def entry(self, entry: Entry) -> Entry:
        """An entry of the turn's record. Numbers and names of the entry's own are not looked at."""
        if self.secrets is None and not self._shown:
            return entry
        shown = dict(entry)
        for name in ("text", "thought", "error"):
            if type(entry.get(name)) is str:
                shown[name] = self.text(entry[name])
        if "uses" in entry:
            shown["uses"] = [[id, name, self._arguments(id, arguments)] for id, name, arguments in entry["uses"]]
        if "vendor" in entry and self._vendor(entry["vendor"]) is None:
            del shown["vendor"]
        if "items" in entry:
            shown["items"] = [{**item, "text": self.text(item["text"])} for item in entry["items"]]
        if "plan" in entry:
            shown["plan"] = self.plan(entry["plan"])
        return shown

    def plan(self, body: Entry | None) -> Entry | None:
        if body is None or self.secrets is None:
            return body
        steps = [{**step, "text": self.text(step["text"]), "notes": self.text(step["notes"])} for step in body["steps"]]
        return {**body, "title": self.text(body["title"]), "steps": steps}

    def _arguments(self, id: str, arguments: str) -> str:
        return self.text(self._shown.get(id, arguments))

    def _vendor(self, vendor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Left out if it holds a value: a vendor takes its own words unchanged, or not at all."""
        if vendor is None or self.secrets is None:
            return vendor
        plain = dict(vendor)
        return vendor if hide_said(plain, self.secrets) == hide(plain) else None


def _read(arguments: str) -> Any:
    try:
        found = decode(arguments or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if type(found) is dict else None


def shown_deltas(
    values: DeclaredValues, tell: Callable[[Delta], None]
) -> tuple[Callable[[Delta], None], Callable[[], None]]:
    """Passes on the pieces of one answer without declared values; and what tells the rest, when the answer is whole.

    Pieces of the arguments of a tool with declared fields are not told at all: the whole call is, once it is on record.
    """
    names: dict[int, str] = {}
    windows: dict[str, Window] = {}
    if values.secrets is not None:
        windows = {"text": Window(values.secrets), "thought": Window(values.secrets)}

    def take(piece: Delta) -> None:
        window = windows.get(piece.kind)
        if piece.kind == "name":
            names[piece.use] = names.get(piece.use, "") + piece.text
        elif piece.kind == "arguments" and values.sensitive(names.get(piece.use, "")):
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
