"""An outcome that a call ends with in place of a run of its tool: that of an equal call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from clicket.kernel import State
from clicket.model.files import FileRef
from clicket.model.result import ToolError

__all__ = ["Replay", "Replayed"]


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """`note`: which call it is of, for the new call's metadata under `recorded`; empty: of none, the call is refused."""

    state: State
    note: dict[str, Any] = {}
    output: Any = None
    content: str = ""
    error: ToolError | None = None
    truncated: bool = False
    artifact: str | None = None
    artifact_size: int = 0
    files: tuple[FileRef, ...] = ()


Replay = Callable[[str, Any], Replayed | None]
"""`replay(tool, arguments)`: the outcome of a call that the stages have admitted; None: its tool is to run. The arguments are those on
record, masked. It neither waits nor raises."""
