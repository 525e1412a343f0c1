"""A running program in the sandbox, as the host holds it: pipes, signals, freezing, clean-up.

`close` leaves no process, no file and no cgroup of it behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from clicket.interpreter.sandbox import identity
from clicket.interpreter.sandbox.bubblewrap import SCRATCH, SHARED
from clicket.interpreter.sandbox.isolation import Isolation
from clicket.interpreter.sandbox.launch_resources import LaunchResources
from clicket.interpreter.sandbox.process_tree import Exit
from clicket.interpreter.sandbox.usage_monitor import UsageMonitor, cpu_time_of, memory_of
from clicket.interpreter.sandbox.workdirs import remove

__all__ = ["Exit", "SandboxProcess"]

_QUIET_SCANS, _MAX_SCANS = 3, 50
_STOP_AGAIN = 1.0
"""Seconds between scans for processes that are not stopped yet."""
_KILL_TIMEOUT = 10.0
"""Seconds until `close` stops waiting for killed processes; one that hangs in the kernel is left to it."""


class SandboxProcess:
    """Made by `Sandbox.start`. The descriptors are the host's ends and never block.

    `exited` tells how the program ended; `breach` which limit it exceeded: "memory" or "disk".
    """

    def __init__(
        self, launched: LaunchResources, isolation: Isolation, on_closed: Callable[[SandboxProcess], None]
    ) -> None:
        assert launched.tree is not None
        host = launched.pipes.host
        folder = launched.folder
        group = launched.group
        self.commands: int = host.commands
        self.answers: int = host.answers
        self.stdout: int = host.stdout
        self.stderr: int = host.stderr
        self.work: Path = folder / "work"
        self.work_fd: int = _open_folder(self.work)
        self.home = launched.home
        self.uid = launched.uid
        self.isolation = isolation
        self.limits = launched.limits
        self.exited: asyncio.Future[Exit] = launched.exited
        self.breach: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tree = launched.tree
        self._pipes = launched.pipes
        self._folder = folder
        self._group = group
        self._thread_pool = launched.shared.thread_pool
        self._on_closed = on_closed
        self._frozen = False
        self._stopped: set[int] = set()
        self._stop_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._folders = [self.work_fd]
        if (folder / "scratch").is_dir():
            self._folders.append(_open_folder(folder / "scratch"))
        self._scratch: list[int] = []
        self._monitor: UsageMonitor | None = None
        if "watch" in isolation.layers:
            counted = group is not None and group.bounds_memory
            if "namespaces" in isolation.layers and not counted:
                self._scratch = _open_scratch(self._tree.program)
            self._monitor = UsageMonitor(
                folders=tuple(self._folders),
                limits=self.limits,
                pids=self.pids,
                memory=not counted,
                scratch=tuple(self._scratch),
                thread_pool=self._thread_pool,
                on_breach=self._on_breach,
            )

    @property
    def watching(self) -> bool:
        """Whether memory and disk are measured. Set it to True while a program is busy."""
        return self._monitor is not None and self._monitor.on

    @watching.setter
    def watching(self, on: bool) -> None:
        if self._monitor is not None and self._closing is None:
            if on:
                self._monitor.start()
            else:
                self._monitor.pause()

    def pids(self) -> list[int]:
        """Process ids, as the host sees them, of all its processes."""
        return self._tree.pids()

    def grouped(self) -> bool:
        """Whether the program is in the cgroup that was made for it."""
        program = self._tree.program
        return self._group is not None and program is not None and self._group.holds(program)

    def memory(self) -> int:
        """Bytes of memory in use now."""
        held = self._group.memory() if self._group is not None else None
        return held if held is not None else memory_of(self.pids())

    def cpu_time(self) -> float:
        """Seconds of CPU time of all its processes, and of those that ended as far as another one of them waited for them."""
        return cpu_time_of(self.pids())

    def interrupt(self) -> None:
        """SIGINT to the program alone."""
        if not self.exited.done():
            self._tree.interrupt()

    def kill(self) -> None:
        """Kill all its processes now. `exited` is set when they are gone."""
        if self._closing is not None and self._closing.done():
            return
        self._tree.kill()
        if self._group is not None:
            self._group.kill()
            self._group.freeze(False)  # cgroup v1: frozen processes die only when they thaw

    def freeze(self) -> None:
        """Stop all its processes until `thaw`."""
        if self._frozen or self.exited.done() or self._closing is not None:
            return
        self._frozen = True
        if self._group is not None and self._group.freeze(True):
            return
        self._stop_all()

    def _stop_all(self) -> None:
        """Stop processes one by one. A stopped process starts no other: when several scans find no new process, all are
        stopped. A process that forks very fast can escape the scans, so they are repeated later."""
        self._stop_timer = None
        if self.exited.done():
            return
        self._tree.signal_group(signal.SIGSTOP)
        quiet = 0
        for _ in range(_MAX_SCANS):
            pids = self.pids()
            quiet = quiet + 1 if self._stopped.issuperset(pids) else 0
            self._stopped.update(pids)
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            if quiet == _QUIET_SCANS:
                break
        self._stop_timer = asyncio.get_running_loop().call_later(_STOP_AGAIN, self._stop_all)

    def thaw(self) -> None:
        if not self._frozen:
            return
        self._frozen = False
        self._cancel_scans()
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
        """Kill, reap, close, remove. May be called again, concurrently, and from a task that is cancelled."""
        if self._closing is None:
            self._cancel_scans()
            if self._monitor is not None:
                self._monitor.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_TIMEOUT):
                await asyncio.shield(self.exited)
                await self._tree.gone()
        await asyncio.sleep(0)  # callbacks of `exited` read what is left in the pipes
        self._tree.close()
        self._pipes.close()
        for fd in (*self._folders, *self._scratch):
            os.close(fd)
        self.work_fd = -1
        if self._group is not None:
            await self._group.dissolve()
        await self._thread_pool.run(lambda: remove(self._folder))
        identity.release_uid(self.uid)
        if self._monitor is not None:
            self._monitor.close()
        self._on_closed(self)

    def _cancel_scans(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None

    def _on_breach(self, what: str) -> None:
        if not self.breach.done():
            self.breach.set_result(what)


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_scratch(program: int | None) -> list[int]:
    """The program's tmpfs folders, whose content no process accounts for."""
    found = []
    for path in (SCRATCH, SHARED):
        with contextlib.suppress(OSError):
            found.append(os.open(f"/proc/{program}/root{path}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    return found
