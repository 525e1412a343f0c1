"""Draws a search: its rounds on stderr while it runs, the answer and its sources on stdout. Text from outside is cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.text import Text

from clicket.cli.formatting import count_of, duration, one_line
from clicket.cli.terminal import Terminal, clean
from clicket.model import ToolResult

__all__ = ["SearchView", "print_answer"]

_TITLES = 3
"""Titles that are shown of the documents that a query found."""
_WIDTH = 60


class LineOutput(Protocol):
    """A terminal, or what prints the tour."""

    @property
    def plain(self) -> bool: ...

    def say(self, text: str | Text, *, style: str = ...) -> None: ...


class SearchView:
    """Draws the messages of a search in their order."""

    def __init__(self, output: LineOutput) -> None:
        self._output = output
        self._known: set[str] = set()

    def take(self, message: Mapping[str, Any]) -> None:
        draw = getattr(self, f"_{message['messageType']}", None)
        if draw is not None:
            draw(message)

    def _state(self, message: Mapping[str, Any]) -> None:
        if message.get("resumed"):
            self._output.say(clean(message["message"]), style="yellow")

    def _extend(self, message: Mapping[str, Any]) -> None:
        self._output.say(f"Round {message['loop']}", style="bold")

    def _search(self, message: Mapping[str, Any]) -> None:
        found = message["searchResult"]
        failed = found.get("failed") or [None] * len(found["query"])
        for query, documents, error in zip(found["query"], found["docs"], failed, strict=True):
            new = [one for one in documents if one["id"] not in self._known]
            self._known.update(one["id"] for one in documents)
            self._output.say(self._line(query, documents, new, error))

    def _line(self, query: str, documents: list[Any], new: list[Any], error: str | None) -> Text:
        ok, bad = ("+", "x") if self._output.plain else ("✓", "✗")
        if error is not None:
            return Text.assemble((f"  {bad} ", "red"), clean(query), (f"  failed: {clean(error)}", "red"))
        amount = f"  {len(new)} new of {len(documents)}" if documents else "  nothing"
        titles = ", ".join(one_line(one["title"] or one["id"], 30) for one in new[:_TITLES])
        more = ", …" if len(new) > _TITLES else ""
        shown = f": {titles}{more}" if titles else ""
        return Text.assemble((f"  {ok} ", "green"), one_line(query, _WIDTH), (f"{amount}{shown}", "bright_black"))


def print_answer(terminal: Terminal, result: ToolResult, saved: list[str]) -> None:
    """The answer, its sources, and how it was found."""
    output = result.output
    terminal.write_text(output["answer"].rstrip("\n") + "\n")
    if output["citations"]:
        terminal.write("\nSources\n")
        titles = {one["id"]: one for one in output["documents"]}
        for number, citation in enumerate(output["citations"], 1):
            terminal.write_text(f"[{number}] {_source(citation, titles.get(citation['doc']))}\n")
    for note in output["notes"]:
        terminal.say(clean(note), style="yellow")
    for statement in output["unsupported"]:
        terminal.say(f"left out, because no source says so: {clean(statement)}", style="yellow")
    rounds = len(output["rounds"])
    found = output["documents_found"]
    how = "from the cache" if result.cached else duration(result.duration)
    parts = [count_of(found, "document"), count_of(rounds, "round"), how, f"clicket show {result.call_id}"]
    terminal.say(" · ".join([*parts, *(f"saved {path}" for path in saved)]), style="bright_black")


def _source(citation: Mapping[str, Any], document: Mapping[str, Any] | None) -> str:
    """The source of a quotation: title, place, characters."""
    place = f"characters {citation['start']}-{citation['end']}"
    if document is None:
        return f"{citation['doc']}, {place}"
    where = document["url"] if document["url"].startswith(("http:", "https:")) else _relative(document["source"])
    title = document["title"] or document["id"]
    return f"{title}, {place}" if where in ("", title, "index") else f"{title} ({where}), {place}"


def _relative(source: str) -> str:
    """The path of a file, relative to the working directory if it is inside."""
    path = Path(source)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else source
