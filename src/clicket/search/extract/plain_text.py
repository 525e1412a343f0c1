"""Plain text, Markdown, source code and HTML files. All but HTML stay as they are, so that a quote stands in the file literally."""

from __future__ import annotations

import re

from clicket.model.text.charset import declared_in, decode_text, is_binary
from clicket.search.extract.extracted_text import Extracted, Heading, Unreadable
from clicket.search.extract.html import extract_html

__all__ = ["extract_code", "extract_html_file", "extract_markdown", "extract_text", "markdown"]

_KEY = b"PRIVATE KEY-----"
_MAX_HEADING = 200
_MAX_HEADINGS = 20_000
_LINE = re.compile(r"[^\n]*\n?")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_ANY_UNDERLINE = re.compile(r"\n[=\-~^*]{3}")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,}|~{3,}|\^{3,}|\*{3,})[ \t]*$")
_FRONT_TITLE = re.compile(r"^title[ \t]*+[:=][ \t]*+([^\n]++)$", re.MULTILINE)
_FRONT = re.compile(r"(---|\+\+\+)[ \t]*\n")
_FRONT_MAX = 20_000
_MAX_TITLE = 300


def extract_text(data: bytes) -> Extracted:
    """Plain text. Its headings are the underlined lines, as in reStructuredText."""
    text = _decoded(data)
    headings = _headings(text, marked=False) if _ANY_UNDERLINE.search(text) else ()
    return Extracted(title=_title(headings, text), text=text, headings=headings)


def extract_html_file(data: bytes) -> Extracted:
    """An HTML file. If it declares no encoding, the encoding is detected."""
    return extract_html(data if declared_in(data) else _decoded(data))


def extract_code(data: bytes) -> Extracted:
    return Extracted(text=_decoded(data))


def extract_markdown(data: bytes) -> Extracted:
    return markdown(_decoded(data))


def markdown(text: str) -> Extracted:
    """Markdown text. Its title is that of the front matter, or the first heading."""
    front, end = _front_matter(text)
    headings = _headings(text, end, marked=True)
    return Extracted(title=front or (headings[0].text if headings else ""), text=text, headings=headings)


def _decoded(data: bytes) -> str:
    if is_binary(data):
        raise Unreadable("it is not text")
    if _KEY in data[:200]:
        raise Unreadable("it is a private key, which must not be searchable")
    return decode_text(data)


def _title(headings: tuple[Heading, ...], text: str) -> str:
    """The first heading, if no text stands above it."""
    return headings[0].text if headings and not text[: headings[0].start].strip("=-~^* \t\n") else ""


def _front_matter(text: str) -> tuple[str, int]:
    """The title in the front matter, and the offset of its end."""
    opened = _FRONT.match(text)
    if opened is None:
        return "", 0
    end = text.find(f"\n{opened[1]}", opened.end() - 1, _FRONT_MAX)
    if end < 0:
        return "", 0
    found = _FRONT_TITLE.search(text, opened.end(), end)
    title = found[1].rstrip(" \t") if found else ""
    return (title.strip("\"'") if len(title) <= _MAX_TITLE else ""), end + 1 + len(opened[1])


def _headings(text: str, at: int = 0, *, marked: bool) -> tuple[Heading, ...]:
    """The underlined lines and, if it is `marked` (Markdown), those with hash marks. Code in fences has none."""
    found: list[Heading] = []
    levels = {"=": 1, "-": 2} if marked else {}
    fence, above, start_above = "", "", at  # an underline makes the line above it a heading
    for match in _LINE.finditer(text, at):
        line = match[0].rstrip("\n")
        start = match.start()
        opened = _FENCE.match(line) if marked else None
        if fence or opened:
            closes = fence and opened and opened[1].startswith(fence) and not line.strip(" `~")
            fence, above = "" if closes else fence or (opened[1] if opened else ""), ""
            continue
        hashes = _ATX.match(line) if marked else None
        if hashes:
            _append(found, _unclosed(line[hashes.end() :]), start + hashes.end(), len(hashes[1]))
        elif (
            above
            and _UNDERLINE.match(line)
            and (line[0] in levels if marked else len(line.rstrip()) >= len(above.rstrip()))
        ):
            _append(found, above, start_above, levels.setdefault(line[0], len(levels) + 1))
        above = line if _may_be_heading(line) and not hashes else ""
        start_above = start
        if len(found) >= _MAX_HEADINGS:
            break
    return tuple(found)


def _unclosed(line: str) -> str:
    """The line without closing hash marks."""
    plain = line.rstrip()
    bare = plain.rstrip("#")
    return bare if not bare or bare[-1] in " \t" else plain


def _may_be_heading(line: str) -> bool:
    return bool(line) and len(line) <= _MAX_HEADING and line[0] not in " \t|>-=~^*+`" and not line.isspace()


def _append(found: list[Heading], line: str, start: int, level: int) -> None:
    text = line.strip()
    if text:
        found.append(Heading(text=text[:_MAX_HEADING], start=start + line.index(text), level=level))
