"""The main text of an HTML page: what a reader came for, without menus, banners and scripts. Headings, lists and tables stay.

Linear in the page and without recursion, whatever the page is: it may be a stranger's. Nothing is looked up or fetched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from clicket.search.extract.charset import declared_in, decode
from clicket.search.extract.extracted import Extracted, Heading
from clicket.search.extract.markup import attributes, tokens, unescape

__all__ = ["extract_html", "plain_text"]

MAX_SIZE = 8 * 1024 * 1024
MAX_TOKENS = 300_000
"""No page that people read has as many tags; each costs microseconds, which a stranger should not multiply at will."""

_NEVER = frozenset(
    "svg template noscript select datalist object canvas audio video map script style iframe noembed noframes".split()
)
_BOILERPLATE = frozenset("nav footer aside dialog menu".split())
_MAIN = frozenset({"main", "article"})
# The ones that hold others. Only they are kept track of; `p`, `li` and `td` are so often left open that they mean no more
# than that something new begins.
_CONTAINERS = (
    _NEVER
    | _BOILERPLATE
    | _MAIN
    | frozenset("html body div section header ul ol dl table form details figure fieldset blockquote center".split())
)
_BREAKS = frozenset("p li dt dd tr h1 h2 h3 h4 h5 h6 pre hr address caption figcaption summary legend option".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INLINE_HIDDEN = {
    "sup": ("reference",),
    "span": ("editsection", "sr-only", "visually-hidden", "screen-reader"),
    "a": ("headerlink", "doc-anchor"),
}
"""Marks of references, links to edit and to a heading itself: by words in their attributes."""

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
_ODD = str.maketrans(dict.fromkeys("\x00\u00ad\u200b\u2060\ufeff" + _CELL))
_SPACE = re.compile(r"[^\S\n]+")
_TITLE_REST = re.compile(r"\s*[-|–—·:»«•]")

HIDDEN, MENU, MAIN = 1, 2, 4


class Block(msgspec.Struct, frozen=True):
    """A paragraph, a heading, an item, a row. `linked` is how much of it is links, from 0 to 1."""

    text: str
    kind: str
    flags: int
    linked: float


def extract_html(data: bytes | str, *, charset: str | None = None, max_size: int = MAX_SIZE) -> Extracted:
    """Title, main text and headings of a page. `charset` is what its sender said; the rest of a longer page is not read."""
    truncated = len(data) > max_size
    data = data[:max_size]
    page = _Page()
    whole = page.read(decode(data, charset, declared_in(data)) if isinstance(data, bytes) else data)
    text, headings = _joined(_chosen(page.blocks))
    return Extracted(title=page.best_title(), text=text, headings=headings, truncated=truncated or not whole)


def plain_text(markup: str, *, max_size: int = 100_000) -> str:
    """A piece of HTML, such as a search result's snippet, as one line of text."""
    parts = (unescape(written) for kind, _, written in tokens(markup[:max_size]) if kind == "text")
    return " ".join("".join(parts).translate(_ODD).split())


class _Page:
    """Reads a page into blocks. The stack knows, for each container that is open, what it does to the text in it."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title = ""
        self._told_title = ""
        self._names: list[str] = []
        self._flags = bytearray()
        self._open: dict[str, int] = {}
        self._count = 0
        self._now = 0  # the flags of the innermost container, which has those of all around it
        self._parts: list[str] = []
        self._linked = self._length = 0
        self._kind = "p"
        self._in_link = self._in_row = self._in_title = False
        self._hidden_name, self._hidden_depth = "", 0

    def read(self, text: str) -> bool:
        """False: it was not read to its end."""
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
        """Sites put their name behind the title; where the page's own heading says how far the title goes, it is cut there."""
        title = self.title or self._told_title
        first = next((block.text for block in self.blocks if block.kind == "h1"), "")
        if not title:
            return first
        if len(first) > 1 and title.startswith(first) and _TITLE_REST.match(title, len(first)):
            return first
        return title

    def _text(self, written: str) -> None:
        if self._in_title:
            self.title = self.title or " ".join(unescape(written[:2000]).translate(_ODD).split())
            self._in_title = False
        elif not self._now & HIDDEN and not self._hidden_depth:
            text = unescape(written).translate(_ODD)
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
            item = (
                name == "p" and self._kind in ("li", "dd") and not self._length
            )  # its first paragraph is the item itself
            kind = self._kind if item else name
            self._boundary(row=name == "tr")
            self._kind, self._in_link, self._hidden_depth = kind, False, 0
        elif name in ("td", "th"):
            self._in_row, self._in_link = True, False
            self._parts.append(_CELL)
        elif name == "br":
            self._parts.append("\n")
        elif self._hidden_depth:
            self._hidden_depth += name == self._hidden_name
        elif name in _INLINE_HIDDEN and any(word in written for word in _INLINE_HIDDEN[name]):
            self._hidden_name, self._hidden_depth = name, 1
        elif name == "a":
            self._in_link = True
        elif name == "title":
            self._in_title = not self.title and not self._now & HIDDEN
        elif name == "meta" and not self._told_title and "og:title" in written:
            self._told_title = " ".join(attributes(written).get("content", "").split())

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
        """Close the innermost of this name and all in it. One that is not open is not looked for, so this stays linear."""
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
            flags |= _told(attributes(written), menus=name not in _MAIN)
        return flags

    def _boundary(self, *, row: bool = False) -> None:
        """Something new begins. Inside a row that is a new line, so that the cells of a row stay together."""
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


def _told(given: dict[str, str], *, menus: bool) -> int:
    """What its attributes say that an element is."""
    if (
        "hidden" in given
        or given.get("aria-hidden") == "true"
        or "display:none" in given.get("style", "").replace(" ", "")
    ):
        return HIDDEN
    role = given.get("role", "").lower()
    names = f"{given.get('id', '')} {given.get('class', '')}".lower().split()[:40]
    if role in ("main", "article") or not _MAIN_NAMES.isdisjoint(names) or given.get("itemprop") == "articleBody":
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
    # A row of short cells is a row; tables that were used to lay out a page have whole texts in their cells.
    if len(cells) > 1 and all(len(cell) <= 200 for cell in cells):
        return " | ".join(cell.replace("\n", " ") for cell in cells)
    return "\n".join(cells)


def _size(blocks: Sequence[Block]) -> int:
    return sum(len(block.text) for block in blocks)


def _chosen(blocks: Sequence[Block]) -> Sequence[Block]:
    """The part that is marked as the main one if there is enough of it, else what is no menu, else everything."""
    body = [block for block in blocks if not block.flags & MENU]
    main = [block for block in body if block.flags & MAIN]
    if _size(main) >= 140 or _size(main) * 2 > _size(body):
        return main  # with its lists of links: there they are part of the text
    kept = [block for block in body if block.kind in _HEADINGS or block.linked < 0.6 or len(block.text) > 200]
    for choice in (kept, body):
        if _size(choice) >= 200 or _size(choice) * 5 >= _size(blocks):
            return choice
    return blocks


def _joined(blocks: Sequence[Block]) -> tuple[str, tuple[Heading, ...]]:
    parts: list[str] = []
    headings: list[Heading] = []
    at, before = 0, ""
    for block in blocks:
        if parts:
            gap = "\n" if block.kind == before and block.kind in ("li", "tr", "dt", "dd") else "\n\n"
            parts.append(gap)
            at += len(gap)
        if block.kind in _HEADINGS:
            headings.append(Heading(text=block.text, start=at, level=_HEADINGS[block.kind]))
        parts.append(block.text)
        at += len(block.text)
        before = block.kind
    return "".join(parts), tuple(headings)
