"""The messages of a run while it goes on: plain dicts with a `type` and a `timestamp`, one function for each type."""

from __future__ import annotations

from typing import Any, Literal

from clicket import system
from clicket.interpreter.result import Block, Display, ProgramError, Variable

__all__ = [
    "Message",
    "block_ended",
    "block_failed",
    "block_started",
    "displayed",
    "error",
    "execution_error",
    "final_result",
    "output",
    "progress",
    "state_change",
    "variable",
]

Message = dict[str, Any]


def _message(type: str, **fields: Any) -> Message:
    return {"type": type, **fields, "timestamp": system.now()}


def state_change(was: str, now: str, text: str) -> Message:
    """Sent after the change."""
    return _message("state_change", **{"from": str(was), "to": str(now)}, message=text)


def progress(code_blocks_count: int) -> Message:
    noun = "block" if code_blocks_count == 1 else "blocks"
    return _message("progress", message=f"{code_blocks_count} Python {noun}", code_blocks_count=code_blocks_count)


def block_started(index: int, code: str, lines: tuple[int, int] | None) -> Message:
    return _message("code_execution_start", block_index=index, code=code, lines=lines and list(lines))


def output(stream: Literal["stdout", "stderr"], text: str, index: int) -> Message:
    return _message(stream, content=text, block_index=index)


def displayed(display: Display) -> Message:
    fields = {"mime": display.mime, "data": display.data, "block_index": display.block_index, "group": display.group}
    return _message("display", **fields)


def variable(made: Variable, index: int) -> Message:
    """`variable_created`, or `variable_changed` for a name that existed before."""
    fields: dict[str, Any] = {"name": made.name, "value": made.value, "var_type": made.type, "block_index": index}
    if made.length is not None:
        fields["length"] = made.length
    if made.shape is not None:
        fields["shape"] = list(made.shape)
    return _message(f"variable_{made.change}", **fields)


def block_ended(block: Block) -> Message:
    fields = {"block_index": block.index, "status": block.status, "value": block.value, "duration": block.duration}
    return _message("code_execution_complete", **fields)


def execution_error(error: ProgramError) -> Message:
    """The error, with the program's own traceback."""
    fields = {"error": error.message, "error_type": error.type, "traceback": error.traceback, "line": error.line}
    return _message("execution_error", **fields, block_index=error.block_index)


def block_failed(block: Block, error: ProgramError) -> Message:
    fields = {"status": block.status, "reason": block.reason, "duration": block.duration, "fatal": error.fatal}
    return _message(
        "code_execution_error", block_index=block.index, error=error.message, error_type=error.type, **fields
    )


def error(message: str, step: int, state: str) -> Message:
    """The run ends with an error. `step` is the block concerned, `state` the state of the run."""
    return _message("error", message=message, step=step, state=str(state))


def final_result(result: dict[str, Any]) -> Message:
    return _message("final_result", result=result)
