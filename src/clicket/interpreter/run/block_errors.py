"""How a block ended, in words that tell what happened and what to do next. What ends the run as well is fatal."""

from __future__ import annotations

import msgspec

from clicket.interpreter.result import ProgramError
from clicket.interpreter.session.block_run import BlockEnd
from clicket.interpreter.session.exit_reason import ExitReason
from clicket.sandbox.limits import Limits

__all__ = ["RunLimits", "error_of", "error_of_check"]

_GONE = "Its variables are gone: the next run starts afresh."
_CRASHED = (
    "The usual causes are a fault in a compiled library, endless recursion in C, and os._exit or a signal of its own."
)


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a program was told to keep to, for the texts that say it did not."""

    timeout: float | None
    max_output: int
    limits: Limits


def error_of(ended: BlockEnd, index: int, bounds: RunLimits) -> ProgramError | None:
    """The error of a block, or None when it ended well."""
    told = ended.error
    if ended.status == "ok":
        return None
    if ended.status == "error":
        if told is None:
            return ProgramError(type="Error", message="the block failed and did not say why.", block_index=index)
        return msgspec.structs.replace(told, block_index=index)
    trace, line = (told.traceback, told.line) if told else ("", None)
    if ended.status == "interrupted":
        return ProgramError(
            type="KeyboardInterrupt",
            message=_interrupted(ended.reason, bounds),
            traceback=trace,
            line=line,
            block_index=index,
            fatal=ended.reason != "timeout",
        )
    if ended.status == "exit":
        message = f"the program ended itself with exit code {ended.exit_code or 0}. {_GONE}"
        return ProgramError(
            type="SystemExit", message=message, traceback=trace, line=line, block_index=index, fatal=True
        )
    exit_reason = ExitReason(status=ended.status, reason=ended.reason or "", detail=ended.detail)
    what = (
        _killed(exit_reason, bounds)
        if exit_reason.status == "killed"
        else f"Python itself ended with {exit_reason.reason}. {_CRASHED}"
    )
    return ProgramError(type=_kind(exit_reason), message=f"{what} {_GONE}", block_index=index, fatal=True)


def error_of_check(exit_reason: ExitReason) -> ProgramError:
    """The error of a session that did not survive a look at the code."""
    message = (
        f"the session ended while the code was looked at, before anything of it ran: {exit_reason.detail}. {_GONE}"
    )
    return ProgramError(type=_kind(exit_reason), message=message, fatal=True)


def _kind(exit_reason: ExitReason) -> str:
    return "Killed" if exit_reason.status == "killed" else "Crashed"


def _interrupted(reason: str | None, bounds: RunLimits) -> str:
    if reason == "timeout":
        return (
            f"the block was stopped after {bounds.timeout or 0:g} s, the time that a block may take. The session and its "
            "variables are kept: do less at a time, or go on from where it stopped."
        )
    return "the block was stopped on request. The session and its variables are kept."


def _killed(exit_reason: ExitReason, bounds: RunLimits) -> str:
    limits = bounds.limits
    texts = {
        "timeout": f"the program ran longer than {bounds.timeout or 0:g} s and did not stop when it was interrupted, so it "
        "was killed. Do less at a time, and let KeyboardInterrupt through.",
        "memory": f"the program was killed because it used more memory than its {limits.memory:,} bytes. "
        "Work on a part of the data at a time, or raise the limit memory.",
        "output": f"the program was killed because it wrote more than {bounds.max_output:,} bytes of output. "
        "Print less, or write to a file.",
        "disk": f"the program was killed because its folder grew beyond {limits.disk:,} bytes, {limits.files:,} entries "
        "or a depth of 64 folders. "
        "Write less, remove files that are no longer needed, or raise the limits disk and files.",
        "protocol": f"the program was killed because it disturbed the line to its host ({exit_reason.detail}). "
        "Leave file descriptors alone that it did not open.",
        "cancel": "the program was killed on request.",
    }
    return texts.get(exit_reason.reason, f"the program was killed ({exit_reason.reason}). {exit_reason.detail}.")
