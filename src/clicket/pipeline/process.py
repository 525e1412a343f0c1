"""Stage 5: the output becomes plain JSON, and text of bounded size for the model. What is cut is kept whole as an artifact.

The note on a cut text cannot be forged by the tool: it names the artifact, whose name is the hash of the whole text, and no
text contains its own hash.
"""

from __future__ import annotations

from collections.abc import Awaitable
from hashlib import sha256
from typing import Any

from clicket.journal import LiveCall
from clicket.model.codec import plain_output
from clicket.ports import Store
from clicket.tools import Streamed

__all__ = ["Process", "cut"]

_PIECE = 1024 * 1024


class Process:
    name = "process"

    def __init__(self, store: Store) -> None:
        self._put = store.put_artifact

    def __call__(self, call: LiveCall) -> Awaitable[None] | None:
        limit = call.required_tool().options.max_result_size
        output = call.output
        if type(output) is Streamed:
            spool = call.sink.spool
            if spool is None:
                call.output, call.content = "", ""
                return None
            if not spool.in_memory or spool.size > limit:
                return self._keep_spool(call, limit)
            output = spool.value()
        plain, encoded = plain_output(output)
        if type(plain) is str:
            # One character is at most four bytes: most texts need no count.
            if len(plain) * 4 > limit and (size := len(plain.encode())) > limit:
                return self._keep_text(call, plain, size, limit)
            call.content = plain
        elif len(encoded) > limit:
            return self._keep_json(call, plain, encoded, limit)
        else:
            call.content = encoded.decode()
        call.output = plain
        if call.sink.announced:
            return self._keep_stream(call)
        return None

    async def _keep_text(self, call: LiveCall, text: str, size: int, limit: int) -> None:
        pieces = [text[at : at + _PIECE].encode() for at in range(0, len(text), _PIECE)]
        await self._keep(call, pieces, size, limit)
        call.output = text

    async def _keep_json(self, call: LiveCall, plain: Any, encoded: bytes, limit: int) -> None:
        pieces = [encoded[at : at + _PIECE] for at in range(0, len(encoded), _PIECE)]
        await self._keep(call, pieces, len(encoded), limit)
        call.output = plain
        call.metadata["artifact_type"] = "json"

    async def _keep(self, call: LiveCall, pieces: list[bytes], size: int, limit: int) -> None:
        digest = sha256()
        for piece in pieces:
            digest.update(piece)
        name = f"sha256-{digest.hexdigest()}"
        await self._put(name, pieces)
        head = b"".join(pieces[: limit // _PIECE + 1])[:limit]
        call.artifact, call.truncated, call.content = name, True, cut(head, size, limit, name)

    async def _keep_spool(self, call: LiveCall, limit: int) -> None:
        spool = call.sink.spool
        name = f"sha256-{spool.digest()}"
        await self._put(name, _Pieces(spool))
        call.artifact, call.truncated = name, True
        call.content = cut(spool.head(limit), spool.size, limit, name)
        call.output = spool.value() if spool.in_memory else None
        spool.close()

    async def _keep_stream(self, call: LiveCall) -> None:
        """The tool returned a value of its own, and had emitted more than the journal takes: keep that whole, too."""
        spool = call.sink.spool
        name = f"sha256-{spool.digest()}"
        await self._put(name, _Pieces(spool))
        call.metadata["stream_artifact"] = name
        call.stream_artifact = name
        spool.close()


class _Pieces(list[bytes]):
    """A spool as the sequence of pieces that a store takes, read one by one."""

    def __init__(self, spool: Any) -> None:
        super().__init__()
        self._spool = spool

    def __iter__(self) -> Any:
        return self._spool.pieces()


def cut(head: bytes, size: int, limit: int, artifact: str) -> str:
    """The beginning of a text and the note on its rest, together at most `limit` bytes, no character torn."""
    note = f"\n[clicket: cut; {size} bytes in all, the whole is artifact {artifact}]"
    if len(note) >= limit:
        return note[:limit]
    return head[: limit - len(note)].decode("utf-8", "ignore") + note
