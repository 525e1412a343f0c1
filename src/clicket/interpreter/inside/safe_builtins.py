"""The child's own copy of the builtins: a program that breaks `builtins` or a module does not break the child."""

from __future__ import annotations

import builtins

TYPE_CHECKING = False  # type checkers treat this name as true; importing `typing` takes milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["BUILTINS", "clean", "cut", "restore_builtins"]

BUILTINS: dict[str, Any] = dict(vars(builtins))
"""Every module of the child sets `__builtins__` to this before it defines functions, which then use this copy."""

globals()["__builtins__"] = BUILTINS


def restore_builtins() -> None:
    """Add the names again that the program removed from `builtins`; names that it replaced stay replaced."""
    theirs = vars(builtins)
    if len(theirs) < len(BUILTINS) or any(name not in theirs for name in BUILTINS):
        for name, value in BUILTINS.items():
            theirs.setdefault(name, value)


def clean(text: str) -> str:
    """Text that UTF-8 can encode: lone surrogates become escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, and a note of how many are missing."""
    if len(text) <= limit:
        return clean(text)
    return f"{clean(text[:limit])}… ({len(text) - limit} more characters)"
