"""The three ways to start a program: in namespaces, below a guard, or as a plain child. Each leaves a tree that can be
ended, with the program in its cgroup before it runs a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

from clicket.sandbox import bubblewrap, identity
from clicket.sandbox.descriptors import read_all
from clicket.sandbox.launch_resources import LaunchResources
from clicket.sandbox.process_tree import ChildTree, NamespaceTree, SupervisedTree
from clicket.sandbox.workdirs import MARK

__all__ = ["LAUNCHERS"]

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
"""Run by its path, with an interpreter that has nothing else loaded."""


async def in_namespaces(start: LaunchResources) -> None:
    info, info_inside = start.pipe()
    block_inside, block = start.pipe()
    # In a file without a name: who reads the command line of the cage's first process learns nothing of the host.
    arguments = start.file(b"".join(os.fsencode(word) + b"\0" for word in _arguments(start)))
    start.spawn(
        [
            f"{MARK}{start.ground.home.name}",
            *("--args", str(arguments), "--info-fd", str(info_inside), "--block-fd", str(block_inside)),
            *(identity.drop(identity.tool() or "setpriv", start.uid) if start.uid is not None else ()),
            *start.interpreter(bubblewrap.LIBRARY),
        ],
        *(arguments, info_inside, block_inside),
        executable=bubblewrap.tool(),
    )
    start.close(arguments, info_inside, block_inside)
    # Never cut short, not even by a cancellation: bubblewrap would die of it, and its child wait for it for ever.
    start.namespace = asyncio.ensure_future(_namespace(start, info))
    await asyncio.shield(start.namespace)
    if start.tree is not None:
        start.join(start.tree.pid)
    with contextlib.suppress(OSError):  # it is gone already, and its last words say why
        os.write(block, b"\n")
    start.close(block)


async def _namespace(start: LaunchResources, info: int) -> None:
    init = _child_pid(await read_all(info))
    start.close(info)
    if init is not None:
        start.tree = NamespaceTree(init)


async def below_a_guard(start: LaunchResources) -> None:
    if start.uid is not None:
        start.ground.home.let_through()
    ours, theirs = start.sockets()
    ours.setblocking(False)
    uid = "-" if start.uid is None else str(start.uid)
    command = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(theirs.fileno()), uid, *_outside(start)]
    guard = start.spawn(command, theirs.fileno())
    start.close(theirs)
    program = (await read_all(ours.fileno(), until=b"\n")).strip()
    if program.isdigit():
        start.tree = tree = SupervisedTree(guard, int(program), start.release(ours))
        start.join(int(program))
        tree.go()


async def as_a_child(start: LaunchResources) -> None:
    start.spawn(_outside(start))
    assert start.process is not None
    start.tree = ChildTree(start.process)
    start.join(start.process.pid)


LAUNCHERS = {"bubblewrap": in_namespaces, "guard": below_a_guard, "plain": as_a_child}


def _outside(start: LaunchResources) -> list[str]:
    """The command where there is no namespace. What is root's and has no user of its own at least loses root's powers."""
    setpriv = identity.tool()
    bare = identity.shed(setpriv) if start.plan.root and start.uid is None and setpriv else []
    return [*bare, *start.interpreter(str(start.ground.library))]


def _arguments(start: LaunchResources) -> list[str]:
    etc = start.folder / "etc"
    uid = start.uid if start.uid is not None else 0 if start.plan.root else bubblewrap.UID
    user = f"user:x:{uid}:{uid}::{bubblewrap.HOME}:/bin/sh\n"
    _write(etc / "passwd", user if uid == 0 else f"root:x:0:0::/:/bin/false\n{user}")
    _write(etc / "group", f"user:x:{uid}:\n")
    view = bubblewrap.FilesystemView(
        work=start.folder / "work",
        etc=etc,
        library=start.ground.library,
        python=start.ground.python,
        readable=start.ground.readable,
        scratch=start.limits.scratch,
    )
    plan = start.plan
    return bubblewrap.arguments(view, root=plan.root, drops=start.uid is not None, disable_userns=plan.disable_userns)


def _child_pid(info: bytes) -> int | None:
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)
