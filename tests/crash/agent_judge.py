"""What must be true of a turn that was killed, whoever finished it: nothing repeated, nothing lost, nothing unanswered."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
from tests.crash.agent_scene import MESSAGE, STEPS, TURN, Effect, asked, effects, thread_of, turn_thread
from tests.crash.settle import Place
from tests.scenarios.kit import assert_sound

from clicket import Record, Runtime, State
from clicket.agents import Agent, AgentEvent, AgentState, TurnDocument
from clicket.agents.event_stream import position_of
from clicket.errors import NotFound
from clicket.model.chat import ChatMessage, ToolUse
from clicket.model.ids import alias_of
from clicket.model.record import result_of

__all__ = ["Seen", "judge", "replies_on_record", "seen"]

REPEATABLE = ("look", "put", "slow", "fail")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is left of a turn."""

    document: TurnDocument
    turn: Record
    calls: dict[str, Record]
    events: list[AgentEvent]
    effects: list[Effect]
    asked: list[int]

    @property
    def in_doubt(self) -> list[str]:
        """Calls of which nobody knows whether they had their effect."""
        return [
            id for id, call in self.calls.items() if call.error is not None and call.error.code == "outcome_unknown"
        ]


async def seen(rt: Runtime, agent: Agent, place: Place) -> Seen:
    thread = thread_of(place)
    page = await agent.history(thread)
    assert len(page.turns) == 1, "one message, one turn"
    return Seen(
        document=page.turns[0],
        turn=await rt.get(TURN, thread=turn_thread(place)),
        calls={
            record.id: await rt.get(record.id, thread=thread)
            for record in (await rt.history(thread=thread, limit=1_000)).items
        },
        events=[event async for event in agent.events(thread)],
        effects=effects(Path(place.folder)),
        asked=asked(Path(place.folder)),
    )


async def replies_on_record(place: Place) -> int:
    """How many answers of the model are in the store, read by somebody who has neither the tools nor the agent."""
    async with Runtime([], settings=place.settings()) as rt:
        try:
            record = await rt.get(TURN, thread=turn_thread(place))
        except NotFound:
            return 0
    return sum(1 for event in record.events if event.type == "note" and event.data.get("entry", {}).get("e") == "reply")


def judge(found: Seen, whole: Seen, *, lives: int, fickle: bool = False) -> None:
    """`whole` is the same turn when nobody was killed; `lives`: how many processes worked at `found`, the last one too.
    `fickle`: no two answers of the model were the same."""
    _ended(found)
    _paired(found)
    _told(found)
    _nothing_repeated(found, lives)
    assert sorted(map(alias_of, found.calls)) == sorted(map(alias_of, whole.calls))
    if not fickle:
        _same(found, whole)
    paid = Counter(found.asked)
    assert sorted(paid) == list(range(1, STEPS + 1))
    assert sum(paid.values()) < STEPS + lives, "in each life at most one answer was lost before it was on record"


def _ended(found: Seen) -> None:
    assert_sound(found.turn)
    assert found.turn.state is State.COMPLETED, found.turn.error
    for record in found.calls.values():
        assert_sound(record)
        assert record.state.is_terminal, f"{record.id} is {record.state}"
    assert (found.document.state, found.document.stopped, found.document.steps) == (
        AgentState.FINISHED,
        "finished",
        STEPS,
    )
    assert found.document.messages[0] == ChatMessage(role="user", content=MESSAGE)


def _paired(found: Seen) -> None:
    """Every tool call is answered right after it was made, once, with what its own record says."""
    step, waiting = 0, dict[str, tuple[str, ToolUse]]()
    for message in found.document.messages[1:]:
        if message.role == "assistant":
            assert not waiting, f"no answer to {list(waiting)}"
            step += 1
            waiting = {use.id: (f"react.1.{step}.{n}", use) for n, use in enumerate(message.uses, start=1)}
            continue
        assert message.role == "tool"
        alias, use = waiting.pop(message.use_id)
        (call_id,) = [id for id in found.calls if alias_of(id) == alias]
        record = found.calls[call_id]
        result = result_of(record)
        assert record.tool == use.name
        if isinstance(record.arguments, dict):  # else they were refused, and are not kept
            assert record.arguments == msgspec.json.decode(use.arguments), "the answer of another call"
        assert message.failed is not result.success
        assert message.content == (result.content if result.success else str(result.error))
        if call_id in found.in_doubt:
            assert message.content.startswith("outcome_unknown")
    assert not waiting


def _told(found: Seen) -> None:
    """Events without a gap, none twice; each call begins and ends once; a beginning, and one end."""
    places = [position_of(event.id) for event in found.events]
    entries: dict[int, list[int]] = {}
    for turn, entry, number in places:
        assert turn == 1
        entries.setdefault(entry, []).append(number)
    assert places == sorted(set(places))
    assert list(entries) == list(range(1, len(entries) + 1))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in entries.values())
    types = [event.type for event in found.events]
    assert types[:2] == ["state", "message"]
    assert types[-2:] == ["state", "final"]
    changes = [(event.data["from"], event.data["to"]) for event in found.events if event.type == "state"]
    assert changes == [("idle", "running"), ("running", "finished")]
    assert Counter(types)["final"] == 1
    assert found.events[-1].data["text"] == found.document.text
    begun = [event.data["call_id"] for event in found.events if event.type == "tool_started"]
    told = [event.data["call_id"] for event in found.events if event.type == "tool_result"]
    assert sorted(begun) == sorted(told) == sorted(found.calls)
    assert len(set(begun)) == len(begun)
    thoughts = [event.step for event in found.events if event.type == "usage"]
    assert thoughts == list(range(1, STEPS + 1)), "no answer is missing, or there twice"


def _nothing_repeated(found: Seen, lives: int) -> None:
    begun = [effect for effect in found.effects if effect.side == "begin"]
    runs = Counter(effect.call for effect in begun)
    keys: dict[str, str] = {}
    for effect in begun:
        assert keys.setdefault(effect.call, effect.key) == effect.key, "one call, one key"
        assert runs[effect.call] <= (lives if effect.tool in REPEATABLE else 1), f"{effect.call} ran again"
    assert len(set(keys.values())) == len(keys)
    finished = {effect.call for effect in found.effects if effect.side == "end"}
    for call in found.calls.values():
        if call.state is State.COMPLETED:
            assert call.id in finished
        doubtful = call.id in found.in_doubt
        assert not (doubtful and call.tool in REPEATABLE), "who may run again is run again"
        assert not doubtful or call.state is State.FAILED


def _same(found: Seen, whole: Seen) -> None:
    """The same transcript as the undisturbed one, but for calls in doubt, and what follows from them."""
    doubted = {
        event.data["id"]
        for event in found.events
        if event.type == "tool_started" and event.data["call_id"] in found.in_doubt
    }
    if not doubted:
        assert found.document.messages == whole.document.messages
        assert found.document.text == whole.document.text
        assert found.document.usage == whole.document.usage
        assert found.document.calls == whole.document.calls
        return
    ours, theirs = found.document.messages[:-1], whole.document.messages[:-1]
    differ = {mine.use_id for mine, other in zip(ours, theirs, strict=True) if mine != other}
    assert differ == doubted
    good = re.match(r"\d+", whole.document.text)
    assert good is not None
    assert found.document.text == whole.document.text.replace(good[0], str(int(good[0]) - len(doubted)), 1)
