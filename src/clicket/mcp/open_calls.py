"""The calls that are under way on a connection: to which of them a server's question belongs.

Under 2025-11-25 a server asks while our request is open, and its question does not name the request. Over HTTP the question comes on the
response stream of the request, and the SDK runs its handler in the context of the sender; over stdio there is one stream for all. So a
question without a context belongs to the only call that is under way, or to the newest one of the same caller and thread. Any other
question is refused: no person is asked on behalf of a call that may not have asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context

from clicket.execution.sink import questions
from clicket.tools import ToolContext
from clicket.tools.question import InputAnswer, InputQuestion

__all__ = ["OpenCall", "OpenCalls", "clean_context"]

_MAX_QUESTIONS = 20
"""Questions of a server during one request."""


class OpenCall:
    """One request that is under way. `asked` counts the server's questions."""

    def __init__(self, ctx: ToolContext) -> None:
        self.ctx = ctx
        self.asked = 0
        self._turn = asyncio.Lock()
        self._asking: set[asyncio.Task[InputAnswer]] = set()

    def next_key(self) -> str | None:
        """The key of its next question; None: the server has asked too often."""
        self.asked += 1
        return None if self.asked > _MAX_QUESTIONS else f"live.{self.ctx.attempt}.{self.asked}"

    async def ask(self, question: InputQuestion, timeout: float | None) -> InputAnswer:
        """Ask a person, one question at a time. The answer is `cancel` if the request is over before."""
        # A task of our own: cancelling one of the SDK's would end the connection.
        task = asyncio.create_task(self._ask(question, timeout))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:  # the server took its question back
            task.cancel()
            raise
        return InputAnswer(action="cancel") if task.cancelled() else task.result()

    async def _ask(self, question: InputQuestion, timeout: float | None) -> InputAnswer:
        async with self._turn:
            return await questions(self.ctx).ask_live(question, timeout)

    async def withdraw(self) -> None:
        """The request is over: its questions need no answer."""
        asking = list(self._asking)
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)


_current: ContextVar[OpenCall | None] = ContextVar("clicket_mcp_open_call", default=None)


class OpenCalls:
    def __init__(self) -> None:
        self._calls: dict[OpenCall, None] = {}

    @asynccontextmanager
    async def open(self, ctx: ToolContext) -> AsyncIterator[OpenCall]:
        """A request is sent inside."""
        call = OpenCall(ctx)
        self._calls[call] = None
        token = _current.set(call)
        try:
            yield call
        finally:
            with suppress(
                ValueError
            ):  # a body that did not stop in time was moved to another task, with another context
                _current.reset(token)
            del self._calls[call]
            await call.withdraw()

    def asking(self) -> OpenCall | None:
        """The call that a question belongs to; None: none that is under way, or it is ambiguous."""
        known = _current.get()
        if known is not None:
            return known if known in self._calls else None
        under_way = list(self._calls)
        people = {(call.ctx.caller, call.ctx.thread) for call in under_way}
        return under_way[-1] if len(people) == 1 else None


def clean_context() -> Context:
    """A context that belongs to no call, for a connection that outlives the call which opened it."""
    context = copy_context()
    context.run(_current.set, None)
    return context
