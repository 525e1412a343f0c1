"""One tool step: runs the tool calls of a model's message concurrently through the runtime. Each call gets exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from clicket.agents.background import started_text
from clicket.agents.background_tools import BACKGROUND_TOOLS
from clicket.agents.entries import Result
from clicket.agents.frontend_tool import frontend_arguments
from clicket.agents.handoff import HandTool
from clicket.agents.identity import both
from clicket.agents.middleware import after_call, before_call
from clicket.agents.outages import Outages
from clicket.agents.read_result import READ_RESULT, note_of
from clicket.agents.stopwatch import Stopwatch
from clicket.agents.subagents import AgentTool
from clicket.agents.task_waits import ended_before, wait_all
from clicket.agents.transcript import INTERRUPTED
from clicket.agents.turn import Turn, TurnStopped
from clicket.agents.turn_limits import Ending, check_counts
from clicket.errors import ClicketError, MiddlewareFailed, StoreUnavailable
from clicket.kernel import State
from clicket.model import ToolResult
from clicket.model.chat import ChatMessage, ToolUse
from clicket.model.codec import clean, encode, without_notes
from clicket.model.files import shown_in
from clicket.model.names import FRONTEND
from clicket.model.ports import AgentHost, Handle, Stale
from clicket.model.record import result_of
from clicket.safety.vault import MASK
from clicket.tools.search import FIND_TOOLS

__all__ = ["Actor"]

_NO_ARGUMENTS = ("", "null")
_LATE = "timeout: the time of the run was over before this call had a result. Its tool may or may not have run."
_GONE = "not_found: the record of the call is not kept any more. Its tool may or may not have run."
_OWN = (READ_RESULT, FIND_TOOLS, *BACKGROUND_TOOLS)
"""Tools that agents bring along, also one that is limited to other tools."""
_MAX_NAMED = 50
_COMPLETED = State.COMPLETED  # reading a member from its enum costs ten times as much


class Actor:
    """`max_observation`: characters of a result that the model reads at once. The whole is stored, and the model can read on."""

    def __init__(self, *, max_concurrency: int = 5, max_observation: int = 32_768) -> None:
        check_counts(1, max_concurrency=max_concurrency)
        check_counts(200, max_observation=max_observation)
        self._max_concurrency = max_concurrency
        self._max_observation = max_observation

    def act(self, turn: Turn, message: ChatMessage) -> Coroutine[Any, Any, Ending | None]:
        """Run the tool calls of a message. Afterwards each call has a recorded result. Returns why the turn ends, or None."""
        return _ToolStep(turn, message, self._max_concurrency, self._max_observation).run()

    async def collect(self, turn: Turn) -> None:
        """Add the results of background calls that have ended since the model was asked last, in this turn or an earlier one."""
        if turn.branch:
            return
        open_calls = turn.calls_to_collect()
        if not open_calls:
            return
        items: list[Result] = []
        for call_id, use in open_calls.items():
            record = await turn.host.record(call_id, turn.thread)
            if record is None:
                items.append(Result.of(use, call_id, _GONE, failed=True, code="not_found"))
            elif record.state.is_terminal:
                result = await after_call(turn, use, result_of(record))
                most = self._max_observation
                shown = _shown(use, result, most) or await _cut(turn, use, result, most)
                items.append(await _counted(turn, use, call_id, shown))
        if items:
            turn.record_news([msgspec.structs.replace(item, background=True) for item in items])

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


class _ToolStep:
    """The calls of one message. `results` are by the model's ids; `recorded` are those that were recorded during the step."""

    __slots__ = ("max_concurrency", "max_observation", "message", "recorded", "results", "turn", "wanted", "watch")

    def __init__(self, turn: Turn, message: ChatMessage, max_concurrency: int, max_observation: int) -> None:
        self.turn = turn
        self.message = message
        self.max_concurrency = max_concurrency
        self.max_observation = max_observation
        self.results: dict[str, Result] = turn.recorded_results()
        self.recorded: set[str] = set()
        self.wanted: list[tuple[int, ToolUse]] = []
        self.watch: Stopwatch | None = None

    async def run(self) -> Ending | None:
        turn = self.turn
        stop = None
        for number, use in enumerate(self.message.uses, start=1):
            forbidden = turn.count_call(use)
            if forbidden is not None:
                stop = stop or forbidden
                turn.denied[use.id] = forbidden[1]
            if use.id not in self.results:
                self.wanted.append((number, use))
        if turn.handoffs:
            turn.deny_handoffs(self.message.uses)
        monotonic, now = turn.clock.monotonic, turn.clock.now
        started = monotonic()
        since = now()
        left = None if turn.limits.max_seconds is None else turn.spent.seconds_left(turn.limits.max_seconds)
        if left is not None and self.wanted:
            self.watch = Stopwatch(turn.clock, left, turn.host.caller, turn.thread)
        try:
            if self.wanted and turn.must_stop:
                await turn.end_calls([turn.call_id(number, use) for number, use in self.wanted])
                turn.give_in()
            if self.watch is None:
                await self._make_calls()
            elif not await self._make_calls_in_time(self.watch):
                stop = "budget", f"Terminated: Reached the budget of seconds ({turn.limits.max_seconds:g})"
                await self._fill_missing(_LATE, "timeout")
        except asyncio.CancelledError:
            if turn.stopping == "shutdown" or turn.lost:
                raise
            await self._fill_missing(INTERRUPTED, "cancelled")
            self._record(started)
            raise
        self._record(started)
        if turn.has_paused(started, since):
            await turn.flush()
        if stop is None and not turn.branch:
            turn.leave_if_handed(self.message, self.results)
        return stop

    def _record(self, started: float) -> None:
        """Record the results of the step that are not recorded yet, and add all to the turn's messages."""
        new: list[Result] = []
        for _, use in self.wanted:
            if use.id not in self.recorded:
                new.append(self.results[use.id])
        if new:
            monotonic = self.turn.clock.monotonic
            took = monotonic() - started if self.watch is None else self.watch.seconds
            self.turn.record_results(new, took)
        self.turn.add_result_messages(self.message, self.results)

    async def _make_calls_in_time(self, watch: Stopwatch) -> bool:
        """False: the turn's time is over, and calls that had not ended have been cancelled."""
        self.turn.host.watch(watch)
        work = asyncio.ensure_future(self._make_calls())
        try:
            in_time = await ended_before(watch.up, work)
        finally:
            watch.stop()
            self.turn.host.unwatch(watch)
        if in_time:
            work.result()
        return in_time

    async def _make_calls(self) -> None:
        # If a call were durable and the reply that asked for it were not, a later reply could get the result of that call.
        sending = self.turn.sent()
        if sending is not None:
            await sending
        if len(self.wanted) == 1:
            number, use = self.wanted[0]
            self.results[use.id] = await self._result(number, use)
        else:
            await self._make_several()

    async def _make_several(self) -> None:
        """A result that arrives while other calls run is recorded at once: an approval may take longer than the retention of ended
        calls."""
        rest = iter(self.wanted)
        left = len(self.wanted)
        ended: list[str] = []
        later: asyncio.Handle | None = None

        def record_ended() -> None:
            nonlocal later
            later = None
            if left:  # else all calls have ended, and `run` records their results together
                self.recorded.update(ended)
                self.turn.record_results([self.results[id] for id in ended], 0.0)
            ended.clear()

        async def work() -> None:
            nonlocal left, later
            for number, use in rest:
                self.results[use.id] = await self._result(number, use)
                left -= 1
                ended.append(use.id)
                if left and later is None:
                    later = asyncio.get_running_loop().call_soon(record_ended)

        tasks = [asyncio.ensure_future(work()) for _ in range(min(self.max_concurrency, len(self.wanted)))]
        try:
            if tasks:  # no tasks: all results were recorded before
                await wait_all(tasks)
        finally:
            if later is not None:
                later.cancel()

    async def _result(self, number: int, use: ToolUse, outages: Outages | None = None) -> Result:
        """The result of one call. Errors become results; only a closing runtime raises, to end the turn here.

        `outages`: the store failed before; whether the call was made is not known.
        """
        turn, watch = self.turn, self.watch
        turn.leave_if_closing()
        call_id = turn.call_id(number, use)
        if watch is not None and use.name not in turn.frontend:  # the time of a frontend is its user's
            watch.begin(call_id)
        try:
            result = await self._ended(use, call_id, may_be_made=turn.resumed or outages is not None)
            if result is None:
                return Result.of(use, call_id, started_text(call_id), background=True)
        except StoreUnavailable as error:
            turn.leave_if_closing()
            outages = outages or turn.outages()
            try:
                await outages.wait(error)
            except StoreUnavailable:
                return _failed(use, call_id, error)
            return await self._result(number, use, outages)
        except Stale:  # the call was not made
            await turn.catch_up()
            return await self._result(number, use, outages)
        except MiddlewareFailed:
            raise
        except Exception as error:
            turn.leave_if_closing()
            return _failed(use, call_id, error)
        finally:
            if watch is not None:
                watch.end(call_id)
        result = await after_call(turn, use, result)
        shown = _shown(use, result, self.max_observation) or await _cut(turn, use, result, self.max_observation)
        return await _counted(turn, use, call_id, shown)

    async def _ended(self, use: ToolUse, call_id: str, *, may_be_made: bool) -> ToolResult | None:
        """The outcome of one call, which is made unless it was before. None: it goes on in the background."""
        turn = self.turn
        host = turn.host
        known = await host.made(call_id, turn.thread) if may_be_made else None
        why = _denial(turn, use)
        name = turn.decisions.brought.get(use.name, use.name)
        if name != use.name:
            host = host.for_parts()
        arguments = _arguments(use)
        if known is None and why is None and turn.middleware.before_tool:
            arguments, why, asks = await before_call(turn, use, arguments, call_id)
            host = host.asking(asks) if asks and why is None else host
            sending = turn.sent()  # a decision is durable before the call that follows from it
            if sending is not None:
                await sending
        goes_on = why is None and not turn.branch and turn.recorded is None and use.name not in turn.frontend
        if goes_on and host.is_background(name):
            return await host.start(name, arguments, id=call_id, thread=turn.thread) if known is None else None
        if known is not None:
            return await self._outcome(known, call_id, name)
        return await self._call(host, name, arguments, call_id, why, may_be_made)

    def _call(
        self, host: AgentHost, tool: str, arguments: str, call_id: str, why: str | None, may_be_made: bool
    ) -> Coroutine[Any, Any, ToolResult]:
        """Make a call, or record that it is refused, for the reason `why`."""
        thread = self.turn.thread
        if why is not None:
            return host.refuse(tool, arguments, id=call_id, thread=thread, why=why)
        recorded = self.turn.recorded
        if tool in self.turn.frontend:
            asked = frontend_arguments(tool, arguments)
            if recorded is not None:
                return recorded.make(host, FRONTEND, asked, call_id, thread)
            return host.conduct(FRONTEND, asked, id=call_id, thread=thread)
        if recorded is not None:
            return recorded.make(host, tool, arguments, call_id, thread)
        if may_be_made:
            return host.call(tool, arguments, id=call_id, thread=thread)
        return host.call_new(tool, arguments, call_id, thread)

    async def _outcome(self, known: Handle, call_id: str, tool: str) -> ToolResult:
        """Wait for a call that was made before this process ran the turn."""
        turn, watch = self.turn, self.watch
        if not turn.host.lives(call_id, turn.thread):
            # Its owner may have died with the turn's. The recovery when the runtime opened left it if its tool came later.
            await turn.host.recover()
            if turn.deps:  # the recovery leaves out tools whose deps the runtime does not make
                await turn.host.claim(call_id, turn.thread)
            known = await turn.host.made(call_id, turn.thread) or known
        gone = not turn.host.lives(call_id, turn.thread) and turn.host.installed(tool) is None
        if gone:
            text = f"This process does not have the tool {tool!r} of a call that was interrupted: register it, or stop the turn."
            turn.wait_for(f"tool:{tool}", text)
        waits = await turn.host.waits_for_people(turn.thread)
        if (turn.thread, call_id) in waits:
            turn.report_waiting()
        if watch is not None:  # waits that began before this process: no event tells of them
            for thread, id in waits:
                watch.wait(thread, id)
        try:
            result = await known.result()
        except asyncio.CancelledError:
            if not turn.goes_on_elsewhere:
                await turn.end_calls([call_id])
            raise
        if gone:
            turn.wait_for(None, f"The call of {tool!r} has ended.")
        return result

    async def _fill_missing(self, text: str, code: str) -> None:
        """The step was interrupted: calls that have ended get their results, the others are ended and get `text` as an error."""
        turn = self.turn
        missing = [(use, turn.call_id(number, use)) for number, use in self.wanted if use.id not in self.results]
        await turn.end_calls([call_id for _, call_id in missing])
        for use, call_id in missing:
            record = None
            with suppress(ClicketError):  # a call gets a result also if the store is unavailable
                record = await turn.host.record(call_id, turn.thread)
            if record is not None and record.state.is_terminal and record.state is not State.CANCELLED:
                result = await self._checked(use, result_of(record))
                most = self.max_observation
                self.results[use.id] = _shown(use, result, most) or await _cut(turn, use, result, most)
            else:
                state = str(State.CANCELLED)
                self.results[use.id] = Result.of(use, call_id, text, failed=True, code=code, state=state)

    async def _checked(self, use: ToolUse, result: ToolResult) -> ToolResult:
        """As middleware lets the model read it; withheld if that cannot be asked, because the step was interrupted."""
        try:
            return await after_call(self.turn, use, result)
        except ClicketError as error:
            text = f"[withheld: {error.message}]"
            return msgspec.structs.replace(result, content=text, output=None, truncated=False, artifact=None)


def _shown(use: ToolUse, result: ToolResult, max_observation: int) -> Result | None:
    """The result as the model reads it; None: it is too long."""
    if result.state is not _COMPLETED:
        text = without_notes(clean(result.content[:max_observation]))
        code = "" if result.error is None else result.error.code
        return Result.of(use, result.call_id, text, failed=True, code=code, state=str(result.state))
    text = result.content
    if len(text) > max_observation:
        return None
    return Result.of(use, result.call_id, text, files=shown_in(text, result.files) if result.files else ())


async def _counted(turn: Turn, use: ToolUse, call_id: str, result: Result) -> Result:
    """With what the agent has used that was called, if the turn has a limit of that."""
    limits = turn.limits
    if limits.max_tokens is None and limits.max_cost is None:
        return result
    tool = turn.host.installed(use.name)
    if not isinstance(tool, AgentTool):
        return result
    return msgspec.structs.replace(result, usage=await tool.used(turn.host, turn.thread, call_id))


def _failed(use: ToolUse, call_id: str, error: Exception) -> Result:
    code = error.code if isinstance(error, ClicketError) else "tool_error"
    return Result.of(use, call_id, _error_text(error), failed=True, code=code)


async def _cut(turn: Turn, use: ToolUse, result: ToolResult, max_observation: int) -> Result:
    """The beginning of a long result; the whole is stored as an artifact."""
    host = turn.host
    text = result.content

    async def keep() -> str:
        if result.artifact is None:
            return await host.keep(text.encode("utf-8", "backslashreplace"))
        await host.allow(result.artifact)
        return result.artifact

    try:
        try:
            whole = await keep()
        except StoreUnavailable as error:
            turn.leave_if_closing()
            whole = await turn.outages().through(keep, error)
    except ClicketError as error:  # the beginning of the result is still useful
        turn.leave_if_closing()
        whole = f"(could not be kept: {error.message})"
    turn.has_references = True
    size = "more than can be shown" if result.truncated else f"{len(text):,} characters"
    files = shown_in(text, result.files)  # their lines stay, whatever else is cut
    shown = "\n".join([text[:max_observation] + note_of(size, whole), *(ref.line for ref in files)])
    return Result.of(use, result.call_id, shown, artifact=whole, files=files)


def _denial(turn: Turn, use: ToolUse) -> str | None:
    """Why a call must not run, or None. A tool that the agent does not offer is refused, also if a prompt injection names it."""
    if use.id in turn.denied:
        return turn.denied[use.id]
    if use.id in turn.masked_uses or (not turn.sensitive.is_empty and turn.sensitive.is_masked(use)):
        return f"its arguments hold {MASK} where a value is needed. It is not kept: ask the user for it"
    allowed = turn.allowed_tools
    if turn.tools is not None and allowed is not turn.tools:  # a drive of your own may have set the other
        allowed = both(allowed, turn.tools)
    if turn.decisions.narrowed is not None and use.name not in turn.decisions.narrowed:
        return f"this request offered {', '.join(sorted(turn.decisions.narrowed)) or 'no tools'}"
    if use.name in turn.frontend or use.name in turn.decisions.brought or use.name in turn.handoffs:
        return None
    if isinstance(turn.host.installed(use.name), HandTool):  # of another agent of the runtime
        return f"this agent hands over to {', '.join(each.name for each in turn.handoffs.values()) or 'no agent'}"
    if allowed is None or use.name in allowed or use.name in _OWN:
        return None
    names = sorted(allowed)
    more = f" and {len(names) - _MAX_NAMED:,} more; find them with find_tools" if len(names) > _MAX_NAMED else ""
    return f"this agent has {', '.join(names[:_MAX_NAMED]) or 'no tools'}{more}"


def _arguments(use: ToolUse) -> str:
    return "{}" if use.arguments.strip() in _NO_ARGUMENTS else use.arguments


def _error_text(error: Exception) -> str:
    if isinstance(error, ClicketError):
        return clean(f"{error.code}: {error.message}")
    return clean(f"tool_error: the call could not be made: {type(error).__name__}: {error}")
