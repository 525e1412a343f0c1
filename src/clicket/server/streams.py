"""Sends a stream of events to the client of a request, until it ends, the client leaves, its key is revoked, or the server shuts
down.
"""

from __future__ import annotations

from collections.abc import Callable

from clicket.server.event_stream import Reader, Readers, Source
from clicket.server.replies import Sent
from clicket.server.request import Request
from clicket.server.revocation import RevocationWatch

__all__ = ["Streams"]


class Streams:
    def __init__(self, readers: Readers, revocation: RevocationWatch) -> None:
        self._readers = readers
        self._revocation = revocation

    async def send(
        self, request: Request, source: Source, after: int = 0, sees: Callable[..., bool] | None = None
    ) -> Sent:
        """Send a source from the place `after` on. `sees` says which events the client is sent, for a source that asks; None: all."""
        reader = Reader(request.scope, after, sees)
        with self._revocation.over(request.scope, reader.end_unauthorized):
            await self._readers.serve(reader, source, request.receive, request.send)
        return Sent()
