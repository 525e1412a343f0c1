"""Finds the links of a text as browsers and Markdown read them, and the host that each leads to."""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = ["as_rendered", "host_of", "links_in", "plain_host", "without_links"]

_LINK = re.compile(
    r"(?:(?<![A-Za-z0-9+.-])(?:(?:https?|wss?|ftps?):|[A-Za-z][A-Za-z0-9+.-]{0,30}://)"  # browsers read http:host as http://host
    r"|(?<![^\s(\[<\"'`=>])[/\\]{2}(?=[^\s/\\.]{1,63}\.)"  # with the scheme of the page
    r"|(?<![A-Za-z0-9.-])www\.)"
    r"[^\s<>\"'`()\[\]{}|]+",
    re.IGNORECASE,
)
_BEFORE_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]{0,30}:)?[/\\]*")
_AFTER_HOST = re.compile(r"[/\\?#]")
_NO_HOST = re.compile("[，；：！？、）》」』】”’]")
"""Punctuation that ends a link in Chinese and Japanese texts, and is in no host."""
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_AROUND = ".,;:!?*_~'"


def links_in(text: str) -> list[str]:
    return [match[0] for match in _LINK.finditer(text)]


def without_links(text: str, is_allowed: dict[str, bool], word: str) -> str:
    """The text with `word` in place of each link that is not allowed; `is_allowed`: by link."""
    return _LINK.sub(lambda match: match[0] if is_allowed[match[0]] else word, text)


def as_rendered(text: str) -> str:
    """The text without the escapes of HTML and Markdown, in which a link can be hidden."""
    return _ESCAPE.sub(r"\1", html.unescape(text))


def host_of(link: str) -> str:
    """The host that a link leads to, in lower case; empty if it cannot be read."""
    start = _BEFORE_HOST.match(link)
    rest = link if start is None else link[start.end() :]
    authority = _AFTER_HOST.split(rest, maxsplit=1)[0].rpartition("@")[2]
    authority = _NO_HOST.split(authority, maxsplit=1)[0]
    return plain_host(authority.rstrip(_AROUND).partition(":")[0])


def plain_host(host: str) -> str:
    """In the one form in which hosts can be compared."""
    plain = unicodedata.normalize("NFKC", host).lower().replace("\u3002", ".").rstrip(".")
    try:
        return plain.encode("idna").decode()
    except UnicodeError:
        return plain
