"""`Check`: one rule about what an agent is told, answers, calls and reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from clicket.errors import UsageError, did_you_mean

__all__ = ["Check", "On"]

On = Literal["input", "output", "tool_call", "tool_result"]
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OF_TOOLS = ("tool_call", "tool_result")


class Check:
    """`Check(fn, on="output")`: `fn(turn, value)` returns `Pass()`, `Change(value)`, `Refuse(text)` or `Ask(text)`, and may be async. The
    value is a text for `input` (the message) and `output` (the answer; JSON if it is typed), a `ToolCall` for `tool_call`, and a
    `ToolResult` for `tool_result`. A check that raises refuses.

    `tools`: the names of the tools whose calls or results are checked, which may have `*`; the default is all. `name`: as it is recorded;
    the default is that of the function.
    """

    __slots__ = ("function", "label", "name", "on", "tools")

    def __init__(
        self,
        fn: Callable[..., Any],
        on: On,
        tools: Iterable[str] | None = None,
        name: str | None = None,
    ) -> None:
        if on not in get_args(On):
            known = get_args(On)
            raise UsageError(
                f"Check(on={on!r:.60}): it is one of {', '.join(map(repr, known))}.{did_you_mean(str(on), known)}"
            )
        if not callable(fn) or isinstance(fn, type):
            raise UsageError(f"Check({fn!r:.100}): a check is a function of the turn and the value to check.")
        fits = getattr(fn, "fits", None)
        if fits is not None and on not in fits:
            raise UsageError(f"Check({_name_of(fn)}): it checks {' and '.join(fits)}, not {on}.")
        if tools is not None and (isinstance(tools, str) or on not in _OF_TOOLS):
            why = "is a list of names" if on in _OF_TOOLS else f"is for {' and '.join(_OF_TOOLS)}, not for {on}"
            raise UsageError(f"Check(tools={tools!r:.60}): tools {why}.")
        self.name: str = _name_of(fn) if name is None else name
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(
                f"a check needs a name, not {self.name!r:.60}: up to 64 letters, digits, '_', '-' or '.'. Write Check(…, name='…')."
            )
        self.function: Callable[..., Any] = fn
        self.on: On = on
        self.tools: tuple[str, ...] | None = None if tools is None else tuple(sorted(set(tools)))
        terms = ", ".join((*(self.tools or ()), *getattr(fn, "terms", ())))
        self.label: str = f"{on}:{self.name}({terms})" if terms else f"{on}:{self.name}"
        """All of it that the digest of an agent has."""

    def __repr__(self) -> str:
        return f"<check {self.label}>"

    def covers(self, tool: str) -> bool:
        return self.tools is None or any(fnmatchcase(tool, pattern) for pattern in self.tools)


def _name_of(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", "") or getattr(fn, "name", "") or type(fn).__name__)
