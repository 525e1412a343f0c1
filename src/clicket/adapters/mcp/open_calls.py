"""The calls that are under way with a server: to which of them its question belongs.

Under 2025-11-25 a server asks while our request is open, and its question does not name the request. Over HTTP the question comes on the
response stream of the request, and the SDK runs its handler in the context of the sender; over stdio there is one stream for all. So a
question without a context belongs to the only call that is under way on its session, or to the newest one of the same caller and thread.
Any other question is refused: no person is asked on behalf of a call that may not have asked, and a caller's session gets no answer of
another caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context

from mcp.client.session import ClientSession

from clicket.engine.executors.sink import questions
from clicket.tools import ToolContext
from clicket.tools.question import InputAnswer, InputQuestion

__all__ = ["MAX_REPLIES", "OpenCall", "OpenCalls", "clean_context"]

_MAX_QUESTIONS = 20
"""Questions of a server during one request."""
MAX_REPLIES = 20
"""Replies of a model to a server during one request (2025-11-25), or in all rounds of a call (2026-07-28)."""


class OpenCall:
    """One request that is under way on a session. `asked` counts the server's questions, `sampled` its requests for a model's reply."""

    def __init__(self, ctx: ToolContext, session: ClientSession) -> None:
        self.ctx = ctx
        self.session = session
        self.asked = 0
        self.sampled = 0
        self._lock = asyncio.Lock()
        self._asking: set[asyncio.Task[InputAnswer]] = set()

    def next_key(self) -> str | None:
        """The key of its next question; None: the server has asked too often."""
        self.asked += 1
        return None if self.asked > _MAX_QUESTIONS else f"live.{self.ctx.attempt}.{self.asked}"

    def may_sample(self) -> bool:
        """Counts a request for a model's reply. False: there were too many."""
        self.sampled += 1
        return self.sampled <= MAX_REPLIES

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
        async with self._lock:
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
    async def open(self, ctx: ToolContext, session: ClientSession) -> AsyncIterator[OpenCall]:
        """A request is sent inside, over this session."""
        call = OpenCall(ctx, session)
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

    def asking(self, session: ClientSession) -> OpenCall | None:
        """The call that a question on this session belongs to; None: none that is under way there, or it is ambiguous."""
        under_way = [call for call in self._calls if call.session is session]
        known = _current.get()
        if known is not None:
            return known if known in under_way else None
        people = {(call.ctx.caller, call.ctx.thread) for call in under_way}
        return under_way[-1] if len(people) == 1 else None


def clean_context() -> Context:
    """A context that belongs to no call, for a connection that outlives the call which opened it."""
    context = copy_context()
    context.run(_current.set, None)
    return context
