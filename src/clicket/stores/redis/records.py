"""Tool health, figures, documents and the audit log. A write with a ticket is done once, however often it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clicket import system
from clicket.errors import StoreUnavailable
from clicket.model.figures import Figure
from clicket.model.ports import Audited, Bus, DocumentWrite, StoredDocument, ToolHealth, Unstorable
from clicket.stores.redis.connection import packed
from clicket.stores.redis.script_client import ScriptClient
from clicket.stores.remote import SharedReads

__all__ = ["Records"]

_CALLERS = 20
"""Callers whose figures one answer brings."""
_LINES = 200
_DOCUMENTS = 200
_FORGET = 500
_PLACES = 50
"""Threads whose tool health one script reads: other processes wait while it runs."""

_health = msgspec.msgpack.Decoder(ToolHealth)
_kind = msgspec.msgpack.Decoder(tuple[str, str, str, int | bool])
_figure = msgspec.msgpack.Decoder(tuple[int, float, float, float])


class Records:
    def __init__(self, client: ScriptClient, bus: Bus) -> None:
        self._client = client
        self._bus = bus
        self._health: SharedReads[tuple[str, str], list[bytes]] = SharedReads(self._read_health)

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        try:
            self._client.encoded((caller, thread))
        except Unstorable:  # text that cannot be written was never stored
            return []
        found = await self._health.get((caller, thread))
        try:
            return sorted((_health.decode(each) for each in found), key=lambda health: health.tool)
        except ValueError as error:  # msgspec's errors are ValueErrors
            raise self._damaged(f"how tools stand in thread {thread!r}", error) from error

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        given = {name: value for name, value in msgspec.structs.asdict(health).items() if value is not None}
        arguments = {
            "caller": caller,
            "thread": thread,
            "health": given,
            "expect": expect,
            "ticket": system.random_hex(16),
        }
        written = bool(await self._client.write("put_tool_health", arguments))
        if written:
            self._bus.post("health", 0)
        return written

    async def _read_health(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[bytes]]:
        found: list[list[bytes]] = []
        for at in range(0, len(places), _PLACES):
            found += await self._client.read("tool_health", {"places": places[at : at + _PLACES]})
        return dict(zip(places, found, strict=True))

    async def forget_health(self, since: float) -> None:
        while await self._client.write("forget_health", {"since": repr(since), "limit": _FORGET}) == _FORGET:
            pass

    async def figures(self, caller: str | None) -> list[Figure]:
        arguments: dict[str, Any] = {"limit": _CALLERS} if caller is None else {"caller": caller}
        found: list[Figure] = []
        while True:
            try:
                rows = await self._client.read("figures", arguments)
            except Unstorable:
                return []
            for name, pairs in rows:
                try:
                    found += _figures(name.decode(), pairs)
                except ValueError as error:
                    raise self._damaged("figures", error) from error
            if caller is not None or len(rows) < _CALLERS:
                return found
            arguments["after"] = rows[-1][0].decode()

    async def time(self) -> float:
        seconds, micros = await self._client.ask(packed(b"TIME"))
        return int(seconds) + int(micros) / 1e6

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        try:
            row = await self._client.read("document", {"kind": kind, "key": key})
        except Unstorable:
            return None
        return None if row[0] is None else self._document(kind, key.encode(), *row)

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        document: dict[str, Any] = (
            {"kind": kind, "key": key} if expect is None else {"kind": kind, "key": key, "expect": expect}
        )
        return await self._put([document], [body])

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        documents = [{"kind": write.kind, "key": write.key, "expect": write.expect} for write in writes]
        return await self._put(documents, [write.body for write in writes])

    async def _put(self, documents: list[dict[str, Any]], bodies: list[bytes]) -> bool:
        arguments = {"documents": documents, "ticket": system.random_hex(16)}
        return bool(await self._client.write("put_documents", arguments, *map(bytes, bodies)))

    async def delete_document(self, kind: str, key: str) -> bool:
        if await self.document(kind, key) is None:
            return False
        return bool(await self._client.write("delete_document", {"kind": kind, "key": key}))

    async def documents(self, kind: str, after: str, limit: int) -> list[StoredDocument]:
        found: list[StoredDocument] = []
        more = 1
        while more and len(found) < limit:
            arguments = {"kind": kind, "after": after, "limit": min(_DOCUMENTS, limit - len(found))}
            try:
                rows, more = await self._client.read("documents", arguments)
            except Unstorable:
                return []
            found += [self._document(kind, key, *row) for key, *row in rows]
            after = found[-1].key if found else after
        return found

    async def audit(self, bodies: Sequence[bytes]) -> None:
        if bodies:
            await self._client.write("audit", {"ticket": system.random_hex(16)}, *map(bytes, bodies))

    async def audited(self, before: int | None, limit: int) -> list[Audited]:
        found: list[Audited] = []
        while len(found) < limit and (before is None or before > 1):
            arguments: dict[str, Any] = {"limit": min(_LINES, limit - len(found))}
            if before is not None:
                arguments["last"] = str(before - 1)
            rows = await self._client.read("audited", arguments)
            if not rows:
                break
            try:
                found += [Audited(number=number, at=float(at), body=body) for number, body, at in rows]
            except ValueError as error:
                raise self._damaged("the audit log", error) from error
            before = found[-1].number
        return found

    def _document(self, kind: str, key: bytes, body: bytes, version: bytes, updated: bytes) -> StoredDocument:
        try:
            return StoredDocument(
                kind=kind, key=key.decode(), body=body, version=int(version), updated_at=float(updated)
            )
        except (TypeError, ValueError) as error:
            raise self._damaged(f"document {key!r}", error) from error

    def _damaged(self, what: str, error: Exception) -> StoreUnavailable:
        url = self._client.url
        return StoreUnavailable(f"{url}: {what} is not what clicket wrote ({error}). Nothing was changed.", url=url)


def _figures(caller: str, pairs: Sequence[bytes]) -> Iterable[Figure]:
    for name, sums in zip(pairs[::2], pairs[1::2], strict=True):
        tool, outcome, error, bucket = _kind.decode(name)
        count, seconds, least, most = _figure.decode(sums)
        yield Figure(
            caller=caller,
            tool=tool,
            outcome=outcome,
            error=error,
            bucket=None if bucket is False else bucket,
            count=count,
            seconds=seconds,
            least=least,
            most=most,
        )
