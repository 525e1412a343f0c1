"""Why a block failed, as an error that says what happened and what to do next. A fatal error ends the run."""

from __future__ import annotations

import msgspec

from clicket.interpreter.result import ProgramError
from clicket.interpreter.sandbox.limits import Limits
from clicket.interpreter.session.block_run import BlockEnd
from clicket.interpreter.session.exit_reason import ExitReason

__all__ = ["RunLimits", "error_of", "error_of_check"]

_GONE = "Its variables are gone: the next run starts a new session."
_CRASHED = (
    "The usual causes are a fault in a compiled library, endless recursion in C, and os._exit or a signal of its own."
)


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run: seconds and output bytes of each block, and the sandbox's limits."""

    timeout: float | None
    max_output: int
    sandbox: Limits


def error_of(ended: BlockEnd, index: int, limits: RunLimits) -> ProgramError | None:
    """The error of a block; None if it ended well."""
    reported = ended.error
    if ended.status == "ok":
        return None
    if ended.status == "error":
        if reported is None:
            return ProgramError(type="Error", message="the block failed without an error.", block_index=index)
        return msgspec.structs.replace(reported, block_index=index)
    fatal = True
    if ended.status == "interrupted":
        kind = "KeyboardInterrupt"
        message = _interrupted(ended.reason, limits)
        fatal = ended.reason != "timeout"
    elif ended.status == "exit":
        kind = "SystemExit"
        message = f"the program ended itself with exit code {ended.exit_code or 0}. {_GONE}"
    elif ended.status == "killed":
        kind = "Killed"
        message = f"{_killed(ended.reason or '', ended.detail, limits)} {_GONE}"
    else:
        kind = "Crashed"
        message = f"Python itself ended with {ended.reason}. {_CRASHED} {_GONE}"
    trace, line = (reported.traceback, reported.line) if reported else ("", None)
    return ProgramError(type=kind, message=message, traceback=trace, line=line, block_index=index, fatal=fatal)


def error_of_check(exit_reason: ExitReason) -> ProgramError:
    """The error of a session that ended while it compiled the code."""
    message = f"the session ended while it compiled the code, before anything ran: {exit_reason.detail}. {_GONE}"
    return ProgramError(type=exit_reason.status.capitalize(), message=message, fatal=True)


def _interrupted(reason: str | None, limits: RunLimits) -> str:
    if reason == "timeout":
        return (
            f"the block was stopped after {limits.timeout or 0:g} s, the time limit of a block. The session and its "
            "variables are kept: do less at a time, or continue from there."
        )
    return "the block was stopped on request. The session and its variables are kept."


def _killed(reason: str, detail: str, limits: RunLimits) -> str:
    sandbox = limits.sandbox
    texts = {
        "timeout": f"the program ran longer than {limits.timeout or 0:g} s and did not stop when it was interrupted, so it "
        "was killed. Do less at a time, and let KeyboardInterrupt through.",
        "memory": f"the program was killed because it used more memory than its {sandbox.memory:,} bytes. "
        "Work on a part of the data at a time, or raise the limit memory.",
        "output": f"the program was killed because it wrote more than {limits.max_output:,} bytes of output. "
        "Print less, or write to a file.",
        "disk": f"the program was killed because its folder grew beyond {sandbox.disk:,} bytes, {sandbox.files:,} entries "
        "or a depth of 64 folders. "
        "Write less, remove files that are no longer needed, or raise the limits disk and files.",
        "protocol": f"the program was killed because it broke the connection to its host ({detail}). "
        "Do not use file descriptors that the program did not open.",
        "cancel": "the program was killed on request.",
    }
    return texts.get(reason, f"the program was killed ({reason}). {detail}.")
