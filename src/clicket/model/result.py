"""What a caller gets back: one outcome, good or bad. A call that failed is returned, never raised."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.kernel import State

__all__ = ["Stage", "ToolError", "ToolResult", "size_of"]


class ToolError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call did not complete. `code` is for programs, `message` says what to do next, `type` is the exception's."""

    code: str
    message: str
    type: str
    retryable: bool = False
    details: dict[str, Any] = {}

    def __str__(self) -> str:
        """For people and models: a tool's own words alone may be a riddle (`'id'`), so its exception is named (`KeyError: 'id'`)."""
        if self.code == "tool_error" and self.type not in self.message:
            return f"{self.code}: {self.type}: {self.message}"
        return f"{self.code}: {self.message}"


class Stage(msgspec.Struct, frozen=True, gc=False):
    """How one of the six stages ended, and the seconds it took."""

    outcome: str
    duration: float


def size_of(text: str) -> int:
    """Bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`output` is the value, `content` the text for the model, `artifact` the name of the whole when `content` was cut."""

    call_id: str
    tool: str
    state: State
    output: Any = None
    content: str = ""
    truncated: bool = False
    artifact: str | None = None
    error: ToolError | None = None
    attempts: int = 0
    cached: bool = False
    duration: float = 0.0
    stages: dict[str, Stage] = {}
    metadata: dict[str, Any] = {}

    @property
    def success(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes by stage. `process`: of `content`, which the model reads. The whole of a cut result has `metadata["artifact_size"]`."""
        return {"process": size_of(self.content)} if "process" in self.stages else {}
