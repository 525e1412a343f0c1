"""What one launch acquires (user id, folder, pipes, cgroup, process), and how a launch that fails releases all of it."""

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

from clicket.errors import ClicketError
from clicket.interpreter.sandbox import bubblewrap, cgroup, environment, identity
from clicket.interpreter.sandbox.descriptors import has_bytes, send, wait_readable
from clicket.interpreter.sandbox.limits import Limits
from clicket.interpreter.sandbox.process_tree import Exit, ProcessTree
from clicket.interpreter.sandbox.python_runtime import PythonRuntime
from clicket.interpreter.sandbox.workdirs import WorkdirRoot, remove
from clicket.system.bridge import ThreadPool

__all__ = ["LaunchResources", "Plan", "SandboxFailed", "SandboxResources"]

_MAX_STDERR = 2000
"""Bytes of the program's stderr in an error message."""
_RELEASE_TIMEOUT = 10.0
"""Seconds to wait for bubblewrap's report before a failed launch is released."""


class SandboxFailed(ClicketError):
    """A sandbox process did not start although the probe of this host had succeeded."""

    code = "sandbox_failed"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How programs are started on this host: by which launcher, with which layers."""

    launcher: Literal["bubblewrap", "supervisor", "plain"]
    layers: frozenset[str]
    root: bool
    disable_userns: bool = True


class SandboxResources(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of one `Sandbox` share."""

    workdirs: WorkdirRoot
    library: Path
    python: PythonRuntime
    readable: tuple[Path, ...] = ()
    path: tuple[Path, ...] = ()
    parents: cgroup.Parents
    thread_pool: ThreadPool


class LaunchResources:
    """Filled by a launcher, then owned by a `SandboxProcess`. Raises OSError when a resource cannot be had."""

    def __init__(self, shared: SandboxResources, plan: Plan, limits: Limits, work: Path | None = None) -> None:
        """`work`: a folder of the host, in which the program works as the folder's owner."""
        self.shared = shared
        self.plan = plan
        self.limits = limits
        self.owns_files: bool = work is not None
        """Its user may own other files of the host, too."""
        self.uid = None
        if plan.root and "identity" in plan.layers:
            self.uid = identity.allocate_uid() if work is None else work.stat().st_uid
        if self.uid is None and plan.root and "identity" in plan.layers:
            raise SandboxFailed("a sandbox process could not be made: no unused user id is left for it.")
        self.folder = shared.workdirs.new_workdir(self.uid, scratch=plan.launcher != "bubblewrap")
        self.work: Path = self.folder / "work" if work is None else work
        self.python, self.home, self.scratch = shared.python, str(self.work), str(self.folder / "scratch")
        if plan.launcher == "bubblewrap":
            self.python = bubblewrap.shown_python(shared.python)
            self.home, self.scratch = bubblewrap.HOME, bubblewrap.SCRATCH
        self.group: cgroup.Group | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.tree: ProcessTree | None = None
        self.namespace: asyncio.Future[None] | None = None
        """Waits for bubblewrap's report of its child, which becomes `tree`."""
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._temporary: list[int | socket.socket] = []
        """Descriptors and sockets that the launch itself needs."""
        try:
            self.pipes = environment.Pipes()
        except OSError:
            remove(self.folder)
            identity.release_uid(self.uid)
            raise

    def make_group(self) -> None:
        if "cgroup" in self.plan.layers:
            name = f"{self.shared.workdirs.name}-{self.folder.name}"
            self.group = cgroup.Group(
                self.shared.parents, name, memory=self.limits.memory, processes=self.limits.processes
            )

    def join(self, pid: int) -> None:
        if self.group is not None:
            self.group.join(pid)

    def interpreter(self, library: str) -> list[str]:
        """The command that runs `boot` with the program's Python."""
        first = environment.prelude(library, self.pipes.inside.commands, self.pipes.inside.answers)
        return [self.python.executable, "-I", "-X", "utf8", "-c", first]

    def spawn(self, command: list[str], *extra: int, executable: str | None = None) -> int:
        """Start our child process. In this thread: bubblewrap is killed when the thread that started it ends."""
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
        self._temporary += ends
        return ends

    def sockets(self) -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        self._temporary += pair
        return pair

    def file(self, content: bytes) -> int:
        """An unnamed file with this content."""
        fd = os.memfd_create("arguments")
        self._temporary.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def hand_over(self, one: socket.socket) -> socket.socket:
        """The caller closes this socket from now on."""
        self._temporary.remove(one)
        return one

    def close(self, *temporary: int | socket.socket) -> None:
        for one in temporary:
            self._temporary.remove(one)
            if isinstance(one, int):
                os.close(one)
            else:
                one.close()

    async def boot(self, config: bytes) -> None:
        """Send the boot config and wait for the program's first frame. Raises `SandboxFailed` if none comes."""
        await send(self.pipes.host.commands, config)
        await wait_readable(self.pipes.host.answers)  # also at the end of the pipe
        if not has_bytes(self.pipes.host.answers):
            await asyncio.shield(self.exited)
            raise SandboxFailed(f"the program did not start in the sandbox ({self.plan.launcher}): {self._failure()}.")
        if self.tree is None:
            raise SandboxFailed(f"the program started, but its processes cannot be controlled ({self.plan.launcher}).")

    def _failure(self) -> str:
        stderr = b""
        with contextlib.suppress(OSError):
            stderr = os.read(self.pipes.host.stderr, _MAX_STDERR)
        ended = self.exited.result()
        how = f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
        return stderr.decode("utf-8", "replace").strip().rstrip(".") or f"it ended without output, {how}"

    async def release(self) -> None:
        """After a failed launch: kill what was started and give everything back."""
        if self.namespace is not None:
            with contextlib.suppress(TimeoutError, OSError):
                await asyncio.wait_for(self.namespace, _RELEASE_TIMEOUT)
        self.close(*list(self._temporary))  # bubblewrap or the supervisor sees the end of its pipe, and exits
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
        await self.shared.thread_pool.run(lambda: remove(self.folder))
        identity.release_uid(self.uid)

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()

        def ended(*_: object) -> None:
            process.wait()
            if not self.exited.done():
                self.exited.set_result(self._exit(process.returncode))

        if not hasattr(os, "pidfd_open"):  # a thread waits instead
            waiting = ThreadPool(1, "clicket-sandbox-exit")

            def on_return(*_: object) -> None:
                waiting.close()
                ended()

            waiting.submit(process.wait, on_return)
            return
        fd = os.pidfd_open(process.pid)

        def on_exit() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            ended()

        loop.add_reader(fd, on_exit)

    def _exit(self, status: int) -> Exit:
        """bubblewrap exits with 128 + N when its program died of signal N."""
        number = -status if status < 0 else 0
        if self.plan.launcher == "bubblewrap" and 128 < status < 128 + signal.NSIG:
            number = status - 128
        if not number:
            return Exit(code=status)
        full = number == signal.SIGKILL and self.group is not None and self.group.out_of_memory() > 0
        return Exit(signal=number, memory=full)
