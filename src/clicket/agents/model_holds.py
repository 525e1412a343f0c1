"""Which models of a chain are held, shared by all processes over a store. Holds save time alone: what cannot be read or written is left
out, and what others wrote is seen some seconds later."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from clicket.errors import ClicketError
from clicket.model.codec import encode
from clicket.model.ports import AgentHost
from clicket.model.ports.model_chain import Hold, is_current

__all__ = ["KIND", "SharedHolds"]

KIND = "model.hold"
"""The kind of the documents: one for each model that has failed."""
_LOOK_EVERY = 5.0
_hold = msgspec.json.Decoder(Hold)


class SharedHolds:
    """What one chain of an agent knows of them."""

    def __init__(self) -> None:
        self._known: dict[str, Hold] = {}
        self._looked_at: float | None = None

    async def read(self, host: AgentHost) -> Mapping[str, Hold]:
        clock = host.clock
        if self._looked_at is None or clock.monotonic() - self._looked_at >= _LOOK_EVERY:
            self._looked_at = clock.monotonic()
            with suppress(ClicketError):  # the turn's own entries wait for the store
                for document in await host.records.documents(KIND):
                    with suppress(msgspec.MsgspecError, ValueError):  # another program wrote it
                        self._merge(document.key, _hold.decode(document.body), clock.now())
        return self._known

    async def put(self, host: AgentHost, key: str, hold: Hold) -> None:
        self._known[key] = hold
        with suppress(ClicketError):
            await host.records.put_document(KIND, key, encode(hold), None)

    def _merge(self, key: str, hold: Hold, now: float) -> None:
        known = self._known.get(key)
        if is_current(hold, now) and (known is None or not is_current(known, now) or hold.until > known.until):
            self._known[key] = hold
