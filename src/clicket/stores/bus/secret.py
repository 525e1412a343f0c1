"""The secret with which the processes of a store sign their messages. It lies in the store, so only they know it."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

from clicket import system
from clicket.model.ports import StoredDocument

__all__ = ["bus_secret", "space_of"]

_KIND, _KEY = "bus", "secret"
_BYTES = 32


class Documents(Protocol):
    """What is needed of a store."""

    async def document(self, kind: str, key: str) -> StoredDocument | None: ...

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool: ...


async def bus_secret(records: Documents) -> bytes:
    """The store's secret; the first process that needs it makes it."""
    while True:
        found = await records.document(_KIND, _KEY)
        if found is not None:
            return found.body
        await records.put_document(_KIND, _KEY, system.random_bytes(_BYTES), 0)


def space_of(secret: bytes) -> str:
    """A name for the store on a bus that several stores use. It gives nothing of the secret away."""
    return sha256(b"clicket bus " + secret).hexdigest()[:16]
