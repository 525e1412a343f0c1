"""The main text of an HTML page, without menus, banners and scripts. Headings, lists and tables stay.

Time and memory are linear in the size of the page, and there is no recursion: a page may be hostile. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from clicket.model.text.charset import declared_in, decode
from clicket.search.extract.extracted_text import Extracted, Heading
from clicket.search.extract.html_tokens import attributes, tokens, unescape

__all__ = ["extract_html", "plain_text"]

MAX_SIZE = 8 * 1024 * 1024
MAX_TOKENS = 300_000
"""Tags and texts that are read. Each costs microseconds, and a page for people has fewer."""

_NEVER = frozenset(
    "svg template noscript select datalist object canvas audio video map script style iframe noembed noframes".split()
)
_BOILERPLATE = frozenset("nav footer aside dialog menu".split())
_MAIN = frozenset({"main", "article"})
# Elements that hold others. Only these are on the stack: `p`, `li` and `td` are so often left open that they only mark the
# begin of a new block.
_CONTAINERS = (
    _NEVER
    | _BOILERPLATE
    | _MAIN
    | frozenset("html body div section header ul ol dl table form details figure fieldset blockquote center".split())
)
_BREAKS = frozenset("p li dt dd tr h1 h2 h3 h4 h5 h6 pre hr address caption figcaption summary legend option".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_TERM_LEVEL = 7
"""The level of a term of a list of definitions, which is a heading for its definition."""
_MAX_TERM = 200
_INLINE_HIDDEN = {
    "sup": ("reference",),
    "span": ("editsection", "sr-only", "visually-hidden", "screen-reader"),
    "a": ("headerlink", "doc-anchor"),
}
"""Reference marks, edit links and links from a heading to itself, recognised by words in their attributes."""

_WORDS = re.compile(r"[a-z0-9]+")
_MENU_WORDS = frozenset(
    "nav navbar navigation navbox menu sidebar footer breadcrumb breadcrumbs cookie cookies consent gdpr advert advertisement "
    "ads promo social share sharing newsletter subscribe popup modal related recommended comments pagination pager masthead "
    "toolbar skip".split()
)
_KEEP_WORDS = frozenset("content main article body has with no without page wrapper container layout".split())
_MENU_ROLES = frozenset("navigation banner contentinfo complementary search dialog menu menubar toolbar".split())
_MAIN_NAMES = frozenset("main-content article-body articlebody post-content entry-content mw-content-text".split())

_CELL = "\x1f"
_INVISIBLE = str.maketrans(dict.fromkeys("\x00\u00ad\u200b\u2060\ufeff" + _CELL))
_SPACE = re.compile(r"[^\S\n]+")
_TITLE_REST = re.compile(r"\s*[-|–—·:»«•]")

HIDDEN, MENU, MAIN = 1, 2, 4


class Block(msgspec.Struct, frozen=True):
    """A paragraph, heading, list item or table row. `linked` is the share of its text that is links, from 0 to 1."""

    text: str
    kind: str
    flags: int
    linked: float


def extract_html(data: bytes | str, *, charset: str | None = None, max_size: int = MAX_SIZE) -> Extracted:
    """Title, main text and headings of a page. `charset` is the encoding that the server declared. Only `max_size` is read."""
    truncated = len(data) > max_size
    data = data[:max_size]
    page = _Page()
    complete = page.read(decode(data, charset, declared_in(data)) if isinstance(data, bytes) else data)
    text, headings = _joined(_main_blocks(page.blocks))
    return Extracted(title=page.best_title(), text=text, headings=headings, truncated=truncated or not complete)


def plain_text(markup: str, *, max_size: int = 100_000) -> str:
    """A piece of HTML, such as the snippet of a search result, as one line of text."""
    parts = (unescape(written) for kind, _, written in tokens(markup[:max_size]) if kind == "text")
    return " ".join("".join(parts).translate(_INVISIBLE).split())


class _Page:
    """Reads a page into blocks. The stack holds, for each open container, the flags of the text in it."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title = ""
        self._meta_title = ""
        self._names: list[str] = []
        self._flags = bytearray()
        self._open: dict[str, int] = {}
        self._count = 0
        self._now = 0  # the flags of the innermost container, which include those of the outer ones
        self._parts: list[str] = []
        self._linked = self._length = 0
        self._kind = "p"
        self._in_link = self._in_row = self._in_title = False
        self._hidden_name, self._hidden_depth = "", 0

    def read(self, text: str) -> bool:
        """Read the page; False when it has more tokens than are read."""
        for kind, name, written in islice(tokens(text), MAX_TOKENS):
            self._count += 1
            if kind == "text":
                self._text(written)
            elif kind == "open":
                self._opened(name, written)
            else:
                self._closed(name)
        self._flush()
        return self._count < MAX_TOKENS

    def best_title(self) -> str:
        """The title without the name of the site, if the first heading shows where the title ends."""
        title = self.title or self._meta_title
        first = next((block.text for block in self.blocks if block.kind == "h1"), "")
        if not title:
            return first
        if len(first) > 1 and title.startswith(first) and _TITLE_REST.match(title, len(first)):
            return first
        return title

    def _text(self, written: str) -> None:
        if self._in_title:
            self.title = self.title or " ".join(unescape(written[:2000]).translate(_INVISIBLE).split())
            self._in_title = False
        elif not self._now & HIDDEN and not self._hidden_depth:
            text = unescape(written).translate(_INVISIBLE)
            if self._kind != "pre":
                text = text.replace("\n", " ").replace("\r", " ")
            self._parts.append(text)
            self._length += len(text)
            self._linked += len(text) if self._in_link else 0

    def _opened(self, name: str, written: str) -> None:
        if name in _CONTAINERS:
            self._boundary()
            self._push(name, self._now | self._flags_of(name, written))
            self._in_link = self._in_link and name not in _MAIN
        elif name in _BREAKS:
            # The first paragraph of a list item is the item itself.
            kind = self._kind if name == "p" and self._kind in ("li", "dd") and not self._length else name
            self._boundary(row=name == "tr")
            self._kind = kind
            self._in_link = False
            self._hidden_depth = 0
        elif name in ("td", "th"):
            self._in_row, self._in_link = True, False
            self._parts.append(_CELL)
        elif name == "br":
            self._parts.append("\n")
        elif self._hidden_depth:
            self._hidden_depth += name == self._hidden_name
        elif name in _INLINE_HIDDEN and any(word in written for word in _INLINE_HIDDEN[name]):
            self._hidden_name = name
            self._hidden_depth = 1
        elif name == "a":
            self._in_link = True
        elif name == "title":
            self._in_title = not self.title and not self._now & HIDDEN
        elif name == "meta" and not self._meta_title and "og:title" in written:
            self._meta_title = " ".join(attributes(written).get("content", "").split())

    def _closed(self, name: str) -> None:
        if name in _CONTAINERS:
            self._boundary(row=name == "table")
            self._pop(name)
        elif name in _BREAKS:
            self._boundary(row=name == "tr")
            self._kind = "p"
        elif self._hidden_depth:
            self._hidden_depth -= name == self._hidden_name
        elif name == "a":
            self._in_link = False
        elif name == "title":
            self._in_title = False

    def _push(self, name: str, flags: int) -> None:
        self._names.append(name)
        self._flags.append(flags)
        self._open[name] = self._open.get(name, 0) + 1
        self._now = flags

    def _pop(self, name: str) -> None:
        """Close the innermost container of this name and all in it. A name that is not open costs nothing, so the time stays linear."""
        if not self._open.get(name):
            return
        while True:
            closed = self._names.pop()
            self._flags.pop()
            self._open[closed] -= 1
            if closed == name:
                break
        self._now = self._flags[-1] if self._flags else 0
        self._hidden_depth = 0

    def _flags_of(self, name: str, written: str) -> int:
        flags = HIDDEN if name in _NEVER else MENU if name in _BOILERPLATE else MAIN if name in _MAIN else 0
        if name == "header" and not self._now & MAIN:
            flags |= MENU
        if written.strip(" /") and name not in ("html", "body", "table"):
            flags |= _attribute_flags(attributes(written), menus=name not in _MAIN)
        return flags

    def _boundary(self, *, row: bool = False) -> None:
        """A new block begins. Inside a row this is only a line break: the cells of a row stay together."""
        if self._in_row and not row:
            self._parts.append("\n")
        else:
            self._flush()
            self._in_row = False

    def _flush(self) -> None:
        if self._length:
            text = _tidy("".join(self._parts), verbatim=self._kind == "pre")
            if text:
                kind = "tr" if self._in_row else self._kind
                self.blocks.append(Block(text, kind, self._now, self._linked / self._length))
        if self._parts:
            self._parts = []
            self._linked = self._length = 0
        self._kind = "p"


def _attribute_flags(found: dict[str, str], *, menus: bool) -> int:
    """The flags that an element's attributes give it."""
    style = found.get("style", "").replace(" ", "")
    if "hidden" in found or found.get("aria-hidden") == "true" or "display:none" in style:
        return HIDDEN
    role = found.get("role", "").lower()
    names = f"{found.get('id', '')} {found.get('class', '')}".lower().split()[:40]
    if role in ("main", "article") or not _MAIN_NAMES.isdisjoint(names) or found.get("itemprop") == "articleBody":
        return MAIN
    if role in _MENU_ROLES:
        return MENU
    for name in names if menus else ():
        words = _WORDS.findall(name)
        if words and (words[0] in _MENU_WORDS or words[-1] in _MENU_WORDS) and _KEEP_WORDS.isdisjoint(words):
            return MENU
    return 0


def _tidy(text: str, *, verbatim: bool) -> str:
    if verbatim:
        return text.replace("\r\n", "\n").replace(_CELL, "").strip("\n").rstrip()
    cells = []
    for cell in text.split(_CELL):
        lines = (line.strip() for line in _SPACE.sub(" ", cell).split("\n"))
        cells.append("\n".join(line for line in lines if line))
    cells = [cell for cell in cells if cell]
    # A row of a data table has short cells. A table that lays out a page has whole texts in its cells.
    if len(cells) > 1 and all(len(cell) <= 200 for cell in cells):
        return " | ".join(cell.replace("\n", " ") for cell in cells)
    return "\n".join(cells)


def _size(blocks: Sequence[Block]) -> int:
    return sum(len(block.text) for block in blocks)


def _main_blocks(blocks: Sequence[Block]) -> Sequence[Block]:
    """The blocks marked as the main text if there are enough of them, else those outside of menus, else all."""
    body = [block for block in blocks if not block.flags & MENU]
    main = [block for block in body if block.flags & MAIN]
    if _size(main) >= 140 or _size(main) * 2 > _size(body):
        return main  # including lists of links, which are content there
    kept = [block for block in body if block.kind in _HEADINGS or block.linked < 0.6 or len(block.text) > 200]
    for choice in (kept, body):
        if _size(choice) >= 200 or _size(choice) * 5 >= _size(blocks):
            return choice
    return blocks


def _joined(blocks: Sequence[Block]) -> tuple[str, tuple[Heading, ...]]:
    parts: list[str] = []
    headings: list[Heading] = []
    at, before = 0, ""
    for number, block in enumerate(blocks):
        if parts:
            gap = "\n" if block.kind == before and block.kind in ("li", "tr", "dt", "dd") else "\n\n"
            parts.append(gap)
            at += len(gap)
        if block.kind in _HEADINGS:
            headings.append(Heading(text=block.text, start=at, level=_HEADINGS[block.kind]))
        elif block.kind == "dt" and number + 1 < len(blocks) and blocks[number + 1].kind == "dd":
            headings.append(Heading(text=block.text[:_MAX_TERM], start=at, level=_TERM_LEVEL))
        parts.append(block.text)
        at += len(block.text)
        before = block.kind
    return "".join(parts), tuple(headings)
