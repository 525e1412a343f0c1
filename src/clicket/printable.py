"""Text that is safe to print: untrusted text with its control characters escaped, so that it cannot move a terminal's cursor or add lines
to a log, and values without their secrets."""

from __future__ import annotations

import re

import msgspec

__all__ = ["escaped", "escaped_json", "indented", "repr_without"]

_INDENT = "    "

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str, *, lines: bool = False) -> str:
    """Control characters as escapes: `\\x1b`, `\\n`. `lines`: line breaks and tabs stay."""

    def escape(found: re.Match[str]) -> str:
        return found[0] if lines and found[0] in "\n\t" else found[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escape, text)


def indented(text: str) -> str:
    """Every line begins with four spaces, so that none looks like the beginning of a log record. An indented text stays as it is."""
    lines = text.split("\n")
    return text if all(line.startswith(_INDENT) for line in lines) else "\n".join(_INDENT + line for line in lines)


def escaped_json(text: str) -> str:
    """The same JSON value without control characters and line separators in its strings."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def repr_without(value: msgspec.Struct, *secrets: str) -> str:
    """The `repr` of a struct; fields that hold secrets are shown as `(hidden)` unless they are empty. A traceback or a debugger may
    print it."""
    shown = (
        f"{name}={'(hidden)' if name in secrets and found else repr(found)}"
        for name in value.__struct_fields__
        for found in (getattr(value, name),)
    )
    return f"{type(value).__name__}({', '.join(shown)})"
