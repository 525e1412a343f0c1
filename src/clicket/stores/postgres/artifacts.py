"""Artifacts in pieces of a mebibyte, read by ranges. One stays while a call names it or its owner is about to, or it is pinned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clicket.errors import NotFound
from clicket.stores.postgres.membership import Membership
from clicket.stores.postgres.pool import Pool

__all__ = ["Artifacts"]

_NAME = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)
_PIECE = 1024 * 1024
_AT_ONCE = 4
_RESERVE = "SELECT reserve($1::bigint, $2::text)"
_PIN = "SELECT pin($1::text, $2::float8)"
_PIECES = """SELECT substr(body, greatest($3::bigint - number * $5::bigint, 0)::integer + 1,
        (least($4::bigint - number * $5::bigint, $5::bigint) - greatest($3::bigint - number * $5::bigint, 0))::integer)
    FROM pieces WHERE blob = $1::bigint AND number >= $2::integer AND number * $5::bigint < $4::bigint
    ORDER BY number"""


class Artifacts:
    def __init__(self, pool: Pool, membership: Membership) -> None:
        self._pool = pool
        self._membership = membership

    async def put(self, name: str, chunks: Sequence[bytes], keep_until: float | None = None) -> None:
        _check(name)
        if keep_until is None:
            await self._pool.patiently(lambda: self._put(name, chunks, _RESERVE, [self._membership.id, name]))
        else:
            await self._pool.patiently(lambda: self._put(name, chunks, _PIN, [name, keep_until]))

    async def _put(self, name: str, chunks: Sequence[bytes], spare: str, whom: list[Any]) -> None:
        if (await self._pool.run(spare, *whom))[0][0]:
            return
        limit = self._pool.server.timeout
        async with self._pool.transaction() as connection:
            ((blob,),) = await connection.run("SELECT nextval('blob_ids')", limit=limit)
            size = 0
            sql = "INSERT INTO pieces (blob, number, body) VALUES ($1::bigint, $2::integer, $3::bytea)"
            for number, piece in enumerate(_pieces(chunks)):
                await connection.run(sql, [blob, number, piece], limit=limit)
                size += len(piece)
            sql = """INSERT INTO blobs (name, id, size) VALUES ($1::text, $2::bigint, $3::bigint)
                ON CONFLICT DO NOTHING RETURNING id"""
            if not await connection.run(sql, [name, blob, size], limit=limit):  # another was faster
                await connection.run("DELETE FROM pieces WHERE blob = $1::bigint", [blob], limit=limit)
            await connection.run(spare, whom, limit=limit)

    async def read(self, name: str, start: int, end: int | None) -> bytes:
        _check(name)
        rows = await self._pool.query("SELECT id, size FROM blobs WHERE name = $1::text", name)
        if not rows:
            raise _not_found(name)
        blob, size = rows[0]
        at, end = max(start, 0), size if end is None else min(end, size)
        found: list[bytes] = []
        while at < end:
            first = at // _PIECE
            stop = min(end, (first + _AT_ONCE) * _PIECE)
            pieces = await self._pool.query(_PIECES, blob, first, at, stop, _PIECE)
            if sum(len(piece) for (piece,) in pieces) != stop - at:
                raise _not_found(name)  # it was swept while we read
            found += [piece for (piece,) in pieces]
            at = stop
        return b"".join(found)


def _check(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise NotFound(f"{name!a} is not the name of an artifact; names look like sha256-… with 64 hex digits.")


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no artifact {name!r}; it may have been swept with its call.")


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of equal size, the last one shorter."""
    rest = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            room = _PIECE - len(rest)
            rest += view[:room]
            view = view[room:]
            if len(rest) == _PIECE:
                yield bytes(rest)
                rest.clear()
    if rest:
        yield bytes(rest)
