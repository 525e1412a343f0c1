"""Middleware: what surrounds the requests to the model and the tool calls of a turn.

The law: what a method returns is recorded before it has an effect, under the name of its middleware, and is not asked for again. A method
that returns None writes nothing. Middleware whose decisions follow from the entries of the turn alone is asked again after a crash instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from clicket.agents.agent_result import AgentResult
from clicket.agents.chain import Method
from clicket.agents.checking import check_ending, judge
from clicket.agents.entries import Refusal
from clicket.agents.turn import Turn
from clicket.agents.turn_limits import Ending, Stopped
from clicket.agents.verdicts import Ask, Change, Edit, Pass, Refuse, Verdict, verdict_in
from clicket.errors import MiddlewareFailed, StoreUnavailable, UsageError, did_you_mean
from clicket.kernel import AgentState, State
from clicket.model import ToolCall, ToolError, ToolResult
from clicket.model.chat import ChatReply, ChatRequest, ToolOffer, ToolUse
from clicket.model.codec import clean, decode, encode
from clicket.tools import Tool

__all__ = [
    "Middleware",
    "after_call",
    "at_end",
    "before_call",
    "bring_tools",
    "bring_tools_again",
    "edits",
    "instructed",
    "offered",
    "replied",
]

T = TypeVar("T")

_MAX_ERROR = 500


def _default(method: Callable[..., Any]) -> Callable[..., Any]:
    method.is_default = True  # type: ignore[attr-defined]
    return method


class Middleware:
    """Inherit it and write the methods that you need; each may be async, and an object that has some of them need not inherit it.

    `name`: as it is recorded and as errors name it; the default is that of the class. `is_derived`: everything that its methods return
    follows from the entries of the turn (`turn.messages`, `turn.steps`), so it is not recorded but asked for again after a crash.

    An exception ends the turn as an error that names the middleware.
    """

    name: str = ""
    is_derived: bool = False

    @_default
    def tools(self, turn: Turn) -> Sequence[Tool | str] | None:
        """More tools for the next request, beside those of the agent: tools made by `@tool`, or names of tools of the runtime. Also asked
        when a turn goes on after a crash. Only turns of agents whose middleware brings a tool can call it. Make each tool once: a
        runtime has one tool of a name."""

    @_default
    def instructions(self, turn: Turn) -> str | None:
        """A text after the agent's instructions, in the next request."""

    @_default
    def before_model(self, turn: Turn, request: ChatRequest) -> Edit | ChatRequest | Awaitable[Any] | None:
        """`Edit(…)` changes a request, whose messages have ids (`ChatMessage.id`). Derived middleware may return a whole request."""

    @_default
    def after_model(self, turn: Turn, reply: ChatReply) -> ChatReply | Refuse | None:
        """Takes the place of a reply; or refuses an answer: the model reads why, and is asked again."""

    @_default
    def before_tool(self, turn: Turn, call: ToolCall) -> Change | Refuse | Ask | Pass | None:
        """`Change(arguments)`; `Refuse(text)`, which the model reads as the call's result; `Ask(text)`: the call waits for an approval."""

    @_default
    def after_tool(self, turn: Turn, call: ToolCall, result: ToolResult) -> Change | Refuse | Pass | None:
        """What the model reads: `Change(text)`, or `Refuse(text)` as a failed call. The call's record stays as it is."""

    @_default
    def at_end(self, turn: Turn, result: AgentResult) -> Change | Pass | None:
        """`Change(text)`: another final text. Called when the turn ends, but not if it fails or is cancelled."""


async def _ask(turn: Turn, method: Method, *given: Any) -> Any:
    """What a method returns. Errors become one that names the middleware; those of a check refuse."""
    if method.check is not None:
        return await judge(turn, method, given[-1])
    try:
        found = method.call(turn, *given)
        return await found if inspect.isawaitable(found) else found
    except (StoreUnavailable, MiddlewareFailed):
        raise
    except Exception as error:
        turn.leave_if_closing()
        raise MiddlewareFailed(f"the middleware {method.by!r} failed in {method.on}: {_text_of(error)}") from error


# Before a request.


async def bring_tools(turn: Turn) -> None:
    """Make the tools that middleware brings known to the runtime, and to the turn: calls and replies on record may need them."""
    for method in turn.middleware.tools:
        for name in await _tools_of(turn, method):
            _bring(turn, name)


async def bring_tools_again(turn: Turn) -> None:
    """Make the tools known that middleware brought to the next request before a crash, and not yet to the first one: the reply on record,
    or the one that is asked for again, calls them."""
    for method in turn.middleware.tools:
        known: list[str] = turn.decisions.of(method, turn.steps + 1) or []
        if method.is_derived or any(turn.host.offer(name) is None for name in known):
            for name in await _tools_of(turn, method):
                _bring(turn, name)


def _bring(turn: Turn, name: str) -> ToolOffer | None:
    """Let the turn call a tool, under the name by which models know it."""
    offer = turn.host.offer(name)
    if offer is not None:
        turn.decisions.brought[offer.name] = name
    return offer


async def _tools_of(turn: Turn, method: Method) -> list[str]:
    given = await _ask(turn, method)
    if isinstance(given, str) or not isinstance(given, Sequence | None):
        raise _refused_value(method, given, "a list of tools")
    names: list[str] = []
    for each in given or ():
        if isinstance(each, str):
            turn.host.refuse_unknown((each,))
            names.append(each)
        elif isinstance(getattr(each, "name", None), str):
            try:
                names.append(turn.host.lend_to(turn.first.agent, each))
            except UsageError as error:
                raise UsageError(f"the middleware {method.by!r} brings a tool: {error.message}") from None
        else:
            raise _refused_value(method, given, "a list of tools made by @tool, or of their names")
    return names


async def offered(turn: Turn, offers: tuple[ToolOffer, ...]) -> tuple[ToolOffer, ...]:
    """The agent's tools, and those that middleware brings to the next request."""
    there = {offer.name for offer in offers}
    for method in turn.middleware.tools:
        names: list[str] = await _lasting(turn, method, _tools_of, [])
        for name in names:
            offer = _bring(turn, name)
            if offer is None or name in there:
                continue
            if offer.name in there:
                raise MiddlewareFailed(
                    f"the middleware {method.by!r} brings the tool {offer.name!r}, and the agent has another one of that name: leave that "
                    "one out (tools=[…]), or give it another name."
                )
            offers = (*offers, offer)
            there.add(offer.name)
    return offers


async def instructed(turn: Turn) -> list[str]:
    """The texts that middleware adds to the instructions of the next request."""
    texts = [await _lasting(turn, method, _text_for, "") for method in turn.middleware.instructions]
    return [text for text in texts if text]


async def _text_for(turn: Turn, method: Method) -> str:
    text = await _ask(turn, method)
    if not isinstance(text, str | None):
        raise _refused_value(method, text, "a text or None")
    return text or ""


async def _lasting(turn: Turn, method: Method, ask: Callable[[Turn, Method], Awaitable[T]], empty: T) -> T:
    """A decision that holds until it changes: the one on record for this step, or what the method returns now."""
    step = turn.steps + 1
    known: T | None = turn.decisions.of(method, step)
    if known is not None:
        return known
    value = await ask(turn, method)
    if not method.is_derived and value != turn.decisions.last(method.on, method.by, empty):
        turn.record_decision(method, value, step=step)
    return value


async def edits(turn: Turn, method: Method, request: ChatRequest) -> Edit | ChatRequest | None:
    """How a middleware changes the next request: as recorded for this step, or as it decides now."""
    step = turn.steps + 1
    known = turn.decisions.of(method, step)
    if known is not None:
        found = verdict_in(known)
        return found if isinstance(found, Edit) else None
    edit = await _ask(turn, method, request if method.is_derived else turn.decisions.with_ids(request, turn.messages))
    if edit is None or (isinstance(edit, ChatRequest) and method.is_derived):
        return edit
    if not isinstance(edit, Edit):
        raise _refused_value(method, edit, "an Edit or None")
    _check_names(method, edit, request)
    if not method.is_derived and not edit.is_empty:
        turn.record_decision(method, msgspec.to_builtins(edit), step=step)
        turn.take_edit(edit)
    return edit


def _check_names(method: Method, edit: Edit, request: ChatRequest) -> None:
    names = {offer.name for offer in request.tools}
    for name in edit.tools or ():
        if name not in names:
            raise MiddlewareFailed(
                f"the middleware {method.by!r} chose the tool {name!r:.100}, which this request does not offer.{did_you_mean(name, names)}"
            )


# After a request.


async def replied(turn: Turn, reply: ChatReply, own: Sequence[Method]) -> tuple[ChatReply, Refusal | None]:
    """The reply that is recorded, and why it is refused, if it is. `own`: methods of clicket's parts, which come first."""
    turn.answer = None
    for method in (*own, *turn.middleware.after_model):
        found = await _ask(turn, method, reply)
        match found:
            case None | Pass():
                pass
            case Refuse():
                return reply, Refusal(by=method.by, text=str(found.text), stopped=getattr(found, "stopped", "refused"))
            case ChatReply():
                if not method.is_derived and found is not reply:
                    was = {"text": reply.text, "calls": [[use.name, use.arguments] for use in reply.uses]}
                    turn.record_decision(method, {"do": "change", "was": was}, step=turn.steps + 1)
                reply = found
            case _:
                raise _refused_value(method, found, "a ChatReply, Refuse(text) or None")
    return reply, None


# Around a tool call.


class Ruled(NamedTuple):
    """About a call that was not made yet: its arguments, why it must not be made, and why a person decides about it."""

    arguments: str
    why: str | None = None
    asks: str = ""


async def before_call(turn: Turn, use: ToolUse, arguments: str, call_id: str) -> Ruled:
    asks: list[str] = []
    for method in turn.middleware.before_tool:
        call = ToolCall(use.name, _parsed(arguments), id=call_id, thread=turn.thread)
        match await _verdict(turn, method, use, call):
            case Change(value):
                arguments = value if isinstance(value, str) else encode(value).decode()
            case Refuse(text):
                return Ruled(arguments, text)
            case Ask(text):
                asks.append(text)
    return Ruled(arguments, asks="; ".join(asks))


async def after_call(turn: Turn, use: ToolUse, result: ToolResult) -> ToolResult:
    """The result as the model reads it. The record of the call stays as it is."""
    if not turn.middleware.after_tool:
        return result
    call = ToolCall(use.name, _parsed(use.arguments), id=result.call_id, thread=turn.thread)
    for method in turn.middleware.after_tool:
        match await _verdict(turn, method, use, call, result):
            case Change(value):
                text = value if isinstance(value, str) else encode(value).decode()
                result = msgspec.structs.replace(result, content=text, output=value, truncated=False, artifact=None)
            case Refuse(text):
                error = ToolError(code="refused", message=text, type="Refused")
                result = msgspec.structs.replace(
                    result, state=State.FAILED, content=text, output=None, error=error, truncated=False, artifact=None
                )
    return result


async def _verdict(turn: Turn, method: Method, use: ToolUse, *given: Any) -> Verdict | None:
    """What a middleware decides about a call of the model: as recorded, or as it decides now."""
    known = turn.decisions.of(method, turn.steps, use.id)
    if known is not None:
        return verdict_in(known)
    found = await _ask(turn, method, *given)
    if found is None or isinstance(found, Pass):
        return None
    may_ask = method.on in ("before_tool", "tool_call")
    if not isinstance(found, Change | Refuse) and not (may_ask and isinstance(found, Ask)):
        raise _refused_value(method, found, f"Change(value), Refuse(text),{' Ask(text)' if may_ask else ''} or None")
    if not method.is_derived:
        try:
            value = msgspec.to_builtins(found, str_keys=True)
            encode(value)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise _refused_value(method, found, "values that can be written as JSON") from error
        turn.record_decision(method, value, step=turn.steps, use=use.id)
    return found


# At the end.


async def at_end(turn: Turn, ending: Ending) -> Ending:
    """Why the turn ends, and its final text."""
    stopped, text = await check_ending(turn, ending)
    for method in turn.middleware.at_end:
        known = turn.decisions.of(method, turn.steps)
        found = verdict_in(known) if known is not None else await _ask(turn, method, _draft(turn, stopped, text))
        if found is None or isinstance(found, Pass):
            continue
        if not isinstance(found, Change) or not isinstance(found.value, str):
            raise _refused_value(method, found, "Change(text) or None")
        if known is None and not method.is_derived:
            turn.record_decision(method, msgspec.to_builtins(found), step=turn.steps)
        text = found.value
    return stopped, text


def _draft(turn: Turn, stopped: Stopped, text: str) -> AgentResult:
    spent = turn.spent
    finished = stopped == "finished"
    return AgentResult(
        text=text,
        state=AgentState.FINISHED if finished else AgentState.IDLE,
        stopped=stopped,
        steps=spent.steps,
        usage=spent.usage,
        messages=list(turn.messages),
        thread=turn.thread,
        turn=turn.number,
        calls=spent.calls,
        begins=turn.begins,
        plan=turn.plan,
        ended=turn.answer_end if finished else None,
        agent=turn.agent,
    )


def _parsed(arguments: str) -> Any:
    try:
        return decode(arguments or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments


def _refused_value(method: Method, value: object, wanted: str) -> MiddlewareFailed:
    return MiddlewareFailed(
        f"the middleware {method.by!r} returned {value!r:.100} from {method.on}: it returns {wanted}."
    )


def _text_of(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {clean(error)[:_MAX_ERROR]}"
    except Exception:  # `__str__` of a foreign exception may raise
        return type(error).__name__
