"""Text that is safe to print: untrusted text with its invisible characters marked or escaped, and values without their secrets.

A person who decides about a call must read what runs. A character that turns text around, hides a part of it or takes no space is therefore
shown as a mark: `⟨U+202E⟩`. Letters of all scripts stay as they are. `web/src/model/printable.ts` has the same table for the console; a
test compares them.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

__all__ = ["INVISIBLE", "IN_PROSE", "escaped", "escaped_json", "indented", "js_class", "marked", "repr_without"]

_INDENT = "    "

INVISIBLE = (
    (0x00, 0x1F), (0x7F, 0x9F),  # control characters
    (0xAD, 0xAD), (0x34F, 0x34F),  # soft hyphen, combining grapheme joiner
    (0x61C, 0x61C),  # Arabic letter mark
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),  # fillers and selectors of Hangul, Khmer, Mongolian
    (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),  # zero width, separators, direction
    (0x2800, 0x2800), (0x3164, 0x3164),  # blank Braille, Hangul filler
    (0xD800, 0xDFFF),  # halves of characters
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),  # selectors, byte order mark, filler, annotations
    (0x13430, 0x1345F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),  # hieroglyphs, shorthand, music: layout
    (0xE0000, 0xE0FFF),  # tags, selectors
)  # fmt: skip
"""First and last of each range: all that is invisible, reorders text or has no shape. Line breaks and tabs are exempt where lines stay."""
IN_PROSE = ((0xAD, 0xAD), (0x180B, 0x180F), (0x200B, 0x200D), (0x2060, 0x2060), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Of these, what ordinary texts need and what changes no order: joiners, variation selectors, places to break a line."""


def _class(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


_ALL = re.compile(f"[{_class(INVISIBLE)}]")
_NOT_IN_PROSE = re.compile(f"(?![{_class(IN_PROSE)}])[{_class(INVISIBLE)}]")


def marked(text: str, *, lines: bool = False, prose: bool = False, around: tuple[str, str] = ("", "")) -> str:
    """Invisible characters as `⟨U+202E⟩`. `lines`: line breaks and tabs stay. `prose`: joiners and selectors stay, too; never for what a
    person decides about, or for ids. `around`: text before and after each mark, such as tags of HTML."""
    before, after = around

    def mark(found: re.Match[str]) -> str:
        return found[0] if lines and found[0] in "\n\t" else before + _mark(found[0]) + after

    return (_NOT_IN_PROSE if prose else _ALL).sub(mark, text)


def escaped(text: str, *, lines: bool = False) -> str:
    """Invisible characters as escapes, for logs: `\\x1b`, `\\n`. `lines`: line breaks and tabs stay."""

    def escape(found: re.Match[str]) -> str:
        return found[0] if lines and found[0] in "\n\t" else _escape(found[0])

    return _ALL.sub(escape, text)


# A text can consist of invisible characters, but there are only some thousands of these: each is turned into its escape once.
@cache
def _mark(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


@cache
def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


@cache
def _json_escape(character: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _units(character))


def indented(text: str) -> str:
    """Every line begins with four spaces, so that none looks like the beginning of a log record. An indented text stays as it is."""
    lines = text.split("\n")
    return text if all(line.startswith(_INDENT) for line in lines) else "\n".join(_INDENT + line for line in lines)


def escaped_json(text: str) -> str:
    """The same JSON value, without invisible characters in its strings."""
    return _ALL.sub(lambda found: _json_escape(found[0]), text)


def _units(character: str) -> tuple[int, ...]:
    """Of UTF-16."""
    code = ord(character)
    return (code,) if code < 0x10000 else (0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF))


def js_class(ranges: tuple[tuple[int, int], ...] = INVISIBLE) -> str:
    """The ranges as the content of a character class of JavaScript, for a regular expression with the flag `u`."""
    return "".join(f"\\u{{{first:X}}}-\\u{{{last:X}}}" for first, last in ranges)


def repr_without(value: msgspec.Struct, *secrets: str) -> str:
    """The `repr` of a struct; fields that hold secrets are shown as `(hidden)` unless they are empty. A traceback or a debugger may
    print it."""
    shown = (
        f"{name}={'(hidden)' if name in secrets and found else repr(found)}"
        for name in value.__struct_fields__
        for found in (getattr(value, name),)
    )
    return f"{type(value).__name__}({', '.join(shown)})"
