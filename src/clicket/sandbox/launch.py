"""Starts a program in a cage, in the way that a plan says, and comes back when its first word is there to be read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from clicket.bridge import Workers
from clicket.errors import ClicketError
from clicket.sandbox import bubblewrap, cgroup, environment, frames, identity
from clicket.sandbox import home as homes
from clicket.sandbox.cage import Cage, Exit
from clicket.sandbox.isolation import Isolation
from clicket.sandbox.library import Python
from clicket.sandbox.limits import Limits
from clicket.sandbox.order import order as make_order
from clicket.sandbox.processes import Child, Namespace, Tree, wait_readable

__all__ = ["Ground", "Plan", "SandboxFailed", "launch"]

_PATIENCE = 60.0
"""Seconds from the start of a process to the first word of its program, on a machine that is very busy."""
_WORDS = 2000


class SandboxFailed(ClicketError):
    """A cage did not come to life although the host seemed able to make one."""

    code = "sandbox_failed"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How cages are made here: by what, and with which layers."""

    way: Literal["bubblewrap", "guard", "plain"]
    layers: frozenset[str]
    root: bool
    disable_userns: bool = True


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What all cages of a sandbox stand on."""

    home: homes.Home
    library: Path
    python: Python
    readable: tuple[Path, ...]
    parents: cgroup.Parents
    workers: Workers


class _Start:
    """One start. What it has taken so far is given back if it fails."""

    def __init__(self, ground: Ground, plan: Plan, limits: Limits) -> None:
        self.ground = ground
        self.plan = plan
        self.limits = limits
        self.uid = identity.choose() if plan.root and "identity" in plan.layers else None
        self.folder = ground.home.new_cage(self.uid)
        self.pipes = environment.Pipes()
        self.group: cgroup.Group | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.tree: Tree | None = None
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._spare: list[int] = []

    # -- the ways ----------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        if "cgroup" in self.plan.layers:
            name = f"{self.ground.home.name}-{self.folder.name}"
            self.group = cgroup.Group(
                self.ground.parents, name, memory=self.limits.memory, processes=self.limits.processes
            )
        if self.plan.way == "bubblewrap":
            await self._in_namespaces()
        else:
            self._plain()

    async def _in_namespaces(self) -> None:
        info, info_inside = self._extra_pipe()
        block_inside, block = self._extra_pipe()
        arguments = self._arguments_file()
        command = [
            bubblewrap.tool() or "bwrap",
            *("--args", str(arguments), "--info-fd", str(info_inside), "--block-fd", str(block_inside)),
            *(identity.drop(identity.tool() or "setpriv", self.uid) if self.uid is not None else ()),
            *self._python(bubblewrap.shown_python(self.ground.python).executable, bubblewrap.LIBRARY),
        ]
        self._spawn(command, (arguments, info_inside, block_inside), bubblewrap.HOME, bubblewrap.SCRATCH)
        self._close(info_inside, block_inside, arguments)
        init = _child_pid(await _read_all(info))
        if init is not None:
            self.tree = Namespace(init)
            if self.group is not None:
                self.group.join(init)
        with contextlib.suppress(OSError):  # it is gone already, and will be heard of
            os.write(block, b"\n")
        self._close(info, block)

    def _plain(self) -> None:
        home = str(self.folder / "work")
        command = self._python(self.ground.python.executable, str(self.ground.library))
        process = self._spawn(command, (), home, home)
        self.tree = Child(process)
        if self.group is not None:
            self.group.join(process.pid)

    # -- their parts -------------------------------------------------------------------------------------------------

    def _python(self, executable: str, library: str) -> list[str]:
        inside = self.pipes.inside
        return [executable, "-I", "-X", "utf8", "-c", environment.prelude(library, inside.commands, inside.answers)]

    def _arguments_file(self) -> int:
        """In a file without a name: who reads the command line of the cage's first process learns nothing of the host."""
        etc = self.folder / "etc"
        uid = self.uid if self.uid is not None else bubblewrap.UID
        _write(etc / "passwd", f"root:x:0:0::/:/usr/sbin/nologin\nuser:x:{uid}:{uid}::{bubblewrap.HOME}:/bin/sh\n")
        _write(etc / "group", f"root:x:0:\nuser:x:{uid}:\n")
        view = bubblewrap.View(
            work=self.folder / "work",
            etc=etc,
            library=self.ground.library,
            python=self.ground.python,
            readable=self.ground.readable,
            scratch=self.limits.scratch,
        )
        words = bubblewrap.arguments(view, root=self.plan.root, disable_userns=self.plan.disable_userns)
        fd = os.memfd_create("arguments")
        self._spare.append(fd)
        os.write(fd, b"".join(os.fsencode(word) + b"\0" for word in words))
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _spawn(self, command: list[str], extra: tuple[int, ...], home: str, scratch: str) -> subprocess.Popen[bytes]:
        inside = self.pipes.inside
        binaries = os.path.dirname(command[command.index("-I") - 1])
        self.process = process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=inside.stdout,
            stderr=inside.stderr,
            pass_fds=(inside.commands, inside.answers, *extra),
            env=environment.variables(
                home=home, binaries=binaries, scratch=scratch, inherit="environment" not in self.plan.layers
            ),
            cwd="/",
            start_new_session=True,
        )
        self.pipes.handed_over()
        self._await_exit(process)
        return process

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()

        def ended(*_: object) -> None:
            process.wait()
            if not self.exited.done():
                self.exited.set_result(self._exit(process.returncode))

        if not hasattr(os, "pidfd_open"):  # a thread of its own waits
            Workers(1, "clicket-cage").submit(process.wait, ended)
            return
        fd = os.pidfd_open(process.pid)

        def seen() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            ended()

        loop.add_reader(fd, seen)

    def _exit(self, status: int) -> Exit:
        """bubblewrap's own status says 128 + N for a program that died of signal N."""
        number = -status if status < 0 else status - 128 if 128 < status <= 128 + signal.NSIG else None
        if number is None or (self.plan.way == "plain" and status >= 0):
            return Exit(code=status)
        full = self.group is not None and self.group.out_of_memory() > 0
        return Exit(signal=number, memory=full and number == signal.SIGKILL)

    def _extra_pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._spare += ends
        return ends

    def _close(self, *fds: int) -> None:
        for fd in fds:
            if fd in self._spare:
                self._spare.remove(fd)
                os.close(fd)

    # -- the end of it -----------------------------------------------------------------------------------------------

    async def first_word(self, frame: bytes) -> None:
        """Send the order, and wait for the answer or for the end."""
        await _send(self.pipes.host.commands, frame)
        word = asyncio.ensure_future(wait_readable(self.pipes.host.answers))
        try:
            await asyncio.wait((word, self.exited), return_when=asyncio.FIRST_COMPLETED)
        finally:
            word.cancel()
            await asyncio.wait((word,))
        if self.exited.done() and not _has_bytes(self.pipes.host.answers):
            raise SandboxFailed(self._last_words())
        if isinstance(self.tree, Namespace):
            self.tree.settle()

    def _last_words(self) -> str:
        said = b""
        with contextlib.suppress(OSError):
            said = os.read(self.pipes.host.stderr, _WORDS)
        words = said.decode("utf-8", "replace").strip()
        return f"the program did not start in its cage ({self.plan.way}): {words or self.exited.result()}"

    async def undo(self) -> None:
        self._close(*list(self._spare))
        if self.tree is not None:
            self.tree.kill()
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            await asyncio.shield(self.exited)
        if self.tree is not None:
            await self.tree.gone()
            self.tree.close()
        self.pipes.close()
        if self.group is not None:
            self.group.kill()
            self.group.remove()
        homes.remove(self.folder)


async def launch(
    ground: Ground,
    plan: Plan,
    *,
    program: str,
    settings: dict[str, Any],
    limits: Limits,
    isolation: Isolation,
    forget: Callable[[Cage], None],
) -> Cage:
    start = _Start(ground, plan, limits)
    home = bubblewrap.HOME if plan.way == "bubblewrap" else str(start.folder / "work")
    order = make_order(
        program=program,
        settings=settings,
        home=home,
        layers=plan.layers,
        limits=limits,
        uid=start.uid,
        python=ground.python,
        library=str(ground.library),
        readable=[str(path) for path in ground.readable],
    )
    try:
        async with asyncio.timeout(_PATIENCE):
            await start.begin()
            await start.first_word(frames.pack(order))
        assert start.process is not None
        assert start.tree is not None
        return Cage(
            process=start.process,
            tree=start.tree,
            pipes=start.pipes,
            folder=start.folder,
            home=home,
            uid=start.uid,
            isolation=isolation,
            limits=limits,
            group=start.group,
            exited=start.exited,
            workers=ground.workers,
            forget=forget,
        )
    except BaseException as error:
        await start.undo()
        if isinstance(error, TimeoutError):
            raise SandboxFailed(f"the program said nothing within {_PATIENCE:g} s of its start; is the machine overloaded?") from None
        if isinstance(error, OSError):
            raise SandboxFailed(f"a cage could not be made: {error}.") from error
        raise


async def _send(fd: int, data: bytes) -> None:
    """All of it, however small the pipe is; a reader that is gone is noticed elsewhere."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            room = loop.create_future()
            loop.add_writer(fd, lambda room=room: room.done() or room.set_result(None))  # type: ignore[misc]
            try:
                await room
            finally:
                loop.remove_writer(fd)
        except BrokenPipeError:
            return


async def _read_all(fd: int) -> bytes:
    """To the end: bubblewrap writes in pieces, and would die of a pipe that is closed before the last."""
    found = b""
    while True:
        await wait_readable(fd)
        if not (piece := os.read(fd, 4096)):
            return found
        found += piece


def _has_bytes(fd: int) -> bool:
    import fcntl
    import termios

    return fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0"


def _child_pid(info: bytes) -> int | None:
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _write(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.write(fd, text.encode())
    finally:
        os.close(fd)
