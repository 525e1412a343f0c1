"""`Runtime.complete`, `fail`, `emit`, `heartbeat` and `report_progress`: ending calls from outside, with a token.

The token of `ctx.pending()` is all that is needed. It belongs to one call, and completes or fails it once.
"""

from __future__ import annotations

from typing import Any, Protocol

from clicket.engine import Engine

__all__ = ["check_token", "complete", "complete_own", "emit", "fail", "heartbeat", "report_progress"]


class _Runtime(Protocol):
    _caller: str | None

    @property
    def _opened(self) -> Engine: ...


async def check_token(runtime: _Runtime, token: str) -> None:
    """Raise the error that a result with this token would get now: `NotFound`, or `Conflict` if the call has ended."""
    await runtime._opened.external_results.check(token)


async def complete(runtime: _Runtime, token: str, output: Any = None) -> str:
    """Complete the call of a token with this output; returns the call's id. None after `emit`: what was emitted is the output.

    The output is on record when this returns, and passes the stages that the tool's own would. `Conflict`: the call has a result, was
    cancelled, or ended. `NotFound`: no call has such a token.
    """
    return await runtime._opened.external_results.complete(token, output)


async def complete_own(runtime: _Runtime, id: str, output: Any, *, thread: str, error: str = "") -> str:
    """Complete a call of a tool that the caller's own program runs (`Agent.begin(frontend=…)`), without a token; returns its id.
    `error`: the tool failed, and why.

    `NotFound`: the caller has no such call that waits. `Conflict`: the call has its result, was cancelled, or ended.
    """
    return await runtime._opened.external_results.complete_own(id, thread, runtime._caller or "", output, error=error)


async def fail(runtime: _Runtime, token: str, error: str, *, type: str = "ExternalError") -> str:
    """Fail the call of a token; returns the call's id. `error` is for the caller and the model. It counts as a failure of the tool."""
    return await runtime._opened.external_results.fail(token, error, type=type)


async def emit(runtime: _Runtime, token: str, output: Any) -> str:
    """Stream a piece of output into the call of a token; returns the call's id. At most 1,000 pieces, and 1 MiB in all."""
    return await runtime._opened.external_results.emit(token, output)


async def heartbeat(runtime: _Runtime, token: str) -> str:
    """Say that the work on the call of a token goes on; returns the call's id. It holds off the tool's `idle_timeout`."""
    return await runtime._opened.external_results.heartbeat(token)


async def report_progress(
    runtime: _Runtime, token: str, step: float, total: float | None = None, text: str = ""
) -> str:
    """Report progress of the call of a token; returns the call's id. Reports within a second of the last one are not recorded."""
    return await runtime._opened.external_results.progress(token, step, total, text)
