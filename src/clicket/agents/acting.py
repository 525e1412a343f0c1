"""The tool calls of one answer: side by side through the runtime, each with exactly one result, whatever happens to it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from clicket.agents import entries
from clicket.agents.limits import Stopped
from clicket.agents.read_result import READ_RESULT, note_of
from clicket.agents.stopwatch import Stopwatch
from clicket.agents.transcript import INTERRUPTED
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.wait_all import all_done
from clicket.errors import ClicketError, UsageError
from clicket.kernel import State
from clicket.model import ToolResult
from clicket.model.chat import ChatMessage, ToolUse
from clicket.model.codec import clean, encode, without_notes
from clicket.model.record import result_of
from clicket.vault import MASK

__all__ = ["Actor"]

Entry = dict[str, Any]
_NONE = ("", "null")
_LATE = "timeout: the time of the run was over before this call had a result. Its tool may or may not have run."


class Actor:
    """`max_observation`: how many characters of a result the model reads at once; the rest is kept, and can be asked for."""

    def __init__(self, *, max_concurrency: int = 5, max_observation: int = 32_768) -> None:
        for name, value, least in (("max_concurrency", max_concurrency, 1), ("max_observation", max_observation, 200)):
            if type(value) is not int or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        self._max_concurrency = max_concurrency
        self._max_observation = max_observation

    async def act(self, turn: Turn, message: ChatMessage) -> tuple[Stopped, str] | None:
        """Run what a message asks for. Afterwards each of its calls is answered, and the answers are on record.

        Returned is why the run ends with it, as `Spent.over` says it, if it does.
        """
        found = turn.known_results()
        wanted: list[tuple[int, ToolUse]] = []
        stop: tuple[Stopped, str] | None = None
        for number, use in enumerate(message.uses, start=1):
            why = turn.counted(use)
            if why is not None:
                stop = stop or why
                turn.denied[use.id] = why[1]
            if use.id not in found:
                wanted.append((number, use))
        early: set[str] = set()
        started, since = turn.clock.monotonic(), turn.clock.now()
        left = turn.spent.seconds_left(turn.limits)
        watch = (
            None
            if left is None or not wanted
            else Stopwatch(turn.clock, left, turn.host.caller, turn.thread, turn.mark)
        )
        try:
            if wanted and turn.must_stop:
                await _end_open(turn, wanted)
                turn.give_in()
            if watch is None:
                await self._run(turn, wanted, found, early)
            elif not await self._run_within(turn, wanted, found, early, watch):
                stop = "budget", f"Terminated: Reached the budget of seconds ({turn.limits.max_seconds:g})"
                await self._fill(turn, wanted, found, _LATE, "timeout")
        except asyncio.CancelledError:
            if turn.stopping == "shutdown":
                raise
            await self._fill(turn, wanted, found, INTERRUPTED, "cancelled")
            self._keep(turn, message, wanted, found, early, _took(turn, started, watch))
            raise
        self._keep(turn, message, wanted, found, early, _took(turn, started, watch))
        await turn.make_sure(started, since)
        return stop

    async def call(self, turn: Turn, tool: str, arguments: Mapping[str, Any] | None = None) -> ChatMessage:
        """Call a tool as a step of the turn, without a model: what a drive of your own does. The answer has the text that a model
        would read, and `failed`; after a crash it is the one on record. `TurnStopped`: a limit of the run forbids it."""
        over = turn.over()
        if over is not None:
            raise TurnStopped(*over)
        use = ToolUse(id="", name=tool, arguments=encode(dict(arguments or {})).decode())
        stop = await self.act(turn, turn.say("", (use,)))
        if stop is not None:
            raise TurnStopped(*stop)
        return turn.messages[-1]

    @staticmethod
    def _keep(
        turn: Turn,
        message: ChatMessage,
        wanted: list[tuple[int, ToolUse]],
        found: dict[str, Entry],
        early: set[str],
        took: float,
    ) -> None:
        """All answers of the step are there: put the new ones on record, and all into the transcript."""
        new = [found[use.id] for _, use in wanted if use.id not in early]
        if new:
            turn.new_results(new, took)
        turn.add_results(message, found)

    async def _run_within(
        self,
        turn: Turn,
        wanted: list[tuple[int, ToolUse]],
        found: dict[str, Entry],
        early: set[str],
        watch: Stopwatch,
    ) -> bool:
        """False: the run's time is over, and what was not done has been stopped."""
        turn.host.watch(watch)
        work = asyncio.ensure_future(self._run(turn, wanted, found, early, watch))
        try:
            await asyncio.wait((work, watch.up), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
                return True
        finally:
            watch.stop()
            turn.host.unwatch(watch)
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
        return False

    async def _run(
        self,
        turn: Turn,
        wanted: list[tuple[int, ToolUse]],
        found: dict[str, Entry],
        early: set[str],
        watch: Stopwatch | None = None,
    ) -> None:
        """Make the calls. What ends while others go on is put on record at once (`early`): they may take days, when a person
        is asked, and a call that has ended is not kept that long."""
        # A call that outlives the answer that asked for it would be taken for what another answer asks for.
        await turn.sent()
        if len(wanted) == 1:
            number, use = wanted[0]
            found[use.id] = await self._answer(turn, number, use, watch)
            return
        rest, left = iter(wanted), len(wanted)
        ended: list[str] = []
        later: asyncio.Handle | None = None

        def keep() -> None:
            nonlocal later
            later = None
            if left:  # else all have ended in one turn of the loop, and are put on record together
                early.update(ended)
                turn.new_results([found[id] for id in ended], 0.0)
            ended.clear()

        async def work() -> None:
            nonlocal left, later
            for number, use in rest:
                found[use.id] = await self._answer(turn, number, use, watch)
                left -= 1
                ended.append(use.id)
                if left and later is None:
                    later = asyncio.get_running_loop().call_soon(keep)

        tasks = [asyncio.ensure_future(work()) for _ in range(min(self._max_concurrency, len(wanted)))]
        try:
            if tasks:  # none: all that the step asked for was on record
                await all_done(tasks)
        finally:
            if later is not None:
                later.cancel()

    async def _answer(self, turn: Turn, number: int, use: ToolUse, watch: Stopwatch | None = None) -> Entry:
        """One call's answer. What the model wrote never raises; a runtime that closes takes the turn with it."""
        turn.leave_if_closing()
        call_id, host = turn.call_id(number, use), turn.host
        if watch is not None:
            watch.begin(call_id)
        try:
            known = await host.made(call_id, turn.thread) if turn.resumed else None
            if known is not None:
                if call_id in await host.waiting(turn.thread):
                    turn.waits()
                    if watch is not None:
                        watch.wait(call_id)
                result = await _settled(known.result(), known.cancel)
            else:
                arguments = "{}" if use.arguments.strip() in _NONE else use.arguments
                why = _denial(turn, use)
                if why is None:
                    result = await host.call(use.name, arguments, id=call_id, thread=turn.thread)
                else:
                    result = await host.refuse(use.name, arguments, id=call_id, thread=turn.thread, why=why)
        except Exception as error:
            turn.leave_if_closing()
            return entries.result(use, call_id, _why(error), failed=True, code=_code(error))
        finally:
            if watch is not None:
                watch.end(call_id)
        return await self._observed(turn, use, result)

    async def _observed(self, turn: Turn, use: ToolUse, result: ToolResult) -> Entry:
        if not result.success:
            error = result.error
            text = result.content[: self._max_observation]
            code = "" if error is None else error.code
            return entries.result(
                use, result.call_id, without_notes(clean(text)), failed=True, code=code, state=str(result.state)
            )
        text = result.content
        if len(text) <= self._max_observation:
            return entries.result(use, result.call_id, text, failed=False)
        try:
            if result.artifact is None:
                whole = await turn.host.keep(text.encode("utf-8", "backslashreplace"))
            else:
                whole = result.artifact
                await turn.host.allow(whole)
        except ClicketError as error:  # the result counts all the same
            turn.leave_if_closing()
            whole = f"(could not be kept: {error.message})"
        turn.refers = True
        size = "more than can be shown" if result.truncated else f"{len(text):,} characters"
        shown = text[: self._max_observation] + note_of(size, whole)
        return entries.result(use, result.call_id, shown, failed=False, artifact=whole)

    async def _fill(
        self, turn: Turn, wanted: list[tuple[int, ToolUse]], found: dict[str, Entry], text: str, code: str
    ) -> None:
        """The step was cut short: what ended has its result, what did not says so, and nothing is left unanswered."""
        for number, use in wanted:
            if use.id not in found:
                call_id, record = turn.call_id(number, use), None
                with suppress(ClicketError):  # a store that does not answer must not leave it unanswered
                    record = await turn.host.record(call_id, turn.thread)
                if record is not None and record.state.is_terminal and record.state is not State.CANCELLED:
                    found[use.id] = await self._observed(turn, use, result_of(record))
                else:
                    found[use.id] = entries.result(
                        use, call_id, text, failed=True, code=code, state=str(State.CANCELLED)
                    )


def _took(turn: Turn, started: float, watch: Stopwatch | None) -> float:
    return turn.clock.monotonic() - started if watch is None else watch.seconds


def _code(error: Exception) -> str:
    return error.code if isinstance(error, ClicketError) else "tool_error"


def _denial(turn: Turn, use: ToolUse) -> str | None:
    """Why a call must not run: the run's limits are reached, or the tool is not this agent's. What is not offered is not run either,
    whoever talked the model into it."""
    if use.id in turn.denied:
        return turn.denied[use.id]
    if use.id in turn.unreadable or turn.declared.is_masked(use):
        return f"its arguments hold {MASK} where a value is needed. It is not kept: ask the user for it"
    if turn.only is None or use.name in turn.only or use.name == READ_RESULT:
        return None
    return f"this agent has {', '.join(sorted(turn.only)) or 'no tools'}"


def _why(error: Exception) -> str:
    if isinstance(error, ClicketError):
        return clean(f"{error.code}: {error.message}")
    return clean(f"tool_error: the call could not be made: {type(error).__name__}: {error}")


async def _end_open(turn: Turn, wanted: list[tuple[int, ToolUse]]) -> None:
    """The turn was stopped while nobody had it: what it had begun is stopped with it."""
    for number, use in wanted:
        known = await turn.host.made(turn.call_id(number, use), turn.thread)
        if known is not None:
            await known.cancel("the turn was stopped")


async def _settled(result: Coroutine[Any, Any, ToolResult], cancel: Any) -> ToolResult:
    """Wait for a call that an earlier process made; who stops waiting stops it."""
    try:
        return await result
    except asyncio.CancelledError:
        await cancel("the turn was stopped")
        raise
