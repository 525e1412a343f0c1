"""Tool health, figures, documents and the audit log. A write with a ticket is done once, however often it is sent."""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from clicket.model.figures import Figure
from clicket.model.ports import Audited, Bus, DocumentWrite, StoredDocument, ToolHealth, Unstorable
from clicket.stores.postgres.calls import storable
from clicket.stores.postgres.connection import Param
from clicket.stores.postgres.membership import Membership
from clicket.stores.postgres.outcome_stats import clean, place_of
from clicket.stores.postgres.pool import Pool
from clicket.stores.remote import Lost, SharedReads

__all__ = ["Records", "document_hash"]

_THREAD_HEALTH = """SELECT tool, completions, failures, consecutive_failures, first_success_at, last_success_at, last_failure_at,
    last_error, status, reason, by, announced, updated_at, version, tool_version
    , encode(place, 'hex') FROM tool_health
    WHERE place = ANY (ARRAY(SELECT decode(p, 'hex') FROM unnest($1::text[]) AS p)) ORDER BY tool"""
_PUT_HEALTH = """SELECT put_tool_health($1::bigint, $2::bigint, $3::bigint, $4::text, $5::text, $6::text, $7::bigint,
    $8::json)"""
# Found by a look at all rows, as their times have no index; removed a few at a time, if no outcome changed them since.
_OLD = "SELECT place, tool FROM tool_health WHERE updated_at < $1::float8 AND status IS NULL LIMIT $2::bigint"
_FORGET = """WITH old AS (
        SELECT s.place, s.tool FROM tool_health s JOIN unnest($2::text[], $3::text[]) AS o(place, tool)
            ON s.place = decode(o.place, 'hex') AND s.tool = o.tool
        WHERE s.updated_at < $1::float8 AND s.status IS NULL ORDER BY s.place, s.tool FOR UPDATE OF s SKIP LOCKED)
    DELETE FROM tool_health s USING old o WHERE s.place = o.place AND s.tool = o.tool"""
_FIGURES = """SELECT min(caller), min(tool), min(outcome), min(error), min(bucket), sum(count)::bigint, sum(seconds),
    min(least), max(most) FROM figures WHERE $1::text IS NULL OR caller = $1::text
    GROUP BY label HAVING sum(count) > 0 ORDER BY 1, 2, 3, 4, 5"""
_DOCUMENT = "SELECT kind, key, body, version, updated_at FROM documents WHERE kind = $1::text AND hash = decode($2::text, 'hex')"
_DOCUMENTS = """SELECT kind, key, body, version, updated_at FROM documents
    WHERE kind = $1::text AND left(key, 200) >= left($2::text, 200) AND key > $2::text
    ORDER BY left(key, 200), key LIMIT $3::bigint"""
_PUT_DOCUMENT = (
    """SELECT put_document($1::bigint, $2::bigint, $3::bigint, $4::text, $5::text, $6::text, $7::bytea, $8::bigint)"""
)
_PUT_DOCUMENTS = """SELECT put_documents($1::bigint, $2::bigint, $3::bigint, $4::text[], $5::text[], $6::text[], $7::integer[],
    $8::bytea, $9::bigint[])"""
_DELETE_DOCUMENT = "SELECT delete_document($1::bigint, $2::bigint, $3::text, $4::text)"
_AUDIT = "SELECT add_to_audit($1::bigint, $2::bigint, $3::bigint, $4::integer[], $5::bytea)"
_AUDITED = """SELECT number, at, body FROM audit WHERE $1::bigint IS NULL OR number < $1::bigint
    ORDER BY number DESC LIMIT $2::bigint"""
_READ_AHEAD = 10_000
_STEP = 500


class Records:
    def __init__(self, pool: Pool, membership: Membership, bus: Bus) -> None:
        self._pool = pool
        self._membership = membership
        self._bus = bus
        self._health: SharedReads[str, list[ToolHealth]] = SharedReads(self._read_health)

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        if not (storable(caller) and storable(thread)):
            return []
        return await self._health.get(place_of(thread, caller))

    async def _read_health(self, places: Sequence[str]) -> dict[str, list[ToolHealth]]:
        found: dict[str, list[ToolHealth]] = {place: [] for place in places}
        for *row, place in await self._pool.query(_THREAD_HEALTH, list(places)):
            found[place].append(ToolHealth(**dict(zip(ToolHealth.__struct_fields__, row, strict=True))))
        return found

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        _check(caller, thread, health.tool)
        texts = {
            name: clean(getattr(health, name)) for name in ("last_error", "reason", "by", "announced", "tool_version")
        }
        status = None if health.status is None else clean(health.status)
        given = msgspec.json.encode(msgspec.structs.replace(health, status=status, **texts)).decode()
        place = place_of(thread, caller)
        written = bool(await self._write(_PUT_HEALTH, _ticket(), place, caller, thread, expect, given))
        if written:
            self._bus.post("health", 0)
        return written

    async def forget_health(self, since: float) -> None:
        more = True
        while more:
            old = await self._pool.query(_OLD, since, _READ_AHEAD)
            more = len(old) == _READ_AHEAD
            for at in range(0, len(old), _STEP):
                rows = old[at : at + _STEP]
                places, tools = [place.hex() for place, _ in rows], [tool for _, tool in rows]
                await self._pool.query(_FORGET, since, places, tools)

    async def figures(self, caller: str | None) -> list[Figure]:
        if not storable(caller):
            return []
        rows = await self._pool.query(_FIGURES, caller)
        return [Figure(**dict(zip(Figure.__struct_fields__, row, strict=True))) for row in rows]

    async def time(self) -> float:
        ((now,),) = await self._pool.query("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now)

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        if not (storable(kind) and storable(key)):
            return None
        rows = await self._pool.query(_DOCUMENT, kind, document_hash(key))
        return _document(rows[0]) if rows else None

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        _check(kind, key)
        return bool(await self._write(_PUT_DOCUMENT, _ticket(), kind, document_hash(key), key, bytes(body), expect))

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        if not writes:
            return True
        _check(*(name for write in writes for name in (write.kind, write.key)))
        ordered = sorted(writes, key=lambda write: (write.kind, write.key))  # rows are locked in one order: no deadlock
        kinds, keys = [write.kind for write in ordered], [write.key for write in ordered]
        bodies, versions = [write.body for write in ordered], [write.expect for write in ordered]
        sizes = [len(body) for body in bodies]
        hashes = [document_hash(key) for key in keys]
        return bool(
            await self._write(_PUT_DOCUMENTS, _ticket(), kinds, hashes, keys, sizes, b"".join(bodies), versions)
        )

    async def delete_document(self, kind: str, key: str) -> bool:
        if await self.document(kind, key) is None:
            return False
        lost = False

        async def once() -> bool:
            nonlocal lost
            try:
                ((deleted,),) = await self._membership.run(self._pool.run, _DELETE_DOCUMENT, kind, document_hash(key))
            except Lost:
                lost = True
                raise
            return bool(deleted) or lost  # it was there, and an answer was lost: we deleted it

        return await self._pool.patiently(once)

    async def documents(self, kind: str, after: str, limit: int) -> list[StoredDocument]:
        if not (storable(kind) and storable(after)):
            return []
        return [_document(row) for row in await self._pool.query(_DOCUMENTS, kind, after, limit)]

    async def audit(self, bodies: Sequence[bytes]) -> None:
        if bodies:
            await self._write(_AUDIT, _ticket(), [len(body) for body in bodies], b"".join(bodies))

    async def audited(self, before: int | None, limit: int) -> list[Audited]:
        rows = await self._pool.query(_AUDITED, before, limit)
        return [Audited(number=number, at=at, body=body) for number, at, body in rows]

    async def _write(self, sql: str, *params: Param) -> Any:
        rows = await self._pool.patiently(lambda: self._membership.run(self._pool.run, sql, *params))
        return rows[0][0]


def _document(row: tuple[Any, ...]) -> StoredDocument:
    kind, key, body, version, updated_at = row
    return StoredDocument(kind=kind, key=key, body=body, version=version, updated_at=updated_at)


def _ticket() -> int:
    return random.getrandbits(62)


def document_hash(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()


def _check(*names: str) -> None:
    for name in names:
        if not storable(name):
            raise Unstorable(f"{name!a} is not a name that PostgreSQL stores: it has a NUL, or is not UTF-8.")
