"""Settings, then a trial of what works here, then cages. Below the level that is asked for, nothing runs."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clicket.bridge import Workers
from clicket.errors import ClicketError, UsageError
from clicket.sandbox import cgroup
from clicket.sandbox.bubblewrap import HOME
from clicket.sandbox.isolation import LEVELS, Isolation, NotIsolated, check_layers, check_level
from clicket.sandbox.launch import launch
from clicket.sandbox.launch_resources import SandboxFailed, SandboxResources
from clicket.sandbox.limits import Limits
from clicket.sandbox.probe import ProbeResult, probe
from clicket.sandbox.process import SandboxProcess
from clicket.sandbox.python_runtime import describe, lay_out
from clicket.sandbox.workdirs import PREFIX, WorkdirRoot

__all__ = ["Sandbox"]

_CLOSED = "the sandbox is closed; make a new one."


class Sandbox:
    """Makes cages, all of one kind, and ends them with itself.

    `without` switches layers off, for tests and for finding out. `readable` names more folders of the host that programs see,
    at their own paths; `path` the same, and they are searched for modules.
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
    ) -> None:
        self.require: str = check_level(require)
        self.limits = limits
        self._python = python
        self._without = check_layers(without)
        self._path = tuple(_absolute(folder) for folder in path)
        self._readable = (*(_absolute(folder) for folder in readable), *self._path)
        self._temp = temp
        self._ground: asyncio.Future[SandboxResources] | None = None
        self._workers = Workers(2, "clicket-sandbox")
        self._processes: set[SandboxProcess] = set()
        self._starting: set[asyncio.Future[None]] = set()
        self._closed = False
        self._preparing = asyncio.Lock()

    async def isolation(self) -> Isolation:
        """What this host can do, seen by trying it once."""
        return (await self._ready())[1].isolation

    async def start(
        self,
        program: str,
        settings: dict[str, Any] = {},  # noqa: B006 -- only read
        *,
        limits: Limits | None = None,
    ) -> SandboxProcess:
        """A program, running in a cage of its own. Its first frame is there to be read."""
        ground, finding = await self._ready()
        if self._closed:  # meanwhile: the ground is about to go
            raise UsageError(_CLOSED)
        _refuse_below(self.require, finding.isolation)
        under_way: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._starting.add(under_way)
        try:
            process = await launch(
                ground,
                finding.plan,
                program=program,
                settings=settings,
                limits=limits or self.limits,
                isolation=finding.isolation,
                forget=self._processes.discard,
            )
            self._processes.add(process)
        finally:
            self._starting.discard(under_way)
            under_way.set_result(None)
        if self._closed:  # meanwhile
            await process.close()
            raise UsageError(_CLOSED)
        return process

    async def close(self) -> None:
        """Ends every cage and leaves nothing behind."""
        self._closed = True
        if self._starting:
            await asyncio.wait(set(self._starting))
        await asyncio.gather(*(process.close() for process in list(self._processes)))
        async with self._preparing:
            await self._clear()

    async def _ready(self) -> tuple[SandboxResources, ProbeResult]:
        """The first who comes prepares the ground and tries it out; the others wait for that."""
        async with self._preparing:
            if self._closed:
                raise UsageError(_CLOSED)
            if self._ground is None:
                self._ground = asyncio.ensure_future(self._workers.run(self._prepare))
            try:
                # A thread makes it, and goes on when nobody waits any more: then `close` finds what it has made.
                ground = await asyncio.shield(self._ground)
            except Exception:
                self._ground = None  # the next who comes tries again
                raise
            return ground, await probe(ground, self._without)

    async def _clear(self) -> None:
        made, self._ground = self._ground, None
        if made is not None:
            with contextlib.suppress(ClicketError, OSError):  # whoever asked for it has heard of it
                (await made).home.close()
        self._workers.close()

    def _prepare(self) -> SandboxResources:
        for folder in self._readable:
            if not folder.is_dir():
                raise UsageError(f"{folder} cannot be shown to programs: it is no folder.")
        python = describe(self._python)
        home = None
        try:
            home = WorkdirRoot(self._temp)
            lay_out(home.path / "library", python)
            parents = cgroup.find()
            cgroup.sweep_forgotten(parents, PREFIX)
            home.note_groups(parents.folders)
        except OSError as error:
            if home is not None:
                home.close()
            where = self._temp or tempfile.gettempdir()
            raise SandboxFailed(
                f"the sandbox could not make its folder in {where}: {error}. Name another one: temp=."
            ) from error
        return SandboxResources(
            home=home,
            library=home.path / "library",
            python=python,
            readable=self._readable,
            path=self._path,
            parents=parents,
            workers=self._workers,
        )


def _absolute(folder: Path) -> Path:
    found = Path(folder).absolute()
    if found.is_relative_to(HOME):
        raise UsageError(
            f"{found} cannot be shown in a cage: there, {HOME} is the program's own folder. Use a folder in another place."
        )
    return found


def _refuse_below(require: str, isolation: Isolation) -> None:
    if LEVELS.index(isolation.level) >= LEVELS.index(require):
        return
    gaps = "; ".join(isolation.gaps[:-1])
    raise NotIsolated(
        f"this host gives the isolation level {isolation.level!r}, and {require!r} is required, so nothing was run. "
        f"What is missing: {gaps}. Install bubblewrap and util-linux (and allow user namespaces), or accept less with "
        f"require={isolation.level!r}."
    )
