"""One tool step: runs the tool calls of a model's message concurrently through the runtime. Each call gets exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from clicket.agents import entries
from clicket.agents.read_result import READ_RESULT, note_of
from clicket.agents.stopwatch import Stopwatch
from clicket.agents.task_waits import ended_before, wait_all
from clicket.agents.transcript import INTERRUPTED
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.turn_limits import Ending
from clicket.errors import ClicketError, UsageError
from clicket.kernel import State
from clicket.model import ToolResult
from clicket.model.chat import ChatMessage, ToolUse
from clicket.model.codec import clean, encode, without_notes
from clicket.model.record import result_of
from clicket.vault import MASK

__all__ = ["Actor"]

Entry = dict[str, Any]
_NO_ARGUMENTS = ("", "null")
_LATE = "timeout: the time of the run was over before this call had a result. Its tool may or may not have run."
_STOPPED = "the turn was stopped"


class Actor:
    """`max_observation`: characters of a result that the model reads at once. The whole is stored, and the model can read on."""

    def __init__(self, *, max_concurrency: int = 5, max_observation: int = 32_768) -> None:
        for name, value, least in (("max_concurrency", max_concurrency, 1), ("max_observation", max_observation, 200)):
            if type(value) is not int or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        self._max_concurrency = max_concurrency
        self._max_observation = max_observation

    async def act(self, turn: Turn, message: ChatMessage) -> Ending | None:
        """Run the tool calls of a message. Afterwards each call has a recorded result. Returns why the turn ends, or None."""
        found = turn.recorded_results()
        wanted: list[tuple[int, ToolUse]] = []
        stop: Ending | None = None
        for number, use in enumerate(message.uses, start=1):
            why = turn.count_call(use)
            if why is not None:
                stop = stop or why
                turn.denied[use.id] = why[1]
            if use.id not in found:
                wanted.append((number, use))
        early: set[str] = set()
        started, since = turn.clock.monotonic(), turn.clock.now()
        left, watch = turn.spent.seconds_left(turn.limits), None
        if left is not None and wanted:
            watch = Stopwatch(turn.clock, left, turn.host.caller, turn.thread, turn.mark)
        try:
            if wanted and turn.must_stop:
                await _cancel_open(turn, wanted)
                turn.give_in()
            if watch is None:
                await self._run(turn, wanted, found, early)
            elif not await self._run_within(turn, wanted, found, early, watch):
                stop = "budget", f"Terminated: Reached the budget of seconds ({turn.limits.max_seconds:g})"
                await self._fill_missing(turn, wanted, found, _LATE, "timeout")
        except asyncio.CancelledError:
            if turn.stopping == "shutdown":
                raise
            await self._fill_missing(turn, wanted, found, INTERRUPTED, "cancelled")
            self._record(turn, message, wanted, found, early, _took(turn, started, watch))
            raise
        self._record(turn, message, wanted, found, early, _took(turn, started, watch))
        await turn.flush_after_pause(started, since)
        return stop

    async def call(self, turn: Turn, tool: str, arguments: Mapping[str, Any] | None = None) -> ChatMessage:
        """Call a tool as a step of the turn, without a model, in a drive of your own. The message has the text that a model would
        read, and `failed`. After a crash the recorded result is returned. Raises `TurnStopped` if a limit forbids the call."""
        over = turn.over()
        if over is not None:
            raise TurnStopped(*over)
        use = ToolUse(id="", name=tool, arguments=encode(dict(arguments or {})).decode())
        stop = await self.act(turn, turn.say("", (use,)))
        if stop is not None:
            raise TurnStopped(*stop)
        return turn.messages[-1]

    @staticmethod
    def _record(
        turn: Turn,
        message: ChatMessage,
        wanted: list[tuple[int, ToolUse]],
        found: dict[str, Entry],
        early: set[str],
        took: float,
    ) -> None:
        """Record the results of the step that are not recorded yet, and add all to the turn's messages."""
        new = [found[use.id] for _, use in wanted if use.id not in early]
        if new:
            turn.record_results(new, took)
        turn.add_result_messages(message, found)

    async def _run_within(
        self,
        turn: Turn,
        wanted: list[tuple[int, ToolUse]],
        found: dict[str, Entry],
        early: set[str],
        watch: Stopwatch,
    ) -> bool:
        """False: the turn's time is over, and calls that had not ended have been cancelled."""
        turn.host.watch(watch)
        work = asyncio.ensure_future(self._run(turn, wanted, found, early, watch))
        try:
            in_time = await ended_before(watch.up, work)
        finally:
            watch.stop()
            turn.host.unwatch(watch)
        if in_time:
            work.result()
        return in_time

    async def _run(
        self,
        turn: Turn,
        wanted: list[tuple[int, ToolUse]],
        found: dict[str, Entry],
        early: set[str],
        watch: Stopwatch | None = None,
    ) -> None:
        """Make the calls. A result that arrives while other calls run is recorded at once (`early`): an approval may take longer
        than the retention of ended calls."""
        # If a call were durable and the reply that asked for it were not, a later reply could get the result of that call.
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
            if left:  # else all calls have ended, and the caller records their results together
                early.update(ended)
                turn.record_results([found[id] for id in ended], 0.0)
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
            if tasks:  # no tasks: all results were recorded before
                await wait_all(tasks)
        finally:
            if later is not None:
                later.cancel()

    async def _answer(self, turn: Turn, number: int, use: ToolUse, watch: Stopwatch | None = None) -> Entry:
        """The result of one call. Errors become results; only a closing runtime raises, to end the turn here."""
        turn.leave_if_closing()
        call_id, host = turn.call_id(number, use), turn.host
        if watch is not None:
            watch.begin(call_id)
        try:
            known = await host.made(call_id, turn.thread) if turn.resumed else None
            if known is not None:
                if call_id in await host.waiting(turn.thread):
                    turn.report_waiting()
                    if watch is not None:
                        watch.wait(call_id)
                try:
                    result = await known.result()
                except asyncio.CancelledError:
                    await known.cancel(_STOPPED)
                    raise
            else:
                arguments = "{}" if use.arguments.strip() in _NO_ARGUMENTS else use.arguments
                why = _denial(turn, use)
                if why is None:
                    result = await host.call(use.name, arguments, id=call_id, thread=turn.thread)
                else:
                    result = await host.refuse(use.name, arguments, id=call_id, thread=turn.thread, why=why)
        except Exception as error:
            turn.leave_if_closing()
            code = error.code if isinstance(error, ClicketError) else "tool_error"
            return entries.result(use, call_id, _error_text(error), failed=True, code=code)
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
        except ClicketError as error:  # the beginning of the result is still useful
            turn.leave_if_closing()
            whole = f"(could not be kept: {error.message})"
        turn.has_references = True
        size = "more than can be shown" if result.truncated else f"{len(text):,} characters"
        shown = text[: self._max_observation] + note_of(size, whole)
        return entries.result(use, result.call_id, shown, failed=False, artifact=whole)

    async def _fill_missing(
        self, turn: Turn, wanted: list[tuple[int, ToolUse]], found: dict[str, Entry], text: str, code: str
    ) -> None:
        """The step was interrupted: calls that have ended get their results, the others get `text` as an error."""
        for number, use in wanted:
            if use.id not in found:
                call_id, record = turn.call_id(number, use), None
                with suppress(ClicketError):  # a call gets a result also if the store is unavailable
                    record = await turn.host.record(call_id, turn.thread)
                if record is not None and record.state.is_terminal and record.state is not State.CANCELLED:
                    found[use.id] = await self._observed(turn, use, result_of(record))
                else:
                    found[use.id] = entries.result(
                        use, call_id, text, failed=True, code=code, state=str(State.CANCELLED)
                    )


def _took(turn: Turn, started: float, watch: Stopwatch | None) -> float:
    return turn.clock.monotonic() - started if watch is None else watch.seconds


def _denial(turn: Turn, use: ToolUse) -> str | None:
    """Why a call must not run, or None. A tool that the agent does not offer is refused, also if a prompt injection names it."""
    if use.id in turn.denied:
        return turn.denied[use.id]
    if use.id in turn.masked_uses or turn.sensitive.is_masked(use):
        return f"its arguments hold {MASK} where a value is needed. It is not kept: ask the user for it"
    if turn.allowed_tools is None or use.name in turn.allowed_tools or use.name == READ_RESULT:
        return None
    return f"this agent has {', '.join(sorted(turn.allowed_tools)) or 'no tools'}"


def _error_text(error: Exception) -> str:
    if isinstance(error, ClicketError):
        return clean(f"{error.code}: {error.message}")
    return clean(f"tool_error: the call could not be made: {type(error).__name__}: {error}")


async def _cancel_open(turn: Turn, wanted: list[tuple[int, ToolUse]]) -> None:
    """Cancel the calls of a turn that was stopped while no process ran it."""
    for number, use in wanted:
        known = await turn.host.made(turn.call_id(number, use), turn.thread)
        if known is not None:
            await known.cancel(_STOPPED)
