"""The scripts: what runs on the server. Each is put together from its parts once, and known to the server by its hash."""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from importlib.resources import files

import msgspec

from clicket.model.ports.health import HEALTH_LAW
from clicket.stores.redis.connection import Command, packed

__all__ = ["NAMES", "Script", "script"]

_READS = "no-writes"  # answered also when the server's memory is full
_SMALL = "allow-oom"  # what frees memory, or keeps an owner alive, is done also then
_WRITES = ""

_PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "open": (_WRITES, ("calls",)),
    "append": (
        _WRITES,
        ("write", "calls", "document_key", "cache", "cache_use", "health_of", "health_law", "outcome_stats"),
    ),
    "erase": (_SMALL, ("write", "calls", "health_of", "health_law", "outcome_stats")),
    "load": (_READS, ("read", "rows")),
    "events": (_READS, ("read", "following")),
    "news": (_READS, ("read", "following")),
    "watch": (_SMALL, ("write",)),
    "history": (_READS, ("read", "rows", "walk")),
    "scan_end": (_READS, ("read", "walk")),
    "places": (_READS, ("read",)),
    "thread_counts": (_READS, ("read",)),
    "forget": (_SMALL, ("write", "calls")),
    "renew": (_SMALL, ("write",)),
    "owners": (_READS, ("read",)),
    "claim_orphans": (_WRITES, ("write", "rows", "calls", "take")),
    "claim_waiting": (_WRITES, ("write", "rows", "calls", "take", "fair_order")),
    "take_tokens": (_SMALL, ("write",)),
    "backlog": (_READS, ("read",)),
    "claim": (_WRITES, ("write", "rows", "calls", "take")),
    "hand_back": (_SMALL, ("write", "calls")),
    "sign_off": (_SMALL, ("write",)),
    "keys": (_READS, ("read",)),
    "hold": (_SMALL, ("write",)),
    "artifact_find": (_SMALL, ("write", "spare")),
    "artifact_part": (_WRITES, ("write",)),
    "artifact_keep": (_WRITES, ("write", "spare")),
    "artifact_read": (_READS, ("read",)),
    "cache_get": (_READS, ("read",)),
    "cache_items": (_READS, ("read",)),
    "cache_remove": (_SMALL, ("write", "cache")),
    "cache_clear": (_SMALL, ("write", "cache")),
    "cache_sweep": (_SMALL, ("write", "cache")),
    "pins_end": (_SMALL, ("write",)),
    "unpin": (_SMALL, ("write",)),
    "of_keys": (_READS, ("read", "rows")),
    "remove": (_SMALL, ("write", "calls")),
    "keep_calls": (_SMALL, ("write", "calls")),
    "release": (_SMALL, ("write", "calls")),
    "sweep": (_SMALL, ("write", "calls")),
    "peek": (_READS, ("read", "calls")),
    "totals": (_READS, ("read",)),
    "tool_health": (_READS, ("read", "health_of")),
    "put_tool_health": (_WRITES, ("write", "health_of")),
    "forget_health": (_SMALL, ("write", "health_of")),
    "figures": (_READS, ("read",)),
    "document": (_READS, ("read", "document_key")),
    "put_documents": (_WRITES, ("write", "document_key")),
    "delete_document": (_SMALL, ("write", "document_key")),
    "documents": (_READS, ("read", "document_key")),
    "audit": (_WRITES, ("write",)),
    "audited": (_READS, ("read",)),
}
NAMES = tuple(_PARTS)


def _health_law() -> str:
    """`HEALTH_LAW` as a table of Lua."""
    effects = (
        f"{effect} = {{{', '.join(f'{column} = {rule!r}' for column, rule in rules.items())}}}"
        for effect, rules in HEALTH_LAW.items()
    )
    return f"local health_law = {{{', '.join(effects)}}}\n"


_GENERATED = {"health_law": _health_law()}
"""Parts that are no file."""


class Script(msgspec.Struct, frozen=True):
    sha: bytes
    load: Command


@cache
def script(name: str) -> Script:
    flags, parts = _PARTS[name]
    folder = files(__package__) / "lua"
    head = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    pieces = [_GENERATED.get(part) or (folder / f"{part}.lua").read_text("utf-8") for part in ("head", *parts, name)]
    text = "".join((head, *pieces)).encode()
    sha = sha1(text).hexdigest().encode()  # noqa: S324  # Redis names scripts so
    return Script(sha, packed(b"SCRIPT", b"LOAD", text))
