"""A run's result while it grows."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from clicket.errors import ClicketError
from clicket.interpreter.files.artifacts import ArtifactStore
from clicket.interpreter.result import (
    Block,
    Display,
    File,
    ProgramError,
    Result,
    Skipped,
    Status,
    Variable,
    Variables,
    worst,
)
from clicket.interpreter.run.block_errors import RunLimits, error_of
from clicket.interpreter.run.task_parser import Fence
from clicket.interpreter.session.block_run import BlockEnd
from clicket.interpreter.session.capture import Captured
from clicket.sandbox.isolation import Isolation

__all__ = ["ResultBuilder", "bytes_of"]

_SMALL = 16 * 1024
"""Bytes of a display that travel with the result; a bigger one is an artifact as well."""
_MAX_SHOWN = 64 * 1024 * 1024


class ResultBuilder:
    """Takes what happens, gives one `Result`."""

    def __init__(self, task: str, bounds: RunLimits) -> None:
        self.task = task
        self.bounds = bounds
        self.blocks: list[Block] = []
        self.displays: list[Display] = []
        self.errors: list[ProgramError] = []
        self.imports: dict[str, None] = {}
        self.notices: list[str] = []
        self.skipped: list[Skipped] = []
        self.files: tuple[File, ...] = ()
        self.outputs: dict[str, str] = {}
        self._began_at = time.monotonic()
        self._ends: list[BlockEnd] = []
        self._variables: dict[str, Variable] = {}
        self._shown = 0
        self._full = False

    @property
    def duration(self) -> float:
        return time.monotonic() - self._began_at

    def show(self, display: Display) -> None:
        """One more thing to look at, as long as the result stays of a size that can be held."""
        self._shown += sys.getsizeof(display.data)
        if self._shown <= _MAX_SHOWN:
            self.displays.append(display)
        elif not self._full:
            self._full = True
            why = f"the displays of a run may have {_MAX_SHOWN:,} bytes together; they were only shown live"
            self.skipped.append(Skipped(what=f"displays from block {display.block_index + 1} on", why=why))

    def block_ended(self, index: int, block: Fence, bare: bool, ended: BlockEnd) -> tuple[Block, ProgramError | None]:
        error = error_of(ended, index, self.bounds)
        told = Block(
            index=index,
            code=block.code,
            lines=None if bare else block.lines,
            status=ended.status,
            reason=ended.reason,
            stdout=ended.stdout.text,
            stderr=ended.stderr.text,
            value=ended.value,
            error=error,
            duration=ended.duration,
        )
        self.blocks.append(told)
        self._ends.append(ended)
        if error is not None:
            self.errors.append(error)
        if ended.threads:
            threads = "a thread" if ended.threads == 1 else f"{ended.threads} threads"
            self.notices.append(f"Block {index + 1} left {threads} running. They stand still between runs.")
        for variable in ended.variables:
            self._note(variable)
        return told, error

    async def keep(self, store: ArtifactStore) -> None:
        """Long output and big pictures go where they can be read in full."""
        for stream in ("stdout", "stderr"):
            captured: list[Captured] = [getattr(ended, stream) for ended in self._ends]
            if any(part.cut for part in captured):
                name = await self._put(store, _Whole(captured, self.bounds.max_output), f"all of {stream}")
                if name is not None:
                    self.outputs[stream] = name
        for at, display in enumerate(self.displays):
            if len(display.data) > _SMALL:
                artifact = await self._put(store, [bytes_of(display.mime, display.data)], f"a display ({display.mime})")
                self.displays[at] = msgspec.structs.replace(display, artifact=artifact)

    def result(self, isolation: Isolation, status: Status | None = None, reason: str | None = None) -> Result:
        """The worst of its blocks decides, and `status`, where the run itself has one to add."""
        final: Status = "ok"
        error = None
        if status is not None or self.errors:  # who did not end well has an error
            final, reason, error = self._verdict(status, reason)
        return Result(
            status=final,
            reason=reason,
            stdout="".join([block.stdout for block in self.blocks]),
            stderr="".join([block.stderr for block in self.blocks]),
            value=self.blocks[-1].value if self.blocks else None,
            error=error,
            errors=tuple(self.errors),
            variables=Variables(self._variables.values()),
            displays=tuple(self.displays),
            files=self.files,
            imports=tuple(self.imports),
            blocks=tuple(self.blocks),
            skipped=tuple(self.skipped),
            notices=tuple(self.notices),
            outputs=self.outputs,
            isolation=isolation,
            duration=self.duration,
            exit_code=next((ended.exit_code for ended in self._ends if ended.status == "exit"), None),
            task=self.task,
        )

    def _verdict(self, status: Status | None, reason: str | None) -> tuple[Status, str | None, ProgramError | None]:
        """The worst status, why, and the error that brought it."""
        statuses = [block.status for block in self.blocks]
        final = worst([*statuses, status] if status else statuses)
        decided = [block for block in self.blocks if block.status == final]
        why = next((block.reason for block in decided if block.reason), reason if final == status else None)
        told = next((block.error for block in decided if block.error is not None), None)
        fatal = next((error for error in self.errors if error.fatal), None)
        return final, why, told or fatal or next(iter(self.errors), None)

    def close(self) -> None:
        """Let go of what was kept on disk while the run went on."""
        for ended in self._ends:
            for captured in (ended.stdout, ended.stderr):
                if captured.spool is not None:
                    captured.spool.close()

    def _note(self, variable: Variable) -> None:
        """The last state of each name; one that this run made is not a changed one, whatever came after."""
        before = self._variables.get(variable.name)
        if before is not None and before.change == "created":
            variable = msgspec.structs.replace(variable, change="created")
        self._variables[variable.name] = variable

    async def _put(self, store: ArtifactStore, pieces: Sequence[bytes], what: str) -> str | None:
        try:
            return await store.put(pieces)
        except ClicketError as error:
            self.skipped.append(Skipped(what=what, why=f"could not be kept: {error}"))
            return None


class _Whole(Sequence[bytes]):
    """All that the blocks wrote to a stream, up to as much as a block may write. It is read from disk piece by piece, each
    time that somebody goes through it: output must not grow the process that looks after many programs."""

    def __init__(self, captured: list[Captured], most: int) -> None:
        self._captured = captured
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        return _whole(self._captured, self._most)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


def _whole(captured: Iterable[Captured], most: int) -> Iterator[bytes]:
    left, lost = most, 0
    for part in captured:
        kept = 0
        for piece in (part.text.encode("utf-8", "replace"),) if part.spool is None else part.spool.pieces():
            if left <= 0:
                break
            taken = piece[:left]
            yield taken
            left -= len(taken)
            kept += len(taken)
        lost += max(part.size - kept, 0)
    if lost:
        yield f"\n[{lost} more bytes were not kept]\n".encode()


def bytes_of(mime: str, data: str) -> bytes:
    """Pictures come as base64; everything else, and what only claims to be a picture, is text."""
    if mime.startswith("image/") and mime != "image/svg+xml":
        try:
            return base64.b64decode(data, validate=True)
        except ValueError:  # not base64, or not even ASCII: a program can show what it likes
            pass
    return data.encode("utf-8", "replace")
