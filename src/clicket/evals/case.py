"""`Case`: one message to an agent, what came before it, and the results that its tool calls had when it was recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

from clicket.agents.memory import Memory, TurnDocument
from clicket.errors import NotFound, UsageError, did_you_mean
from clicket.model.chat import ChatMessage
from clicket.model.codec import decode, encode
from clicket.model.evaluation import RecordedCall
from clicket.safety.vault import hide

__all__ = ["Case", "calls_in", "cases_of"]

_PAGE = 200
_NO_ARGUMENTS = ("", "null")


class _Runtime(Protocol):
    """What is read of a runtime."""

    @property
    def host(self) -> Any: ...
    async def threads(self, *, limit: int = 100, cursor: str | None = None) -> Any: ...


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """`Case("Refund order 7.", name="refund", expected="refunded")`.

    `history`: messages before it. `calls`: recorded results, which answer the agent's tool calls in place of the tools; None: the tools
    run.
    `expected`: what checks compare the answer with, if they are given nothing else.
    """

    message: str
    name: str = ""
    expected: Any = None
    history: tuple[ChatMessage, ...] = ()
    calls: tuple[RecordedCall, ...] | None = None
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not isinstance(self.message, str) or not self.message.strip():
            raise UsageError(f"a case begins with a message, Case('Refund order 7.'), not with {self.message!r:.100}.")

    @classmethod
    async def from_thread(cls, rt: _Runtime, thread: str, *, turn: int | None = None, agent: str | None = None) -> Case:
        """A turn of a thread that has ended: its message, what came before it, and its recorded results. Secrets are masked. `expected`
        is its answer. `turn`: its number; the last one by default. `agent`: needed if several agents have a thread of that name."""
        name = await _agent_of(rt, thread) if agent is None else agent
        found = [case async for case in _turns(rt, name, thread, turn)]
        if not found:
            which = "turns that have ended" if turn is None else f"turn {turn}"
            raise NotFound(
                f"agent {name!r} has no {which} in thread {thread!r}. `clicket threads` lists what there is; the setting "
                "`memory_retention` says how long threads are kept."
            )
        return found[-1]


async def cases_of(
    rt: _Runtime,
    *,
    agent: str | None = None,
    thread: str | None = None,
    tool: str | None = None,
    since: float | None = None,
    limit: int = 1_000,
) -> list[Case]:
    """A case for each turn that is on record, newest threads first. `agent`, `thread`: of these alone. `tool`: only turns that called it.
    `since`: only turns that ended after this time, in seconds since the epoch."""
    if type(limit) is not int or limit < 1:
        raise UsageError(f"limit is a number from 1, not {limit!r}.")
    cases: list[Case] = []
    async for name, of in _places(rt, thread, since):
        if agent is not None and of != agent:
            continue
        async for case in _turns(rt, of, name):
            if tool is not None and not any(call.tool == tool for call in case.calls or ()):
                continue
            if since is not None and case.metadata["at"] < since:
                continue
            cases.append(case)
            if len(cases) == limit:
                return cases
    return cases


def calls_in(messages: tuple[ChatMessage, ...] | list[ChatMessage]) -> tuple[RecordedCall, ...]:
    """The tool calls of these messages, in order, with their results."""
    results = {message.use_id: message for message in messages if message.role == "tool"}
    found: list[RecordedCall] = []
    for message in messages:
        for use in message.uses:
            result = results.get(use.id)
            found.append(
                RecordedCall(
                    tool=use.name,
                    arguments=_parsed(use.arguments),
                    content="" if result is None else result.content,
                    failed=result is None or result.failed,
                )
            )
    return tuple(found)


def _parsed(text: str) -> Any:
    if text.strip() in _NO_ARGUMENTS:
        return {}
    try:
        value = decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


async def _turns(rt: _Runtime, agent: str, thread: str, only: int | None = None) -> AsyncIterator[Case]:
    memory, after = Memory(agent), 0
    history: list[ChatMessage] = []
    while True:
        page = await memory.page(rt.host, thread, after=after, limit=_PAGE)
        for turn in page.turns:
            if only in (None, turn.turn):
                yield _case(agent, thread, turn, history)
            history += turn.messages
        if page.after is None:
            return
        after = page.after


def _case(agent: str, thread: str, turn: TurnDocument, history: list[ChatMessage]) -> Case:
    messages = _masked(turn.as_written)
    return Case(
        messages[0].content if messages and messages[0].content.strip() else turn.message or "(no message)",
        name=f"{thread}#{turn.turn}",
        expected=hide(turn.value) if turn.value is not None else hide(turn.text),
        history=_masked(history),
        calls=calls_in(messages),
        metadata={"agent": agent, "thread": thread, "turn": turn.turn, "at": turn.at},
    )


def _masked(messages: Any) -> tuple[ChatMessage, ...]:
    """Without secrets, and without files: a case has no bytes."""
    plain = [msgspec.structs.replace(message, files=(), vendor=None) for message in messages]
    return msgspec.convert(hide(decode(encode(plain))), tuple[ChatMessage, ...])


async def _agent_of(rt: _Runtime, thread: str) -> str:
    names = sorted({agent async for name, agent in _places(rt, thread, None)})
    if len(names) == 1:
        return names[0]
    if names:
        raise UsageError(f"the agents {', '.join(names)} have a thread {thread!r}: name one, agent={names[0]!r}.")
    known = {name async for name, _ in _places(rt, None, None)}
    raise NotFound(
        f"no agent has a thread {thread!r}.{did_you_mean(thread, known)} `clicket threads` lists the threads."
    )


async def _places(rt: _Runtime, thread: str | None, since: float | None) -> AsyncIterator[tuple[str, str]]:
    """Threads and their agents."""
    cursor: str | None = None
    while True:
        page = await rt.threads(limit=_PAGE, cursor=cursor)
        for item in page.items:
            if thread in (None, item.name) and item.caller == rt.host.caller:
                for agent in item.agents:
                    if since is None or agent.updated_at >= since:
                        yield item.name, agent.name
        cursor = page.cursor
        if cursor is None:
            return
