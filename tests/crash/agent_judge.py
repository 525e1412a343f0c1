"""Invariants of a killed turn, whichever process finished it: no call repeated, no result lost, every call answered."""

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
    """Everything that a turn left in the store and in the test's files."""

    document: TurnDocument
    turn: Record
    calls: dict[str, Record]
    events: list[AgentEvent]
    effects: list[Effect]
    asked: list[int]

    @property
    def in_doubt(self) -> list[str]:
        """Calls with the error outcome_unknown."""
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
        calls={record.id: record for record in (await rt.history(thread=thread, limit=1_000)).items},
        events=[event async for event in agent.events(thread)],
        effects=effects(Path(place.folder)),
        asked=asked(Path(place.folder)),
    )


async def replies_on_record(rt: Runtime, place: Place) -> int:
    """How many model replies the store has. The reading runtime does not have the agent yet."""
    try:
        record = await rt.get(TURN, thread=turn_thread(place))
    except NotFound:
        return 0
    return sum(1 for event in record.events if event.type == "note" and event.data.get("entry", {}).get("e") == "reply")


def judge(found: Seen, whole: Seen, *, lives: int, fickle: bool = False) -> None:
    """`whole` is the same turn without a kill. `lives`: how many processes worked on `found`, including the last one.
    `fickle`: each reply of the model was different."""
    _ended(found)
    _paired(found)
    _events_complete(found)
    _nothing_repeated(found, lives)
    assert sorted(map(alias_of, found.calls)) == sorted(map(alias_of, whole.calls))
    if not fickle:
        _same(found, whole)
    paid = Counter(found.asked)
    assert sorted(paid) == list(range(1, STEPS + 1))
    assert sum(paid.values()) < STEPS + lives, "each process loses at most one model reply before the reply is stored"


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
    """Every tool call gets one answer, right after the call, and the answer agrees with the call's record."""
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
        if isinstance(record.arguments, dict):  # else validation refused them, and the record does not keep them
            assert record.arguments == msgspec.json.decode(use.arguments), "the answer belongs to another call"
        assert message.failed is not result.success
        assert message.content == (result.content if result.success else str(result.error))
        if call_id in found.in_doubt:
            assert message.content.startswith("outcome_unknown")
    assert not waiting


def _events_complete(found: Seen) -> None:
    """Event numbers have no gap and no duplicate. Each call starts once and ends once, and so does the turn."""
    places = [position_of(event.id) for event in found.events]
    entries: dict[int, list[int]] = {}
    for turn, entry, number, offset in places:
        assert (turn, offset) == (1, 0)
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
    answered = [event.data["call_id"] for event in found.events if event.type == "tool_result"]
    assert sorted(begun) == sorted(answered) == sorted(found.calls)
    assert len(set(begun)) == len(begun)
    thoughts = [event.step for event in found.events if event.type == "usage"]
    assert thoughts == list(range(1, STEPS + 1)), "a model reply is missing or duplicated"


def _nothing_repeated(found: Seen, lives: int) -> None:
    begun = [effect for effect in found.effects if effect.side == "begin"]
    runs = Counter(effect.call for effect in begun)
    keys: dict[str, str] = {}
    for effect in begun:
        assert keys.setdefault(effect.call, effect.key) == effect.key, "all attempts of a call use one idempotency key"
        assert runs[effect.call] <= (lives if effect.tool in REPEATABLE else 1), f"{effect.call} ran again"
    assert len(set(keys.values())) == len(keys)
    finished = {effect.call for effect in found.effects if effect.side == "end"}
    for call in found.calls.values():
        if call.state is State.COMPLETED:
            assert call.id in finished
        doubtful = call.id in found.in_doubt
        assert not (doubtful and call.tool in REPEATABLE), "a repeatable call is run again, so its outcome is known"
        assert not doubtful or call.state is State.FAILED


def _same(found: Seen, whole: Seen) -> None:
    """Same transcript as the turn without a kill, except for calls with unknown outcomes and what follows from them."""
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
