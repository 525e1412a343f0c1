"""Stage 5: turns the output into plain JSON, and into text of bounded size for the model. A text that is cut is stored whole as an
artifact. Images and files in it become artifacts, and references stand in their places.

Secrets are masked first, so the caller, the journal and the artifact get the same output.
The note on a cut text cannot be forged by the tool. In a tool's own text what looks like one is marked as none; and the real
note names the artifact, whose name is the hash of the whole text, and no text contains its own hash. Big outputs are processed
in a thread and in small pieces, so that they do not block the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clicket.engine.executors import CallSink, Parked, Spool, allow_reading, keep_files
from clicket.engine.journal import Journal
from clicket.engine.live_call import Call
from clicket.errors import NotFound, ResultUnserializable, UsageError
from clicket.model.codec import CUT_NOTE, is_small, without_notes
from clicket.model.files import File, FileRef, WithFiles, files_text, lines_of
from clicket.model.output import HoldsFiles, plain_output, plain_pieces, without_files
from clicket.model.ports import Store
from clicket.model.replayed import Replayed
from clicket.safety.vault import MIN_TOKEN, Secrets, has_marker, hide, hide_text
from clicket.system.bridge import ThreadPool
from clicket.tools import Pending, Streamed

__all__ = ["Process", "cut"]


class Process:
    name = "process"

    def __init__(
        self,
        store: Store,
        journal: Journal,
        thread_pool: ThreadPool,
    ) -> None:
        self._store = store
        self._journal = journal
        self._thread_pool = thread_pool

    def __call__(self, call: Call) -> Awaitable[None] | None:
        output, attempt = call.output, call.attempt
        sink: CallSink | None = None if attempt is None else attempt.sink
        if sink is not None:
            sink.flush()
            kind = type(output)
            if kind is Pending:
                raise Parked("external")
            if kind is Streamed:
                spool = sink.spool
                if spool is None:
                    call.output = ""
                    return None
                if not spool.in_memory or spool.size > call.required_tool().options.max_result_size:
                    return self._keep_spool(call, spool)
                output = spool.value()
        if (sink is not None and sink.announced) or not is_small(output):
            return self._in_thread(call, output, sink)
        try:
            plain, encoded = plain_output(output)
        except HoldsFiles:
            return self._with_files(call, output, sink)
        text = plain if type(plain) is str else encoded.decode()
        added = 0
        if call.secrets is not None or (len(text) >= MIN_TOKEN and has_marker(text)):
            shown = hide(plain, call.secrets)
            if shown != plain:
                call.is_masked = True
                plain, encoded = plain_output(shown)
                text = plain if type(plain) is str else encoded.decode()
            marked = without_notes(text)
            added, text = len(marked) - len(text), marked
        tool = call.tool
        # The size of the JSON bounds the size of the text, too: quotes only add to it.
        if tool is None or len(encoded) + added > tool.options.max_result_size:
            return self._in_thread(call, plain, sink)
        call.output, call.content = plain, text
        return None

    def take_cached(self, call: Call, output: Any, text: str) -> None:
        """Use the output of an equal call, unchanged."""
        call.output, call.content = output, text

    def take_recorded(self, call: Call, known: Replayed) -> None:
        """Use the outcome of an equal call that is on record, unchanged. What it names lives as long as this call, too."""
        call.output, call.content, call.files = known.output, known.content, known.files
        if known.artifact is not None:
            call.truncated, call.artifact = known.truncated, known.artifact
            call.add_metadata("artifact_size", known.artifact_size)
            self._journal.name_artifact(call.entry, known.artifact, known.artifact_size)
        for ref in known.files:
            self._journal.name_artifact(call.entry, ref.artifact, ref.size)

    def take_result(self, call: Call, output: Any) -> Awaitable[None] | None:
        """As the stage itself, for an output that did not come from the body."""
        call.output = output
        return self(call)

    async def _with_files(self, call: Call, output: Any, sink: CallSink | None) -> None:
        """The files become artifacts of the call. Its text has a line for each, whatever else is cut."""
        inner, text, found = output, None, list[File]()
        if type(output) is WithFiles:
            inner, text = output.output, output.text
        await self._thread_pool.run(lambda: without_files(inner, found.append))
        beside = output.files if type(output) is WithFiles else []
        try:
            kept = await keep_files(self._store, call.caller, [*found, *beside])
        except (UsageError, NotFound) as error:
            raise ResultUnserializable(
                f"the tool ran, but its result cannot be kept: a file of it: {error.message}"
            ) from error
        refs = {ref: msgspec.convert(hide(msgspec.to_builtins(ref), call.secrets), FileRef) for ref in kept}
        for ref in refs:
            self._journal.name_artifact(call.entry, ref.artifact, ref.size)
        places = iter(kept)
        plain = await self._thread_pool.run(
            lambda: without_files(inner, lambda _: msgspec.to_builtins(refs[next(places)]))
        )
        call.files = files = tuple(refs.values())
        lines = lines_of(files)
        await self._in_thread(call, plain, sink, room=len(lines.encode()) + 1)
        if text is not None:
            shown = without_notes(hide_text(text, call.secrets))
            call.content = "\n".join(filter(None, [shown, *(ref.line for ref in files if ref.line not in shown)]))
        elif call.truncated:
            call.content += f"\n{lines}"
        else:
            call.content = files_text(call.output, files)

    async def _in_thread(self, call: Call, output: Any, sink: CallSink | None, room: int = 0) -> None:
        """For a big or streamed output: encode, hash and store it without blocking the loop. `room`: bytes that the text leaves free."""
        limit = max(call.required_tool().options.max_result_size - room, 0)
        try:
            call.output, pieces, masked = await self._thread_pool.run(lambda: _shown_pieces(output, call.secrets))
        except HoldsFiles:
            await self._with_files(call, output, sink)
            return
        call.is_masked = call.is_masked or masked
        size = sum(map(len, pieces))
        content = without_notes(b"".join(pieces).decode()) if size <= limit else ""
        if size <= limit and len(content.encode()) <= limit:
            call.content = content
        else:
            call.artifact = await self._keep(call, pieces, size)
            call.add_metadata("artifact_size", size)
            call.content, call.truncated = cut(_head(pieces, limit), size, limit, call.artifact), True
            if type(call.output) is not str:
                call.add_metadata("artifact_type", "json")
        if sink is not None and sink.announced and sink.spool is not None:
            # The tool returned a value, and also emitted more than the journal takes: store the emitted output whole, too.
            call.add_metadata("stream_artifact", await self._keep(call, _Pieces(sink.spool), sink.spool.size))

    async def _keep_spool(self, call: Call, spool: Spool) -> None:
        """The streamed chunks are the output."""
        limit = call.required_tool().options.max_result_size
        call.artifact, call.truncated = await self._keep(call, _Pieces(spool), spool.size), True
        call.add_metadata("artifact_size", spool.size)
        call.content = cut(spool.head(limit), spool.size, limit, call.artifact)
        call.output = spool.value() if spool.in_memory else None

    async def _keep(self, call: Call, pieces: Sequence[bytes], size: int) -> str:
        name = await self._thread_pool.run(lambda: _name(pieces))
        await self._store.put_artifact(name, pieces)
        await allow_reading(self._store, call.caller, name)
        self._journal.name_artifact(call.entry, name, size)
        return name


def _shown_pieces(output: Any, secrets: Secrets | None) -> tuple[Any, list[bytes], bool]:
    """The output with secrets masked, its text in pieces, and whether anything was masked."""
    plain, pieces = plain_pieces(output)
    texts = (plain,) if type(plain) is str else (piece.decode() for piece in pieces)
    if secrets is not None or any(map(has_marker, texts)):
        shown = hide(plain, secrets)
        if shown != plain:
            return *plain_pieces(shown), True
    return plain, pieces, False


class _Pieces(Sequence[bytes]):
    """A spool as the pieces that a store takes, read one by one."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def __iter__(self) -> Iterator[bytes]:
        return self._spool.pieces()

    def __len__(self) -> int:
        return self._spool.size

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


def _name(pieces: Sequence[bytes]) -> str:
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return f"sha256-{digest.hexdigest()}"


def _head(pieces: Sequence[bytes], size: int) -> bytes:
    head: list[bytes] = []
    for piece in pieces:
        head.append(piece[:size])
        size -= len(piece)
        if size <= 0:
            break
    return b"".join(head)


def cut(head: bytes, size: int, limit: int, artifact: str) -> str:
    """The beginning of a text and the note on its rest, together at most `limit` bytes of valid UTF-8."""
    note = f"\n{CUT_NOTE}{size} bytes in all, the whole is artifact {artifact}]"
    if len(note) >= limit:
        return note[:limit]
    shown = without_notes(head[: limit - len(note)].decode("utf-8", "ignore"))
    return shown.encode()[: limit - len(note)].decode("utf-8", "ignore") + note
