"""The tools that programs may use: named in the options, found in the runtime's registry. Nothing else is reachable, and no code
interpreter is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clicket.errors import did_you_mean
from clicket.interpreter.tool.signatures import Signature, attributes_of, signature_of
from clicket.tools import Tool

__all__ = ["ProgramTools"]

_MAX_LISTED = 16 * 1024
"""Characters of the list that the model reads; `help(tools.NAME)` in a program has the rest."""
_HOW = (
    " The code can use tools: `tools.NAME(argument=value)` returns the tool's output or raises ToolError (code, message); in async "
    "code `await tools.NAME(...)`, and asyncio.gather for several at once. Loop, filter and combine in one program instead of making "
    "many calls, and print only what is needed. Tools:"
)
_FETCH = (
    " `fetch(url, method='GET', headers=None, body=None, json=None)` (or `await fetch(...)`) returns a response (status, headers, text, "
    "json(), content) of these hosts: {}."
)


class ProgramTools:
    """`find` returns a registered tool by its name, or None. `fetch` is the name of the tool that fetches URLs of `hosts`."""

    def __init__(
        self,
        names: Sequence[str],
        find: Callable[[str], Tool | None],
        *,
        is_reachable: Callable[[Tool], bool],
        fetch: str = "",
        hosts: Sequence[str] = (),
    ) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._find = find
        self._is_reachable = is_reachable
        self._fetch = fetch
        self._hosts = hosts
        self._seen: tuple[Tool, ...] | None = None
        self._signatures: tuple[Signature, ...] = ()
        self._listing: dict[str, Any] = {}
        self._text = ""

    @property
    def listing(self) -> dict[str, Any]:
        """For the program: the same object while the registered tools are the same."""
        self._refresh()
        return self._listing

    @property
    def text(self) -> str:
        """For the model."""
        self._refresh()
        return self._text

    @property
    def names(self) -> frozenset[str]:
        """What a program may use now."""
        self._refresh()
        return frozenset(each.name for each in self._signatures) | ({self._fetch} if self._fetch else set())

    def is_known(self, name: str) -> bool:
        """Is it a tool of the runtime, if not of the program?"""
        return self._find(name) is not None

    def missing(self, name: str) -> str:
        have = [each.name for each in self._signatures]
        return f"this program has no tool {name[:100]!r}.{did_you_mean(name[:100], have)} Its tools: {', '.join(have) or 'none'}."

    def _refresh(self) -> None:
        """Tools may join and leave the registry at any time."""
        found = tuple(
            tool for name in self._names if (tool := self._find(name)) is not None and self._is_reachable(tool)
        )
        if found == self._seen:
            return
        self._seen = found
        attributes: Mapping[str, str] = attributes_of(tool.name for tool in found)
        self._signatures = tuple(signature_of(tool, attributes[tool.name]) for tool in found)
        self._listing = {"tools": [each.entry() for each in self._signatures], "fetch": self._fetch or None}
        self._text = self._described()

    def _described(self) -> str:
        parts: list[str] = []
        if self._signatures:
            lines = [_HOW]
            size = 0
            for number, each in enumerate(self._signatures):
                called = (
                    f"tools.{each.text}" if each.attribute else f"tools[{each.name!r}]{each.text[len(each.name) :]}"
                )
                line = f"- {called}" + (f"  # {each.summary}" if each.summary else "")
                size += len(line)
                if size > _MAX_LISTED:
                    lines.append(f"- and {len(self._signatures) - number} more: list(tools), help(tools.NAME)")
                    break
                lines.append(line)
            parts.append("\n".join(lines))
        if self._fetch:
            parts.append(_FETCH.format(", ".join(self._hosts)))
        return "\n".join(parts)
