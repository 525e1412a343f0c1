"""The entries of turns that a fork took along, in the store: in pieces, so that no document is big."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clicket.agents.memory import ENTRIES, Head, key_of, past_key
from clicket.model.codec import encode
from clicket.model.ports import AgentHost

__all__ = ["CutTurn", "keep_entries", "past_entries", "read_entries"]

_PIECE = 500


class CutTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was taken along up to a step: its entries so far, and the arguments of its call."""

    entries: list[dict[str, Any]]
    arguments: dict[str, Any]


class _Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    entries: list[dict[str, Any]]
    arguments: dict[str, Any] = {}


_piece = msgspec.json.Decoder(_Piece)


async def keep_entries(
    host: AgentHost, place: str, number: int, entries: list[dict[str, Any]], arguments: dict[str, Any]
) -> None:
    """`place`: the `past_key` of the fork."""
    for key, piece in _pieces(place, number, entries, arguments):
        await host.records.put_document(ENTRIES, key, host.protect(ENTRIES, key, encode(piece)), None)


def _pieces(
    place: str, number: int, entries: list[dict[str, Any]], arguments: dict[str, Any]
) -> Iterator[tuple[str, _Piece]]:
    for count, first in enumerate(range(0, max(len(entries), 1), _PIECE)):
        piece = _Piece(entries=entries[first : first + _PIECE], arguments={} if first else arguments)
        yield f"{_prefix(place, number)}{count:06d}", piece


async def read_entries(host: AgentHost, place: str, number: int) -> CutTurn | None:
    """None: there is no such turn."""
    prefix = after = _prefix(place, number)
    found: list[_Piece] = []
    while True:
        documents = await host.records.documents(ENTRIES, after=after, limit=20)
        mine = [document for document in documents if document.key.startswith(prefix)]
        for document in mine:
            body = host.reveal(ENTRIES, document.key, document.body)
            try:
                found.append(_Piece(entries=[]) if body is None else _piece.decode(body))
            except msgspec.MsgspecError:  # another program wrote it
                found.append(_Piece(entries=[]))
        if len(mine) < 20:
            break
        after = mine[-1].key
    if not found:
        return None
    return CutTurn(entries=[each for piece in found for each in piece.entries], arguments=found[0].arguments)


async def past_entries(host: AgentHost, agent: str, thread: str, head: Head, number: int) -> CutTurn | None:
    """Of a turn that the thread took along, whole or up to a step."""
    origin = head.origin
    if origin is None or number > origin.after + (origin.step is not None):
        return None
    return await read_entries(host, past_key(key_of(host.caller, thread, agent), origin), number)


def _prefix(place: str, number: int) -> str:
    return f"{place}/{number:010d}/"
