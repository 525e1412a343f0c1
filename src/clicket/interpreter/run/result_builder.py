"""Collects what happens in a run into one `Result`."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from clicket import system
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
from clicket.interpreter.sandbox.isolation import Isolation
from clicket.interpreter.session.block_run import BlockEnd
from clicket.interpreter.session.capture import Captured

__all__ = ["ResultBuilder", "bytes_of"]

_SMALL = 16 * 1024
"""Characters of a display up to which it is only in the result; a longer one is stored as an artifact too."""
_MAX_DISPLAYED = 64 * 1024 * 1024


class ResultBuilder:
    def __init__(self, task: str, limits: RunLimits) -> None:
        self.task = task
        self.limits = limits
        self.blocks: list[Block] = []
        self.displays: list[Display] = []
        self.errors: list[ProgramError] = []
        self.imports: dict[str, None] = {}
        self.warnings: list[str] = []
        self.skipped: list[Skipped] = []
        self.files: tuple[File, ...] = ()
        self.outputs: dict[str, str] = {}
        self._started_at = system.monotonic()
        self._ends: list[BlockEnd] = []
        self._variables: dict[str, Variable] = {}
        self._displayed = 0
        self._full = False

    def add_display(self, display: Display) -> None:
        """Add a display, up to a limit of bytes for all of them."""
        self._displayed += sys.getsizeof(display.data)
        if self._displayed <= _MAX_DISPLAYED:
            self.displays.append(display)
        elif not self._full:
            self._full = True
            why = f"the displays of a run may have {_MAX_DISPLAYED:,} bytes together; they were only sent as messages"
            self.skipped.append(Skipped(what=f"displays from block {display.block_index + 1} on", why=why))

    def add_block(self, index: int, block: Fence, bare: bool, ended: BlockEnd) -> tuple[Block, ProgramError | None]:
        error = error_of(ended, index, self.limits)
        added = Block(
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
        self.blocks.append(added)
        self._ends.append(ended)
        if error is not None:
            self.errors.append(error)
        if ended.threads:
            threads = "a thread" if ended.threads == 1 else f"{ended.threads} threads"
            self.warnings.append(f"Block {index + 1} left {threads} running. They are frozen between runs.")
        for variable in ended.variables:
            self._add_variable(variable)
        return added, error

    async def store_large(self, store: ArtifactStore) -> None:
        """Store long output and large displays as artifacts."""
        for stream in ("stdout", "stderr"):
            captured: list[Captured] = [getattr(ended, stream) for ended in self._ends]
            if any(part.cut for part in captured):
                name = await self._put(store, _Whole(captured, self.limits.max_output), f"all of {stream}")
                if name is not None:
                    self.outputs[stream] = name
        for at, display in enumerate(self.displays):
            if len(display.data) > _SMALL:
                artifact = await self._put(store, [bytes_of(display.mime, display.data)], f"a display ({display.mime})")
                self.displays[at] = msgspec.structs.replace(display, artifact=artifact)

    def result(self, isolation: Isolation, status: Status | None = None, reason: str | None = None) -> Result:
        """The result has the worst status of the blocks and of the run itself (`status`)."""
        final: Status = "ok"
        error = None
        if status is not None or self.errors:
            final, reason, error = self._worst(status, reason)
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
            warnings=tuple(self.warnings),
            outputs=self.outputs,
            isolation=isolation,
            duration=system.monotonic() - self._started_at,
            exit_code=next((ended.exit_code for ended in self._ends if ended.status == "exit"), None),
            task=self.task,
        )

    def _worst(self, status: Status | None, reason: str | None) -> tuple[Status, str | None, ProgramError | None]:
        """The worst status, its reason, and its error."""
        statuses = [block.status for block in self.blocks]
        final = worst([*statuses, status] if status else statuses)
        decided = [block for block in self.blocks if block.status == final]
        why = next((block.reason for block in decided if block.reason), reason if final == status else None)
        reported = next((block.error for block in decided if block.error is not None), None)
        fatal = next((error for error in self.errors if error.fatal), None)
        return final, why, reported or fatal or next(iter(self.errors), None)

    def close(self) -> None:
        """Close the files with captured output."""
        for ended in self._ends:
            for captured in (ended.stdout, ended.stderr):
                if captured.spool is not None:
                    captured.spool.close()

    def _add_variable(self, variable: Variable) -> None:
        """The last state of each name. A name that this run created stays "created" when it changes."""
        before = self._variables.get(variable.name)
        if before is not None and before.change == "created":
            variable = msgspec.structs.replace(variable, change="created")
        self._variables[variable.name] = variable

    async def _put(self, store: ArtifactStore, pieces: Sequence[bytes], what: str) -> str | None:
        try:
            return await store.put(pieces)
        except ClicketError as error:
            self.skipped.append(Skipped(what=what, why=f"could not be stored: {error}"))
            return None


class _Whole(Sequence[bytes]):
    """All that the blocks wrote to a stream, up to the output limit of one block. Each iteration reads it from disk piece by
    piece, so that long output does not fill the host's memory."""

    def __init__(self, captured: list[Captured], most: int) -> None:
        self._captured = captured
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        left = self._most
        lost = 0
        for part in self._captured:
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
            yield f"\n[{lost} more bytes were not stored]\n".encode()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


def bytes_of(mime: str, data: str) -> bytes:
    """The bytes of a display: pictures are base64; everything else, and what is not valid base64, is text."""
    if mime.startswith("image/") and mime != "image/svg+xml":
        try:
            return base64.b64decode(data, validate=True)
        except ValueError:  # not base64: a program can display anything
            pass
    return data.encode("utf-8", "replace")
