"""Checkpoints of a call: work that its tool need not repeat, in the next attempt or after a crash. Each is an event; small data is in
the event, large data is an artifact. The tool gets the same bytes back, or none.

So nothing can be masked in them. A checkpoint that holds a secret is sealed with the vault's key. Without a key it is not written:
it stays in the memory of this process, for the next attempt, and the event says so. If the secret is one of the arguments, such a
call could not resume in another process anyway; if not, the tool repeats that part.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from clicket.engine.executors.artifacts import name_of
from clicket.engine.journal import Journal
from clicket.engine.live_call import Call
from clicket.errors import NotFound, UsageError
from clicket.model import Event
from clicket.model.ports import Artifacts
from clicket.safety.vault import Identity, Secrets, Vault, holds_secret

__all__ = ["Checkpoints"]

MAX_SIZE = 64 * 1024 * 1024
MAX_TOTAL = 512 * 1024 * 1024
MAX_COUNT = 1_000
MAX_KEY = 200
INLINE = 4 * 1024
INLINE_TOTAL = 128 * 1024
"""The most bytes in events, which every reader of the call receives; larger or later checkpoints are artifacts."""
_REASON = "checkpoint"
_PIECE = 256 * 1024
_OVERLAP = 16 * 1024
"""No secret is longer. Pieces overlap by this much, so a secret across two pieces is found in the second."""


class Checkpoints:
    """The checkpoints of one call. Created when its tool first uses them: those of earlier attempts are among the call's events by then."""

    __slots__ = ("_call", "_held", "_journal", "_named", "_store", "_vault", "count", "inline", "total")

    def __init__(self, journal: Journal, store: Artifacts, vault: Vault, call: Call) -> None:
        self._journal = journal
        self._store = store
        self._vault = vault
        self._call = call
        self._held: dict[str, bytes] = {}
        earlier = [event.data for event in call.entry.events if _is_one(event)]
        self._named = {name for name in (data.get("artifact") for data in earlier) if type(name) is str}
        self.count = len(earlier)
        self.total = sum(_size(data) for data in earlier)
        self.inline = sum(_size(data) for data in earlier if "artifact" not in data)

    async def keep(self, key: str, data: bytes) -> None:
        """Durable when this returns."""
        self._check(key, data)
        self.count += 1
        self.total += len(data)
        call = self._call
        event_data = {
            "text": f"Checkpoint {key}: {len(data):,} bytes.",
            "reason": _REASON,
            "key": key,
            "size": len(data),
        }
        held = await self._place(event_data, key, data)
        if call.ending:
            raise UsageError(f"checkpoint {key!r}: the call has ended, so nothing more of it is kept.")
        self._held.pop(key, None)
        if held:
            self._held[key] = data
        self._journal.record(call.entry, "note", event_data)
        await self._journal.flush(call.entry)

    async def _place(self, event_data: dict[str, Any], key: str, data: bytes) -> bool:
        """Store the bytes, and add their place to the event. True: hold them in memory."""
        if await _secret(data, self._call.secrets):
            if not self._vault.seals:
                event_data["held"] = True
                return True
            event_data["sealed"] = True
            data = self._vault.seal(_identity(self._call), _kind(key), data).encode()
        if len(data) <= INLINE and self.inline + len(data) <= INLINE_TOTAL:
            self.inline += len(data)
            event_data.update(_written(data))
            return False
        event_data["artifact"] = name = await self._put(data)
        if not self._call.ending and name not in self._named and name not in self._call.tool_artifacts:
            self._named.add(name)
            self._journal.name_artifact(self._call.entry, name, len(data))
        return False

    async def load(self) -> dict[str, bytes]:
        """The last checkpoint of each key, in the order of writing. A damaged or missing one is left out."""
        last: dict[str, dict[str, Any]] = {}
        for event in self._call.entry.events:
            if _is_one(event):
                key = event.data["key"]
                last.pop(key, None)
                last[key] = event.data
        found: dict[str, bytes] = {}
        for key, data in last.items():
            kept = self._held.get(key) if data.get("held") is True else await self._read(key, data)
            if kept is not None:
                found[key] = kept
        return found

    def _check(self, key: str, data: bytes) -> None:
        if type(key) is not str or not 0 < len(key) <= MAX_KEY or not key.isprintable():
            raise UsageError(f"a checkpoint's key is printable text of 1 to {MAX_KEY} characters, not {key!r:.100}.")
        if holds_secret(key, self._call.secrets):
            raise UsageError(
                "a checkpoint's key is written as it is, and this one holds a secret. Name the piece of work."
            )
        if type(data) is not bytes:
            raise UsageError(f"a checkpoint is made of bytes, not of {type(data).__name__}; encode it first.")
        if len(data) > MAX_SIZE:
            raise UsageError(
                f"checkpoint {key!r} has {len(data):,} bytes, and at most {MAX_SIZE:,} are kept. Keep it in parts, or keep "
                "less: what is needed to go on from there."
            )
        if self.count >= MAX_COUNT or self.total + len(data) > MAX_TOTAL:
            raise UsageError(
                f"checkpoint {key!r}: a call keeps at most {MAX_COUNT:,} checkpoints, {MAX_TOTAL:,} bytes in all. "
                "Keep one for larger pieces of work."
            )

    async def _put(self, data: bytes) -> str:
        """Store it without access for the caller: only the tool reads it."""
        name, pieces, _ = await name_of([data[at : at + _PIECE] for at in range(0, len(data), _PIECE)])
        await self._store.put_artifact(name, pieces)
        return name

    async def _read(self, key: str, data: Mapping[str, Any]) -> bytes | None:
        kept: bytes | None
        artifact = data.get("artifact")
        if type(artifact) is str:
            try:
                kept = await self._store.read_artifact(artifact, 0, None)
            except NotFound:
                return None
            if (await name_of(kept))[0] != artifact:
                return None
        else:
            kept = _read_back(data)
        if kept is not None and data.get("sealed") is True:
            kept = self._vault.unsealed(_identity(self._call), _kind(key), kept.decode("latin-1"))
        return kept if kept is not None and len(kept) == data.get("size") else None


async def _secret(data: bytes, secrets: Secrets | None) -> bool:
    """Does it hold a secret? Searching much data does not block the loop."""
    for start in range(0, len(data), _PIECE):
        if holds_secret(data[max(start - _OVERLAP, 0) : start + _PIECE].decode("utf-8", "replace"), secrets):
            return True
        await asyncio.sleep(0)
    return False


def _is_one(event: Event) -> bool:
    return event.type == "note" and event.data.get("reason") == _REASON and type(event.data.get("key")) is str


def _size(data: Mapping[str, Any]) -> int:
    size = data.get("size")
    return size if type(size) is int else 0


def _written(data: bytes) -> dict[str, str]:
    try:
        return {"content": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _read_back(data: Mapping[str, Any]) -> bytes | None:
    content, coded = data.get("content"), data.get("base64")
    try:
        if type(content) is str:
            return content.encode()
        return b64decode(coded, validate=True) if type(coded) is str else None
    except ValueError:  # another program wrote it
        return None


def _identity(call: Call) -> Identity:
    return call.caller, call.thread, call.id


def _kind(key: str) -> str:
    return f"checkpoint {key}"
