"""One program that runs caged: its pipes, its folder, its end. `close` leaves no process, no file and no group of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from clicket.bridge import Workers
from clicket.sandbox import identity, workdirs
from clicket.sandbox.bubblewrap import SCRATCH, SHARED
from clicket.sandbox.cgroup import Group
from clicket.sandbox.environment import Pipes
from clicket.sandbox.isolation import Isolation
from clicket.sandbox.limits import Limits
from clicket.sandbox.process_tree import ProcessTree
from clicket.sandbox.usage_monitor import UsageMonitor, memory_of

__all__ = ["Exit", "SandboxProcess"]

_QUIET_LOOKS, _MOST_LOOKS = 3, 50
_AGAIN = 1.0
"""Seconds between looks at processes that were stopped one by one, and must stay so."""
_PATIENCE = 10.0
"""Seconds in which a process that got SIGKILL is gone; one that sits in the kernel longer is left to it."""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended. `memory`: it had no choice, it held too much of it."""

    code: int | None = None
    signal: int | None = None
    memory: bool = False


class SandboxProcess:
    """Made by `Sandbox.start`. The descriptors are the host's ends and never block."""

    def __init__(
        self,
        *,
        tree: ProcessTree,
        pipes: Pipes,
        folder: Path,
        home: str,
        uid: int | None,
        isolation: Isolation,
        limits: Limits,
        group: Group | None,
        exited: asyncio.Future[Exit],
        workers: Workers,
        forget: Callable[[SandboxProcess], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.commands: int = pipes.host.commands
        self.answers: int = pipes.host.answers
        self.stdout: int = pipes.host.stdout
        self.stderr: int = pipes.host.stderr
        self.work: Path = folder / "work"
        self.work_fd: int = _open_folder(self.work)
        self.home = home
        self.uid = uid
        self.isolation = isolation
        self.limits = limits
        self.exited = exited
        self.breach: asyncio.Future[str] = loop.create_future()
        self._tree = tree
        self._pipes = pipes
        self._folder = folder
        self._group = group
        self._workers = workers
        self._forget = forget
        self._frozen = False
        self._stopped: set[int] = set()
        self._again: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._folders = [self.work_fd]
        if (folder / "scratch").is_dir():
            self._folders.append(_open_folder(folder / "scratch"))
        self._scratch: list[int] = []
        self._watch: UsageMonitor | None = None
        if "watch" in isolation.layers:
            counted = group is not None and group.bounds_memory
            if "namespaces" in isolation.layers and not counted:
                self._scratch = _open_scratch(tree.program)
            self._watch = UsageMonitor(
                folders=tuple(self._folders),
                limits=limits,
                pids=self.pids,
                memory=not counted,
                scratch=tuple(self._scratch),
                workers=workers,
                tell=self._breached,
            )

    @property
    def watching(self) -> bool:
        """Whether memory and disk are looked at; switch it on while a program is busy."""
        return self._watch is not None and self._watch.on

    @watching.setter
    def watching(self, on: bool) -> None:
        if self._watch is not None and self._closing is None:
            if on:
                self._watch.start()
            else:
                self._watch.rest()

    def pids(self) -> list[int]:
        """The host's numbers of all its processes."""
        return self._tree.pids()

    def grouped(self) -> bool:
        """Whether the program is in the cgroup that was made for it."""
        program = self._tree.program
        return self._group is not None and program is not None and self._group.holds(program)

    def memory(self) -> int:
        """Bytes that it holds now."""
        held = self._group.memory() if self._group is not None else None
        return held if held is not None else memory_of(self.pids())

    def interrupt(self) -> None:
        """SIGINT to the program alone."""
        if not self.exited.done():
            self._tree.interrupt()

    def kill(self) -> None:
        """Everything in it, now. `exited` tells when it has happened."""
        if self._closing is not None and self._closing.done():
            return
        self._tree.kill()
        if self._group is not None:
            self._group.kill()
            self._group.freeze(False)  # where the frozen die only when they thaw: with the blow already dealt

    def freeze(self) -> None:
        """Nothing in it runs until `thaw`."""
        if self._frozen or self.exited.done() or self._closing is not None:
            return
        self._frozen = True
        if self._group is not None and self._group.freeze(True):
            return
        self._stop_all()

    def _stop_all(self) -> None:
        """Who is stopped starts nobody: when looks find nobody new, all are. One that hops from child to child can slip through
        a look, so there are several, and later more: cheap for those who stand still."""
        self._again = None
        if self.exited.done():
            return
        self._tree.signal_group(signal.SIGSTOP)
        quiet = 0
        for _ in range(_MOST_LOOKS):
            pids = self.pids()
            quiet = quiet + 1 if self._stopped.issuperset(pids) else 0
            self._stopped.update(pids)
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            if quiet == _QUIET_LOOKS:
                break
        self._again = asyncio.get_running_loop().call_later(_AGAIN, self._stop_all)

    def thaw(self) -> None:
        if not self._frozen:
            return
        self._frozen = False
        self._look_no_more()
        if self._group is not None:
            self._group.freeze(False)
        stopped, self._stopped = self._stopped, set()
        if stopped:
            self._tree.signal_group(signal.SIGCONT)
            for pid in self.pids():
                if pid in stopped:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGCONT)

    async def close(self) -> None:
        """Kill, reap, close, remove. May be called again, by several at once, and from a task that is cancelled."""
        if self._closing is None:
            self._look_no_more()
            if self._watch is not None:
                self._watch.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await asyncio.shield(self.exited)
                await self._tree.gone()
        await asyncio.sleep(0)  # who waits for `exited` takes the last words out of the pipes and lets go of them
        self._tree.close()
        self._pipes.close()
        for fd in (*self._folders, *self._scratch):
            os.close(fd)
        self.work_fd = -1
        if self._group is not None:
            await self._group.dissolve()
        await self._workers.run(lambda: workdirs.remove(self._folder))
        identity.give_back(self.uid)
        if self._watch is not None:
            self._watch.forget()
        self._forget(self)

    def _look_no_more(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _breached(self, what: str) -> None:
        if not self.breach.done():
            self.breach.set_result(what)


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_scratch(program: int | None) -> list[int]:
    """The program's file systems in memory: no process shows what is in them."""
    found = []
    for path in (SCRATCH, SHARED):
        with contextlib.suppress(OSError):
            found.append(os.open(f"/proc/{program}/root{path}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    return found
