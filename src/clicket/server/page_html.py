"""The frame of the pages that links lead to: no scripts, no images; every text from outside is escaped."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Any

from clicket.model.codec import clean
from clicket.model.printable import marked

__all__ = ["LANGUAGES", "POLICY", "language_of", "page", "policy_for", "shown", "shown_time", "with_marks"]

LANGUAGES = ("en", "zh")
_MAX_TEXT = 4_000
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
dt { font-weight: 600; margin-top: .8rem; }
dd { margin: 0; overflow-wrap: anywhere; }
pre { border: 1px solid #8888; border-radius: .3rem; padding: .7rem; overflow: auto; max-height: 26rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
label { display: block; margin-top: 1.2rem; }
textarea { width: 100%; box-sizing: border-box; font: inherit; }
textarea.json { font: .9rem/1.4 ui-monospace, monospace; }
details { margin-top: 1rem; }
summary { cursor: pointer; }
.problem { border-left: .25rem solid #c33; padding: .3rem .8rem; overflow-wrap: anywhere; white-space: pre-wrap; }
button { font: inherit; padding: .5rem 1.4rem; margin: .8rem .6rem 0 0; cursor: pointer; }
.note { font-size: .9rem; }
mark { font: .8em ui-monospace, monospace; padding: 0 .2em; border-radius: .2em; background: #c33; color: #fff; direction: ltr;
  unicode-bidi: isolate; }
"""
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest())


def policy_for(target: str = "") -> bytes:
    """The content security policy of a page whose form may lead to the server itself and to the origin `target`."""
    return (
        b"default-src 'none'; style-src 'sha256-%s'; form-action 'self'%s; base-uri 'none'; frame-ancestors 'none'"
        % (_STYLE_HASH, f" {target}".encode("ascii", "ignore") if target else b"")
    )


POLICY = policy_for()


def language_of(accepted: str) -> str:
    """`en` or `zh`, whichever an Accept-Language header prefers."""
    best, found = 0.0, "en"
    for part in accepted[:500].split(","):
        name, _, rest = part.strip().lower().partition(";")
        try:
            weight = float(rest.strip().removeprefix("q=")) if rest else 1.0
        except ValueError:
            continue
        language = name.partition("-")[0]
        if language in LANGUAGES and weight > best:
            best, found = weight, language
    return found


def page(title: str, body: str, language: str) -> bytes:
    """A whole page; `body` is escaped already."""
    code = "zh-CN" if language == "zh" else "en"
    return (
        f'<!doctype html><html lang="{code}"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    ).encode("utf-8", "backslashreplace")


def shown(value: Any) -> str:
    return with_marks(clean(value)[:_MAX_TEXT])


def with_marks(text: str, *, lines: bool = False) -> str:
    """Text as HTML, with its invisible characters as marks that can be told from the text."""
    return marked(escape(text), lines=lines, around=("<mark>", "</mark>"))


def shown_time(at: Any) -> str:
    """A time since the epoch, in UTC."""
    try:
        return datetime.fromtimestamp(float(at), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return "-"
