"""`Workspace`: the middleware that gives an agent one folder.

A workspace belongs to one host and one folder, its place. Its tools are registered under the place's mark, so that no process of another
place continues their calls, and are parts that only turns of agents with this workspace can call. What it decides follows from the
entries of the turn, so nothing of it is recorded beside the calls.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clicket import system
from clicket.agents.agent_parts import part_of_agents
from clicket.agents.middleware import Middleware
from clicket.agents.turn import Turn
from clicket.agents.verdicts import Ask, Change
from clicket.agents.workspace.command import CommandTool
from clicket.agents.workspace.editing import Editor
from clicket.agents.workspace.lines import version_in
from clicket.agents.workspace.reading import Reader
from clicket.errors import UsageError, known_keywords
from clicket.model import ToolCall
from clicket.model.names import agent_part, place_in, place_mark, place_name, shown_name
from clicket.system.folder import FileRefused, Folder, Parts
from clicket.tools import Tool

if TYPE_CHECKING:
    from clicket.interpreter.sandbox import Sandbox

__all__ = ["Workspace"]

_READING = ("read_file", "list_files", "find_files", "search_files")
_WRITING = ("write_file", "edit_file")
_VERSIONED = ("read_file", *_WRITING)
_COMMAND = "run_command"
Shell = Literal["ask", "allow"] | bool


class Workspace(Middleware):
    """Files of one folder for an agent: it reads, lists, finds and searches, and with `write` it writes and edits. `shell`: it runs
    commands in the sandbox, `"ask"`: each after a person's approval, `"allow"`: without one, `False`: not at all.

    `folder`: a path, or a `Sandbox(folder=…)` with limits and a required isolation of its own for commands. No path leads out of the
    folder, and no link is followed. An edit of a file that has changed since the model read it is refused.
    """

    is_derived = True

    @known_keywords
    def __init__(
        self,
        folder: str | os.PathLike[str] | Sandbox,
        *,
        write: bool = True,
        shell: Literal["ask", "allow", False] = "ask",
    ) -> None:
        if type(write) is not bool or (shell is not False and shell not in ("ask", "allow")):
            raise UsageError(
                f"Workspace takes write=True or False, and shell='ask', 'allow' or False, not write={write!r}, shell={shell!r}."
            )
        sandbox = None if isinstance(folder, str | os.PathLike) else folder
        path = folder if isinstance(folder, str | os.PathLike) else getattr(folder, "folder", None)
        if not path:
            raise UsageError(f"Workspace takes the path of a folder or a Sandbox(folder=…), not {folder!r:.100}.")
        self.folder: Folder = Folder(path)
        self.place: str = place_name(system.current().process().host.partition("/")[0], str(self.folder.root))
        """The host and the folder: only processes there continue its turns."""
        self._may = frozenset(
            name for name, has in (("write", write), ("shell", bool(shell)), ("allow", shell == "allow")) if has
        )
        self.name: str = f"{self.place} ({', '.join(sorted(self._may)) or 'read'})"
        mark, editor = place_mark(self.place), Editor(self.folder)
        # Agents with one folder share its tools, but never a weaker sandbox.
        own = mark if sandbox is None else place_mark(f"{self.place} {sandbox.require} {sandbox.limits}")
        self.own_tools: tuple[Tool, ...] = (
            *(part_of_agents(each, mark, read_only=True) for each in Reader(self.folder).tools),
            *(part_of_agents(each, mark, reconcile=editor.check) for each in editor.tools),
            CommandTool(agent_part(_COMMAND, own), self.folder.root, sandbox),
        )
        """Known to the runtime from the time when an agent is made: calls that a crash left are settled when it opens."""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def is_here(self) -> bool:
        return self.folder.is_there

    def tools(self, turn: Turn) -> Sequence[Tool]:
        may = self._of(turn)
        names = (*_READING, *(_WRITING if "write" in may else ()), *((_COMMAND,) if "shell" in may else ()))
        return [each for each in self.own_tools if shown_name(each.name) in names]

    def _of(self, turn: Turn) -> frozenset[str]:
        """What the turn may do: what it might when it began, as far as this agent still may."""
        begun = turn.record.begun
        for name in () if begun is None else begun.middleware:
            if place_in(name) == self.place:
                return self._may & frozenset(name.rpartition("(")[2].removesuffix(")").split(", "))
        return self._may

    def before_tool(self, turn: Turn, call: ToolCall) -> Ask | Change | None:
        if call.tool == _COMMAND:
            return None if "allow" in self._of(turn) else Ask("a command in the workspace")
        given = call.arguments
        if call.tool not in _WRITING or not isinstance(given, dict) or given.get("version"):
            return None
        version = self._version_read(turn, given.get("path"))
        return Change({**given, "version": version}) if version else None

    def _version_read(self, turn: Turn, path: Any) -> str:
        """The version of a file that the model knows: as it read it, or made it, last."""
        wanted = self._parts(path)
        results: dict[str, str] = {}
        for message in reversed(turn.messages) if wanted else ():
            if message.role == "tool" and not message.failed:
                results[message.use_id] = message.content
            for use in reversed(message.uses):
                version = version_in(results.pop(use.id, "")) if use.name in _VERSIONED else ""
                if version and self._parts(_path_in(use.arguments)) == wanted:
                    return version
        return ""

    def _parts(self, path: Any) -> Parts:
        try:
            return self.folder.parts(path) if isinstance(path, str) else ()
        except FileRefused:
            return ()


def _path_in(arguments: str) -> Any:
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return given.get("path") if isinstance(given, dict) else None
