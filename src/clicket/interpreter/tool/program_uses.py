"""The uses of tools in one call of the interpreter. Each is a call of its own in the journal, numbered in the order of the program.

When the interpreter's call runs again after a crash, a use with the same number, tool and arguments gets the result of the finished
call; a program that does something else under that number has diverged, and its call fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Self

import msgspec

from clicket.errors import ClicketError, Conflict, ProgramFailed
from clicket.interpreter.session.block_clock import BlockClock
from clicket.interpreter.session.protocol import Violation
from clicket.interpreter.session.timers import Timers
from clicket.interpreter.session.uses import UseReply
from clicket.interpreter.tool.program_tools import ProgramTools
from clicket.model import ToolResult
from clicket.tools import NestedCalls

__all__ = ["ProgramDiverged", "ProgramUses", "UseLimits"]

logger = logging.getLogger("clicket.interpreter")
_MAX_REFUSED = 1_000
"""Uses beyond the limit that are answered with an error; a program that goes on is killed."""
_MAX_ANSWER = 8 * 1024 * 1024


class ProgramDiverged(ProgramFailed):
    """A program that ran again after a crash did not repeat what it had done before."""

    def __init__(self, number: int, tool: str) -> None:
        super().__init__(
            f"this program ran again after its process had died, and its use {number} of a tool ({tool[:100]}) is not the one that it "
            "made before, so its finished uses cannot be matched. What they did is done, and listed in the history of this thread "
            "(metadata parent and use). Write programs so that the same code makes the same uses in the same order, without threads, "
            "random numbers or the clock deciding about them; then run what is left as a new call.",
            use=number,
        )


class UseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one call of the interpreter."""

    max_uses: int
    max_uses_at_once: int
    max_use_wait: float | None
    """Seconds in which uses may be under way, in all."""


class ProgramUses:
    """Implements `session.UseHandler`. Used as a context: at its end, uses that are under way are cancelled."""

    def __init__(self, tools: ProgramTools, calls: NestedCalls, limits: UseLimits) -> None:
        self._tools = tools
        self._calls = calls
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.max_uses_at_once)
        self._tasks: dict[asyncio.Task[None], UseReply] = {}
        self._count = 0
        self._timers = Timers()
        self._clock = BlockClock(self._timers, self._on_timeout)
        """Goes on while a use is under way. The limits of block and call may stand still then; this one bounds how long."""
        self._clock.start(limits.max_use_wait)
        self._clock.pause()
        self._out_of_time = False
        self._failure: ProgramFailed | None = None
        self._allowed = tools.names
        self.listing: dict[str, Any] = tools.listing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._timers.stop_all()
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    @property
    def count(self) -> int:
        return min(self._count, self._limits.max_uses)

    def raise_failure(self) -> None:
        """What the program did does not count if it had diverged, whatever it made of the error."""
        if self._failure is not None:
            raise self._failure

    def begin(self, tool: str, arguments: bytes, reply: UseReply) -> Callable[[], object]:
        self._count += 1
        number = self._count
        limit = self._limits.max_uses
        if number > limit:
            if number > limit + _MAX_REFUSED:
                raise Violation(f"more than {_MAX_REFUSED} uses of tools after the limit of {limit}")
            reply(
                _error("use_limit", f"a program may use tools {limit} times (option max_uses). Do more with each use.")
            )
            return lambda: None
        if self._out_of_time:
            return self._spawn(self._refuse_late(reply), reply)
        if not self._tasks:
            self._clock.resume()
        return self._spawn(self._perform(number, tool, arguments, reply), reply)

    def _spawn(self, work: Coroutine[Any, Any, None], reply: UseReply) -> Callable[[], object]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = reply
        task.add_done_callback(self._on_done)
        return task.cancel

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not self._tasks:
            self._clock.pause()

    def _on_timeout(self) -> None:
        self._out_of_time = True
        self._clock.stop()
        for task, reply in list(self._tasks.items()):
            task.cancel()  # which withdraws its call
            self._spawn(self._refuse_late(reply), reply)

    async def _refuse_late(self, reply: UseReply) -> None:
        """The session drops the answer to a use that has one."""
        drained = reply(
            _error(
                "timeout",
                f"a program may wait {self._limits.max_use_wait:g} seconds for its uses of tools in all (option max_use_wait), the "
                "answers of people included. This use was withdrawn.",
            )
        )
        if drained is not None:
            await drained

    async def _perform(self, number: int, tool: str, arguments: bytes, reply: UseReply) -> None:
        async with self._slots:
            drained = reply(await self._answer(number, tool, arguments))
            if drained is not None:
                await drained

    async def _answer(self, number: int, tool: str, arguments: bytes) -> bytes:
        if self._failure is not None:
            return _error("conflict", self._failure.message)
        try:
            if tool in self._allowed:
                result = await self._calls.call(number, tool, arguments)
            elif self._tools.is_known(tool):
                result = await self._calls.refuse(number, tool, arguments, self._tools.missing(tool))
            else:
                return _error("tool_not_found", self._tools.missing(tool))
        except Conflict:
            self._failure = ProgramDiverged(number, tool)
            return _error("conflict", self._failure.message)
        except ClicketError as error:
            return _error(error.code, error.message, retryable=bool(getattr(error, "retryable", False)))
        except Exception:
            logger.exception("use %d of tool %s could not be made", number, tool)
            return _error("tool_error", "the host failed to make this call.")
        return _answer_of(result)


def _answer_of(result: ToolResult) -> bytes:
    if not result.success:
        error = result.error
        if error is None:
            return _error(str(result.state), result.content)
        return _error(error.code, error.message, type=error.type, retryable=error.retryable)
    body = b'"value":' + msgspec.json.encode(result.output)
    if len(body) <= _MAX_ANSWER:
        return body
    whole = "" if result.artifact is None else f" The whole is the artifact {result.artifact}."
    return _error(
        "result_too_large",
        f"the output has {len(body):,} bytes, and a program gets at most {_MAX_ANSWER:,} at once. Ask for less.{whole}",
    )


def _error(code: str, message: str, **more: Any) -> bytes:
    return b'"error":' + msgspec.json.encode({"code": code, "message": message, **more})
