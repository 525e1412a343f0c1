"""`Sandbox`: prepares shared resources, probes this host once, then starts programs. Below the required level nothing runs."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import ClicketError, UsageError
from clicket.interpreter.sandbox import cgroup
from clicket.interpreter.sandbox.bubblewrap import HOME
from clicket.interpreter.sandbox.isolation import (
    LEVELS,
    Isolation,
    NotIsolated,
    check_layers,
    check_level,
    isolation_of,
)
from clicket.interpreter.sandbox.launch_resources import SandboxFailed, SandboxResources
from clicket.interpreter.sandbox.launchers import launch
from clicket.interpreter.sandbox.limits import Limits
from clicket.interpreter.sandbox.probe import ProbeResult, probe
from clicket.interpreter.sandbox.process import SandboxProcess
from clicket.interpreter.sandbox.python_runtime import find_python, write_modules
from clicket.interpreter.sandbox.workdirs import PREFIX, WorkdirRoot
from clicket.system.bridge import ThreadPool

__all__ = ["Sandbox"]

_CLOSED = "the sandbox is closed; make a new one."


class Sandbox:
    """Starts programs with the same isolation, and ends them when it is closed.

    `folder`: a folder of the host in which programs work and write, in place of an empty one of their own. It stays, and only the size
    of each file in it is limited. `without` switches layers off, for tests. `readable` names further folders of the host that programs
    can read, at the same paths; folders in `path` are readable too, and are searched for modules.
    """

    def __init__(
        self,
        *,
        require: str = "full",
        limits: Limits = Limits(),  # noqa: B008 -- frozen
        python: str | None = None,
        without: Iterable[str] = (),
        readable: Iterable[Path] = (),
        path: Iterable[Path] = (),
        temp: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self.require: str = check_level(require)
        self.limits = limits
        self._python = python
        self._without = check_layers(without)
        self._path = tuple(_absolute(folder) for folder in path)
        self._readable = (*(_absolute(folder) for folder in readable), *self._path)
        self._temp = temp
        self.folder: Path | None = None if folder is None else Path(folder).resolve()
        self._shared: asyncio.Future[SandboxResources] | None = None
        self._thread_pool = ThreadPool(2, "clicket-sandbox")
        self._processes: set[SandboxProcess] = set()
        self._starting: set[asyncio.Future[None]] = set()
        self._closed = False
        self._preparing = asyncio.Lock()

    async def isolation(self) -> Isolation:
        """The isolation of this host, found by running a probe program once."""
        return (await self._ready())[1].isolation

    async def start(
        self,
        program: str,
        settings: dict[str, Any] = {},  # noqa: B006 -- only read
        *,
        limits: Limits | None = None,
    ) -> SandboxProcess:
        """Start the module `program` in its own sandbox process. Returns when its first frame can be read.

        Raises `NotIsolated` when this host gives less than the required level, `SandboxFailed` when the start fails.
        """
        shared, probed = await self._ready()
        if self._closed:  # closed while this waited
            raise UsageError(_CLOSED)
        plan, isolation = probed.plan, probed.isolation
        if self.folder is not None and plan.root and self.folder.stat().st_uid == 0:
            # Only root may write there, so the program stays root, without root's capabilities.
            plan = msgspec.structs.replace(plan, layers=plan.layers - {"identity"})
            gap = f"folder: {self.folder} belongs to root, so the program is root there; give the folder to another user (chown)"
            isolation = isolation_of(plan.layers, (gap,))
        _refuse_below(self.require, isolation)
        launched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._starting.add(launched)
        try:
            process = await launch(
                shared,
                plan,
                program=program,
                settings=settings,
                limits=limits or self.limits,
                isolation=isolation,
                on_closed=self._processes.discard,
                folder=self.folder,
            )
            self._processes.add(process)
        finally:
            self._starting.discard(launched)
            launched.set_result(None)
        if self._closed:  # closed while this waited
            await process.close()
            raise UsageError(_CLOSED)
        return process

    async def close(self) -> None:
        """End every program and remove all files, processes and cgroups."""
        self._closed = True
        if self._starting:
            await asyncio.wait(set(self._starting))
        await asyncio.gather(*(process.close() for process in list(self._processes)))
        async with self._preparing:
            await self._clear()

    async def _ready(self) -> tuple[SandboxResources, ProbeResult]:
        """The first caller prepares the shared resources and runs the probe; the others wait for it."""
        async with self._preparing:
            if self._closed:
                raise UsageError(_CLOSED)
            if self._shared is None:
                self._shared = asyncio.ensure_future(self._thread_pool.run(self._prepare))
            try:
                # The thread finishes even if this caller is cancelled: then `close` removes what it has made.
                shared = await asyncio.shield(self._shared)
            except Exception:
                self._shared = None  # the next caller tries again
                raise
            return shared, await probe(shared, self._without)

    async def _clear(self) -> None:
        made, self._shared = self._shared, None
        if made is not None:
            with contextlib.suppress(ClicketError, OSError):  # raised to the caller that prepared it
                (await made).workdirs.close()
        self._thread_pool.close()

    def _prepare(self) -> SandboxResources:
        for folder in self._readable:
            if not folder.is_dir():
                raise UsageError(f"{folder} cannot be shown to programs: it is not a folder.")
        python = find_python(self._python)
        workdirs = None
        try:
            workdirs = WorkdirRoot(self._temp)
            write_modules(workdirs.path / "library", python)
            parents = cgroup.find()
            cgroup.sweep_forgotten(parents, PREFIX)
            workdirs.note_groups(parents.folders)
        except OSError as error:
            if workdirs is not None:
                workdirs.close()
            where = self._temp or tempfile.gettempdir()
            raise SandboxFailed(
                f"the sandbox could not make its folder in {where}: {error}. Name another one: temp=."
            ) from error
        return SandboxResources(
            workdirs=workdirs,
            library=workdirs.path / "library",
            python=python,
            readable=self._readable,
            path=self._path,
            parents=parents,
            thread_pool=self._thread_pool,
        )


def _absolute(folder: Path) -> Path:
    found = Path(folder).absolute()
    if found.is_relative_to(HOME):
        raise UsageError(
            f"{found} cannot be shown in the sandbox: there, {HOME} is the program's own folder. Use another folder."
        )
    return found


def _refuse_below(require: str, isolation: Isolation) -> None:
    if LEVELS.index(isolation.level) >= LEVELS.index(require):
        return
    gaps = "; ".join(isolation.gaps[:-1])
    raise NotIsolated(
        f"this host gives the isolation level {isolation.level!r}, and {require!r} is required, so nothing was run. "
        f"Missing: {gaps}. Install bubblewrap and util-linux (and allow user namespaces), or accept less with "
        f"require={isolation.level!r}."
    )
