"""Starts programs: in namespaces, below a supervisor, or as a plain child process.

Each launcher leaves a process tree that can be killed as a whole, with the program in its cgroup before it runs any code.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clicket.interpreter.sandbox import bubblewrap, frames, identity
from clicket.interpreter.sandbox.boot_config import boot_config
from clicket.interpreter.sandbox.descriptors import read_all
from clicket.interpreter.sandbox.isolation import Isolation
from clicket.interpreter.sandbox.launch_resources import LaunchResources, Plan, SandboxFailed, SandboxResources
from clicket.interpreter.sandbox.limits import Limits
from clicket.interpreter.sandbox.process import SandboxProcess
from clicket.interpreter.sandbox.process_tree import ChildTree, NamespaceTree, SupervisedTree
from clicket.interpreter.sandbox.workdirs import BWRAP_NAME

__all__ = ["launch"]

_START_TIMEOUT = 60.0
"""Seconds from the start of a process to its program's first frame, on a very busy machine."""
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
"""Run by its path, in an interpreter that imports nothing else."""


async def launch(
    shared: SandboxResources,
    plan: Plan,
    *,
    program: str,
    settings: dict[str, Any],
    limits: Limits,
    isolation: Isolation,
    on_closed: Callable[[SandboxProcess], None],
    folder: Path | None = None,
) -> SandboxProcess:
    """Start a program as the plan says; returns when its first frame can be read. `folder`: of the host, in which it works.

    A launch that fails or is cancelled has released everything before the caller sees the error.
    """
    try:
        resources = LaunchResources(shared, plan, limits, folder)
    except OSError as error:
        raise SandboxFailed(f"a sandbox process could not be made: {error}.") from error
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            resources.make_group()
            await _LAUNCHERS[plan.launcher](resources)
            await resources.boot(frames.pack(boot_config(resources, program, settings)))
        if isinstance(resources.tree, NamespaceTree):
            resources.tree.find_program()
        return SandboxProcess(resources, isolation, on_closed)
    except BaseException as error:
        await asyncio.shield(asyncio.ensure_future(resources.release()))
        if isinstance(error, TimeoutError):
            message = f"the program sent no frame within {_START_TIMEOUT:g} s of its start; is the machine overloaded?"
            raise SandboxFailed(message) from None
        if isinstance(error, OSError):
            raise SandboxFailed(f"a sandbox process could not be made: {error}.") from error
        raise


async def _in_namespaces(resources: LaunchResources) -> None:
    info, info_inside = resources.pipe()
    block_inside, block = resources.pipe()
    # In an unnamed file: the command line of the sandbox's first process, which the program can read, names no host path.
    arguments = resources.file(b"".join(os.fsencode(word) + b"\0" for word in _bubblewrap_arguments(resources)))
    resources.spawn(
        [
            f"{BWRAP_NAME}{resources.shared.workdirs.name}",
            *("--args", str(arguments), "--info-fd", str(info_inside), "--block-fd", str(block_inside)),
            *(identity.run_as_prefix(identity.tool() or "setpriv", resources.uid) if resources.uid is not None else ()),
            *resources.interpreter(bubblewrap.LIBRARY),
        ],
        *(arguments, info_inside, block_inside),
        executable=bubblewrap.tool(),
    )
    resources.close(arguments, info_inside, block_inside)
    # Shielded from cancellation: without it bubblewrap would die, and its child would wait for it for ever.
    resources.namespace = asyncio.ensure_future(_find_namespace(resources, info))
    await asyncio.shield(resources.namespace)
    if resources.tree is not None:
        resources.join(resources.tree.pid)
    with contextlib.suppress(OSError):  # bubblewrap has exited; its stderr says why
        os.write(block, b"\n")
    resources.close(block)


async def _find_namespace(resources: LaunchResources, info: int) -> None:
    init = _child_pid(await read_all(info))
    resources.close(info)
    if init is not None:
        resources.tree = NamespaceTree(init)


async def _below_supervisor(resources: LaunchResources) -> None:
    if resources.uid is not None:
        resources.shared.workdirs.let_through()
    ours, theirs = resources.sockets()
    ours.setblocking(False)
    uid = "-" if resources.uid is None else str(resources.uid)
    command = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(theirs.fileno()), uid, *_plain_command(resources)]
    supervisor = resources.spawn(command, theirs.fileno())
    resources.close(theirs)
    program = (await read_all(ours.fileno(), until=b"\n")).strip()
    if program.isdigit():
        resources.tree = tree = SupervisedTree(supervisor, int(program), resources.hand_over(ours))
        resources.join(int(program))
        tree.go()


async def _as_child(resources: LaunchResources) -> None:
    resources.spawn(_plain_command(resources))
    assert resources.process is not None
    resources.tree = ChildTree(resources.process)
    resources.join(resources.process.pid)


_LAUNCHERS = {"bubblewrap": _in_namespaces, "supervisor": _below_supervisor, "plain": _as_child}


def _plain_command(resources: LaunchResources) -> list[str]:
    """The command without namespaces. A program that must stay root loses root's capabilities at least."""
    setpriv = identity.tool()
    bare = identity.no_capabilities_prefix(setpriv) if resources.plan.root and resources.uid is None and setpriv else []
    return [*bare, *resources.interpreter(str(resources.shared.library))]


def _bubblewrap_arguments(resources: LaunchResources) -> list[str]:
    etc = resources.folder / "etc"
    shared = resources.shared
    plan = resources.plan
    uid = resources.uid if resources.uid is not None else 0 if plan.root else bubblewrap.UID
    user = f"user:x:{uid}:{uid}::{bubblewrap.HOME}:/bin/sh\n"
    _write(etc / "passwd", user if uid == 0 else f"root:x:0:0::/:/bin/false\n{user}")
    _write(etc / "group", f"user:x:{uid}:\n")
    view = bubblewrap.FilesystemView(
        work=resources.work,
        etc=etc,
        library=shared.library,
        python=shared.python,
        readable=shared.readable,
        scratch=resources.limits.scratch,
    )
    drops = resources.uid is not None
    return bubblewrap.arguments(view, root=plan.root, drops=drops, disable_userns=plan.disable_userns)


def _child_pid(info: bytes) -> int | None:
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)
