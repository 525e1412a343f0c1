"""What the worker keeps for itself: a program may break `builtins` and every module, and breaks only itself."""

from __future__ import annotations

import builtins

TYPE_CHECKING = False  # the checkers know the name; `typing` itself costs milliseconds at each start
if TYPE_CHECKING:
    from typing import Any

__all__ = ["BUILTINS", "clean", "cut", "give_back"]

BUILTINS: dict[str, Any] = dict(vars(builtins))
"""A module of the worker sets `__builtins__` to this before it defines its functions: they look their names up here."""

globals()["__builtins__"] = BUILTINS


def give_back() -> None:
    """Names that the program removed from `builtins` are there again; what it replaced stays replaced, as it wished."""
    theirs = vars(builtins)
    if len(theirs) < len(BUILTINS) or any(name not in theirs for name in BUILTINS):
        for name, value in BUILTINS.items():
            theirs.setdefault(name, value)


def clean(text: str) -> str:
    """Text that UTF-8 can say: lone surrogates are written as escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, and a note of how many are missing."""
    if len(text) <= limit:
        return clean(text)
    return f"{clean(text[:limit])}… ({len(text) - limit} more characters)"
