"""One start of a cage: everything that it takes hold of on the way, so that a start that fails gives all of it back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Literal

import msgspec

from clicket.bridge import Workers
from clicket.errors import ClicketError
from clicket.sandbox import bubblewrap, cgroup, environment, identity, workdirs
from clicket.sandbox.descriptors import has_bytes, send, wait_readable
from clicket.sandbox.limits import Limits
from clicket.sandbox.process import Exit
from clicket.sandbox.process_tree import ProcessTree
from clicket.sandbox.python_runtime import PythonRuntime

__all__ = ["LaunchResources", "Plan", "SandboxFailed", "SandboxResources"]

_WORDS = 2000
_PATIENCE = 10.0
"""Seconds that a start which is given up has to come to a point where it can be undone."""


class SandboxFailed(ClicketError):
    """A cage did not come to life although the host seemed able to make one."""

    code = "sandbox_failed"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How cages are made here: by what, and with which layers."""

    launcher: Literal["bubblewrap", "guard", "plain"]
    layers: frozenset[str]
    root: bool
    disable_userns: bool = True


class SandboxResources(msgspec.Struct, frozen=True, kw_only=True):
    """What all cages of a sandbox stand on."""

    home: workdirs.WorkdirRoot
    library: Path
    python: PythonRuntime
    readable: tuple[Path, ...] = ()
    path: tuple[Path, ...] = ()
    parents: cgroup.Parents
    workers: Workers


class LaunchResources:
    """Holds the pieces; `ways.py` puts them together, and a `SandboxProcess` takes them over."""

    def __init__(self, ground: SandboxResources, plan: Plan, limits: Limits) -> None:
        self.ground = ground
        self.plan = plan
        self.limits = limits
        self.uid = identity.choose() if plan.root and "identity" in plan.layers else None
        if self.uid is None and plan.root and "identity" in plan.layers:
            raise SandboxFailed("a cage could not be made: no user number is left that it could have for itself.")
        self.folder = ground.home.new_workdir(self.uid, scratch=plan.launcher != "bubblewrap")
        self.python, self.home, self.scratch = ground.python, str(self.folder / "work"), str(self.folder / "scratch")
        if plan.launcher == "bubblewrap":
            self.python = bubblewrap.shown_python(ground.python)
            self.home, self.scratch = bubblewrap.HOME, bubblewrap.SCRATCH
        self.group: cgroup.Group | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.tree: ProcessTree | None = None
        self.namespace: asyncio.Future[None] | None = None
        """Under way to a tree."""
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._spare: list[int | socket.socket] = []
        try:
            self.pipes = environment.Pipes()
        except OSError:
            workdirs.remove(self.folder)
            identity.give_back(self.uid)
            raise

    # -- pieces ------------------------------------------------------------------------------------------------------

    def make_group(self) -> None:
        if "cgroup" in self.plan.layers:
            name = f"{self.ground.home.name}-{self.folder.name}"
            self.group = cgroup.Group(
                self.ground.parents, name, memory=self.limits.memory, processes=self.limits.processes
            )

    def join(self, pid: int) -> None:
        if self.group is not None:
            self.group.join(pid)

    def interpreter(self, library: str) -> list[str]:
        """The command that all ways end in."""
        first = environment.prelude(library, self.pipes.inside.commands, self.pipes.inside.answers)
        return [self.python.executable, "-I", "-X", "utf8", "-c", first]

    def spawn(self, command: list[str], *extra: int, executable: str | None = None) -> int:
        """LaunchResources the process that is ours to wait for, from this thread: bubblewrap dies with the thread that started it."""
        inside = self.pipes.inside
        self.process = subprocess.Popen(
            command,
            executable=executable,
            stdin=subprocess.DEVNULL,
            stdout=inside.stdout,
            stderr=inside.stderr,
            pass_fds=(inside.commands, inside.answers, *extra),
            env=environment.variables(
                home=self.home,
                binaries=os.path.dirname(self.python.executable),
                scratch=self.scratch,
                inherit="environment" not in self.plan.layers,
            ),
            cwd="/",
            start_new_session=True,
        )
        self.pipes.handed_over()
        self._await_exit(self.process)
        return self.process.pid

    def pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._spare += ends
        return ends

    def sockets(self) -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        self._spare += pair
        return pair

    def file(self, content: bytes) -> int:
        """One without a name."""
        fd = os.memfd_create("arguments")
        self._spare.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def release(self, one: socket.socket) -> socket.socket:
        """It has another owner now."""
        self._spare.remove(one)
        return one

    def close(self, *spare: int | socket.socket) -> None:
        for one in spare:
            self._spare.remove(one)
            if isinstance(one, int):
                os.close(one)
            else:
                one.close()

    # -- beginning and end -------------------------------------------------------------------------------------------

    async def first_word(self, frame: bytes) -> None:
        """Send the order, and wait until the program's answer can be read; or say why there is none."""
        await send(self.pipes.host.commands, frame)
        await wait_readable(self.pipes.host.answers)  # its end would be something to read, too
        if not has_bytes(self.pipes.host.answers):
            await asyncio.shield(self.exited)
            raise SandboxFailed(f"the program did not start in its cage ({self.plan.launcher}): {self._last_words()}.")
        if self.tree is None:
            raise SandboxFailed(f"the program started, but not in a cage that can be ended ({self.plan.launcher}).")

    def _last_words(self) -> str:
        said = b""
        with contextlib.suppress(OSError):
            said = os.read(self.pipes.host.stderr, _WORDS)
        ended = self.exited.result()
        how = f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
        return said.decode("utf-8", "replace").strip().rstrip(".") or f"it ended without a word, {how}"

    async def undo(self) -> None:
        if self.namespace is not None:
            with contextlib.suppress(TimeoutError, OSError):
                await asyncio.wait_for(self.namespace, _PATIENCE)
        self.close(*list(self._spare))  # what waits for one of these goes on, and ends
        if self.tree is not None:
            self.tree.kill()
        elif self.process is not None and self.process.returncode is None:
            self.process.kill()
        if self.process is not None:
            await self.exited
        if self.tree is not None:
            await self.tree.gone()
            self.tree.close()
        self.pipes.close()
        if self.group is not None:
            self.group.kill()
            await self.group.dissolve()
        await self.ground.workers.run(lambda: workdirs.remove(self.folder))
        identity.give_back(self.uid)

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()

        def ended(*_: object) -> None:
            process.wait()
            if not self.exited.done():
                self.exited.set_result(self._exit(process.returncode))

        if not hasattr(os, "pidfd_open"):  # a thread of its own waits, and goes
            waiting = Workers(1, "clicket-cage")

            def came_back(*_: object) -> None:
                waiting.close()
                ended()

            waiting.submit(process.wait, came_back)
            return
        fd = os.pidfd_open(process.pid)

        def seen() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            ended()

        loop.add_reader(fd, seen)

    def _exit(self, status: int) -> Exit:
        """bubblewrap's own status says 128 + N for a program that died of signal N."""
        number = -status if status < 0 else 0
        if self.plan.launcher == "bubblewrap" and 128 < status < 128 + signal.NSIG:
            number = status - 128
        if not number:
            return Exit(code=status)
        full = number == signal.SIGKILL and self.group is not None and self.group.out_of_memory() > 0
        return Exit(signal=number, memory=full)
