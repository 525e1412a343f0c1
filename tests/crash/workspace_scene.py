"""A turn that edits files, killed and started again. Every edit adds to its file, so that one that happens twice is seen."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death, doom
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.waiting import eventually_sync

from clicket import Runtime
from clicket.agents import ReActAgent, Workspace
from clicket.model.chat import ChatReply, ChatRequest, ToolUse
from clicket.system.folder import Folder

__all__ = ["EDITS", "MESSAGE", "THREAD", "Scene", "agent_at", "files_at", "play", "runtime_at"]

MESSAGE, THREAD = "Edit.", "t"
EDITS: list[list[tuple[str, dict[str, Any]]]] = [
    [
        ("edit_file", {"path": "a.txt", "old": "end\n", "new": "one\nend\n"}),
        ("write_file", {"path": "new/b.txt", "content": "b\n"}),
    ],
    [("edit_file", {"path": "a.txt", "old": "end\n", "new": "two\nend\n"})],
    [("read_file", {"path": "c.txt"})],
    [
        ("write_file", {"path": "c.txt", "content": "c\n"}),
        ("edit_file", {"path": "a.txt", "old": "end\n", "new": "three\nend\n"}),
    ],
]
"""What the model asks for, step by step."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """`stroke`: kill the process before the n-th system call that touches a file of the workspace; 0: never. `command`: the model runs
    this one, and the process dies while it runs."""

    place: Place
    death: Death = Death()
    stroke: int = 0
    command: str = ""
    dies: bool = False


class Model:
    name = "editor"

    def __init__(self, folder: Path, command: str) -> None:
        self._folder = folder
        self._steps = [[("run_command", {"command": command})]] if command else EDITS

    async def chat(self, request: ChatRequest) -> ChatReply:
        said = sum(message.role == "assistant" for message in request.messages)
        append_line(self._folder / "asked", said)
        if said >= len(self._steps):
            return ChatReply(text="done")
        uses = (
            ToolUse(id=f"use_{said}_{number}", name=name, arguments=msgspec.json.encode(arguments).decode())
            for number, (name, arguments) in enumerate(self._steps[said])
        )
        return ChatReply(uses=tuple(uses))


def files_at(place: Place) -> Path:
    return Path(place.folder, "files")


def runtime_at(place: Place) -> Runtime:
    return Runtime(settings=place.settings())


def agent_at(rt: Runtime, place: Place, command: str = "") -> ReActAgent:
    workspace = Workspace(files_at(place), shell="allow" if command else False)
    return ReActAgent(rt, Model(Path(place.folder), command), middleware=[workspace])


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    scene = msgspec.convert(given, Scene)
    doom(scene.death, Path(scene.place.folder))
    if scene.stroke:
        _strike(scene.stroke)
    if scene.dies:
        threading.Thread(target=_die_when, args=(files_at(scene.place) / "ran.txt",), daemon=True).start()
    asyncio.run(_play(scene))


def _die_when(path: Path) -> None:
    eventually_sync(path.exists)
    os.kill(os.getpid(), 9)


def _strike(at: int) -> None:
    """Die at the n-th change of the file system that an edit makes."""
    left = at

    def dying(call: Any) -> Any:
        def called(*given: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), 9)
            return call(*given, **more)

        return called

    calls = ("open", "write", "rename", "link", "unlink", "mkdir", "fsync", "fchmod")
    prepare, commit = Folder.prepare, Folder.commit
    real = {name: getattr(os, name) for name in calls}

    def within(method: Any) -> Any:
        def run(*given: Any, **more: Any) -> Any:
            for name, call in real.items():
                setattr(os, name, dying(call))
            try:
                return method(*given, **more)
            finally:
                for name, call in real.items():
                    setattr(os, name, call)

        return run

    Folder.prepare = within(prepare)  # type: ignore[method-assign]
    Folder.commit = within(commit)  # type: ignore[method-assign]


async def _play(scene: Scene) -> None:
    async with runtime_at(scene.place) as rt:
        agent = agent_at(rt, scene.place, scene.command)
        result = await agent.run(MESSAGE, thread=THREAD, id="one")
        append_line(Path(scene.place.folder, "used"), result.text)
