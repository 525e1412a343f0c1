"""`Interpreter`: runs tasks in one sandboxed session that keeps its variables from run to run. No code of a program runs in this
process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from clicket.errors import UsageError
from clicket.interpreter.files.artifacts import ArtifactStore, TemporaryArtifacts
from clicket.interpreter.files.inputs import Inputs
from clicket.interpreter.files.outputs import OutputLimits
from clicket.interpreter.result import Result
from clicket.interpreter.run.block_errors import RunLimits
from clicket.interpreter.run.machine import Machine, RunOptions
from clicket.interpreter.run.messages import Message
from clicket.interpreter.run.session_slot import SessionSlot
from clicket.interpreter.sandbox import LEVELS, Isolation, Limits, size_of
from clicket.interpreter.session.session import Session
from clicket.interpreter.session.timers import Timers
from clicket.interpreter.session.uses import UseHandler
from clicket.interpreter.setup.session_factory import SessionFactory, limits_of
from clicket.kernel import CODE, CodeState
from clicket.system.bridge import ThreadPool

__all__ = ["Interpreter", "check_seconds"]

_HISTORY = 100
_HISTORY_SIZE = 128 * 1024 * 1024
_LARGE = _HISTORY_SIZE // _HISTORY
"""A full history of results below this size is within `_HISTORY_SIZE`."""
_UNKNOWN = Isolation(level="none", gaps=("nothing was run, so the isolation is not known",))


class Interpreter:
    """Runs Python tasks in a sandbox, one at a time, in one namespace.

    Each block has a `timeout` (seconds), a limit `max_output` and `kept_output` (what the result has of each stream); the session
    has `memory` and `limits`; a task may have `max_steps` blocks. `files` is a host folder whose files may be asked for by name.
    A run may store `max_files` files with `max_files_size` bytes together, one file half of it. `keep` is where files and long
    output are stored, by default a temporary folder. An unused session is closed after `idle_after` seconds. `start` and `thread_pool`
    replace the interpreter's own sessions and threads, as the tool's pool does.
    """

    def __init__(
        self,
        *,
        require: str = "full",
        timeout: float | None = 30.0,
        memory: int | str | None = None,
        max_steps: int = 10,
        limits: Limits | None = None,
        grace: float = 1.0,
        max_output: int | str = "64MiB",
        kept_output: int | str = "1MiB",
        python: str | None = None,
        without: Iterable[str] = (),
        preload: Iterable[str] = (),
        packages: Iterable[str] | None = None,
        wheels: str | os.PathLike[str] | None = None,
        install: Iterable[str] = (),
        files: str | os.PathLike[str] | None = None,
        max_files: int = 100,
        max_files_size: int | str = "128MiB",
        keep: ArtifactStore | None = None,
        idle_after: float | None = 1800.0,
        start: Callable[[], Awaitable[Session]] | None = None,
        thread_pool: ThreadPool | None = None,
    ) -> None:
        check_seconds(timeout=timeout, grace=grace, idle_after=idle_after)
        for name, number in (("max_steps", max_steps), ("max_files", max_files)):
            if type(number) is not int or number < 1:
                raise UsageError(f"{name} must be a whole number of at least 1, not {number!r}.")
        run_limits = RunLimits(
            timeout=timeout, max_output=size_of(max_output, "max_output"), sandbox=limits_of(limits, memory)
        )
        self.idle_after = idle_after
        self.history: list[Result] = []
        """The last hundred results, fewer if they are large, the newest last."""
        whole = size_of(max_files_size, "max_files_size")
        self._options = RunOptions(
            limits=run_limits,
            max_steps=max_steps,
            folder=None if files is None else Path(files),
            output_limits=OutputLimits(count=max_files, each=(whole + 1) // 2, whole=whole),
        )
        self._factory: SessionFactory | None = None
        if start is None:
            self._factory = SessionFactory(
                require=require,
                limits=run_limits.sandbox,
                python=python,
                without=without,
                packages=packages,
                wheels=wheels,
                install=install,
                preload=preload,
                grace=grace,
                max_output=max_output,
                kept_output=kept_output,
            )
        self._slot = SessionSlot(start or self._factory)  # type: ignore[arg-type]  # one of them is there
        self._own_thread_pool = thread_pool is None
        self._thread_pool = thread_pool or ThreadPool(1, "clicket-interpreter")
        self._temporary_artifacts = TemporaryArtifacts(self._thread_pool)
        self._store: ArtifactStore = keep or self._temporary_artifacts
        self._isolation: Isolation | None = None
        self._machine: Machine | None = None
        self._open = self._closed = False
        self._timers = Timers()
        self._dropping: asyncio.Task[bool] | None = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Probe the isolation of this host. Raises `NotIsolated` if it is below the required level."""
        if self._open:
            return self
        if self._closed:
            raise UsageError("this interpreter was closed, and what it stored is gone. Make a new one.")
        if self._factory is not None:
            try:
                self._isolation = await self._factory.isolation()
                if LEVELS.index(self._isolation.level) < LEVELS.index(self._factory.require):
                    await self._slot.take()  # raises, with all that is missing
            except BaseException:  # also when cancelled: an interpreter that did not open is not closed by its caller
                await self.close()
                raise
        self._open = True
        return self

    async def close(self) -> None:
        """End the program and the session, and remove what was stored."""
        self._open, self._closed = False, True
        self._timers.stop_all()
        if self._machine is not None and not self._machine.stepping:
            await self._machine.abandon()
        await self._slot.close()
        if self._dropping is not None:
            await self._dropping
        if self._factory is not None:
            await self._factory.close()
        self._temporary_artifacts.close()
        if self._own_thread_pool:
            self._thread_pool.close()

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def run(
        self,
        task: str,
        *,
        file_names: Iterable[str] = (),
        files: Mapping[str, bytes | str | Path] | None = None,
        keep: ArtifactStore | None = None,
        uses: UseHandler | None = None,
    ) -> Result:
        """Run a task to its end. Errors of the program are in the result, not raised. `uses` performs the program's uses of tools."""
        self.begin(task, file_names=file_names, files=files, keep=keep, uses=uses)
        machine = self._current
        try:
            await machine.finish()
        finally:
            self._record(machine)
        assert machine.result is not None
        return machine.result

    async def stream(
        self,
        task: str,
        *,
        file_names: Iterable[str] = (),
        files: Mapping[str, bytes | str | Path] | None = None,
        keep: ArtifactStore | None = None,
        uses: UseHandler | None = None,
    ) -> AsyncGenerator[Message, None]:
        """Run a task and yield messages while it runs; `final_result` is the last. Closed early, it stops the program."""
        self.begin(task, file_names=file_names, files=files, keep=keep, uses=uses)
        machine = self._current
        async with aclosing(self._recorded(machine, machine.stream())) as messages:
            async for message in messages:
                yield message

    def begin(
        self,
        task: str,
        *,
        file_names: Iterable[str] = (),
        files: Mapping[str, bytes | str | Path] | None = None,
        keep: ArtifactStore | None = None,
        uses: UseHandler | None = None,
    ) -> None:
        """Begin a run that the caller drives by `step`. One run at a time."""
        if not self._open:
            raise UsageError(
                "this interpreter is not open. Use `async with Interpreter(...) as ci:`, or await ci.open()."
            )
        if self.busy:
            raise UsageError(
                "this interpreter is busy with a run, and has one namespace: let it end, or use another interpreter."
            )
        self._timers.stop("idle")
        self._machine = Machine(
            _text(task),
            slot=self._slot,
            isolation=self.isolation,
            options=self._options,
            store=keep or self._store,
            thread_pool=self._thread_pool,
            inputs=_inputs(file_names, files) if file_names or files else None,
            uses=uses,
        )

    @property
    def _current(self) -> Machine:
        if self._machine is None:
            raise UsageError(
                "no run has begun. Call ci.begin(task) or ci.step(task) first, then ci.step() until ci.state is terminal."
            )
        return self._machine

    async def step(self, task: str | None = None) -> AsyncGenerator[Message, None]:
        """Do the work of the run's current state and yield its messages. Repeat until `state` is completed or error.

        With a task, it begins a run first, as `begin(task)` does.
        """
        if task is not None:
            self.begin(task)
        machine = self._current
        async with aclosing(self._recorded(machine, machine.step())) as messages:
            async for message in messages:
                yield message

    async def interrupt(self) -> None:
        """Stop the running block (interrupt, grace period, kill) and run no further one. Without a run, nothing happens."""
        if self._machine is not None and not self._machine.done:
            await self._machine.interrupt()

    def kill(self) -> None:
        """Kill the running program at once, with its session."""
        if self._machine is not None and not self._machine.done:
            self._machine.kill()

    # --- the session --------------------------------------------------------------------------------------------------

    @property
    def state(self) -> CodeState:
        """Of the current run, or of the last one."""
        return self._machine.state if self._machine is not None else CODE.initial

    @property
    def busy(self) -> bool:
        return self._machine is not None and not self._machine.done

    @property
    def session(self) -> Session | None:
        return self._slot.session

    @property
    def isolation(self) -> Isolation:
        """The isolation of programs. Known once the interpreter is open."""
        if self._slot.session is not None:
            return self._slot.session.isolation
        return self._isolation or _UNKNOWN

    async def artifact(self, name: str) -> bytes:
        """The bytes of an artifact that a result names: a file, a picture, a long output."""
        return await self._store.get(name)

    async def reset(self) -> None:
        """End the session: its variables and files are gone, and later runs get no warning."""
        await self._between_runs("reset")
        await self._slot.forget()

    async def drop(self, why: str) -> bool:
        """Close the session between runs. A later run that reads its variables fails with `why` they are gone."""
        await self._between_runs("drop")
        had = self._slot.session is not None
        await self._slot.drop(why)
        return had

    async def _recorded(
        self, machine: Machine, messages: AsyncGenerator[Message, None]
    ) -> AsyncGenerator[Message, None]:
        try:
            async with aclosing(messages):
                async for message in messages:
                    if machine.done:
                        self._record(machine)  # before the last message is yielded
                    yield message
        finally:
            self._record(machine)

    def _record(self, machine: Machine) -> None:
        if not machine.done or machine.recorded:
            return
        machine.recorded = True
        if machine.result is not None:
            self.history.append(machine.result)
            del self.history[:-_HISTORY]
            if machine.result.size > _LARGE:
                _shorten(self.history)
        if self._open and self.idle_after is not None and self._slot.session is not None:
            self._timers.start("idle", self.idle_after, self._on_idle)

    def _on_idle(self) -> None:
        if not self.busy:
            why = f"it was not used for {self.idle_after:g} seconds"
            self._dropping = asyncio.get_running_loop().create_task(self.drop(why))

    async def _between_runs(self, what: str) -> None:
        """End a run that is not being stepped. Raises `UsageError` while a step is under way."""
        machine = self._machine
        if machine is not None and machine.stepping:
            raise UsageError(f"{what} has to wait until the run is over. Interrupt it first: await ci.interrupt().")
        if machine is not None:
            await machine.abandon()
            self._record(machine)


def _shorten(history: list[Result]) -> None:
    while len(history) > 1 and sum(result.size for result in history) > _HISTORY_SIZE:
        del history[0]


def _text(task: Any) -> str:
    if not isinstance(task, str):
        raise UsageError(f"a task is text, Markdown or Python, not {type(task).__name__}.")
    return task


def _inputs(file_names: Iterable[str], files: Mapping[str, bytes | str | Path] | None) -> Inputs:
    names = (file_names,) if isinstance(file_names, str) else tuple(file_names)
    given = dict(files or {})
    for name in (*names, *given):
        if not isinstance(name, str):
            raise UsageError(f"names of files are text, not {type(name).__name__}.")
    for name, value in given.items():
        if not isinstance(value, bytes | str | Path):
            raise UsageError(f"files[{name!r}] must be bytes, text or a pathlib.Path, not {type(value).__name__}.")
    return Inputs(file_names=names, files=given)


def check_seconds(**options: Any) -> None:
    for name, value in options.items():
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf")
        ):
            raise UsageError(f"{name} must be a number of seconds above 0, not {value!r}.")
