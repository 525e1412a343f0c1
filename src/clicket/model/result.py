"""What a caller gets back: one outcome, good or bad. A call that failed is returned, never raised."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.errors import ToolCallFailed
from clicket.kernel import State

__all__ = ["Stage", "ToolError", "ToolResult", "failure_text", "size_of"]

_SHOWN = 80


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
    """`output` is the value, `artifact` the name of the whole when `content` was cut. `content` is the text for the model: the
    output, or what went wrong."""

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
    def id(self) -> str:
        """The call's id, as `record.id` and `handle.id`."""
        return self.call_id

    @property
    def success(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes by stage. `process`: of `content`, which the model reads. The whole of a cut result has `metadata["artifact_size"]`."""
        return {"process": size_of(self.content)} if "process" in self.stages else {}

    def unwrap(self) -> Any:
        """The output of a call that completed; otherwise raises `ToolCallFailed`."""
        if self.success:
            return self.output
        code = str(self.state) if self.error is None else self.error.code
        raise ToolCallFailed(f"call {self.call_id} of {self.tool}: {self.content}", code=code, result=self)

    def __repr__(self) -> str:
        shown = repr(self.output) if self.success else self.content
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
        return f"<result {self.call_id} of {self.tool:.40}: {self.state}, {shown}>"


def failure_text(state: State, error: ToolError | None) -> str:
    """What a model reads of a call that did not complete."""
    return f"the call ended as {state}." if error is None else str(error)
