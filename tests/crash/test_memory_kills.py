"""Killed at every instant: nothing is remembered twice or lost, a turn reads one memory from its beginning to its end, and a caller is
forgotten whole."""

from __future__ import annotations

import json
import shutil
import signal
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.memory_scene import ANN, BOB, FACTS, OLD, Scene, agent_at, forget, play, prepare, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place

BETWEEN = "A person wrote this between the kill and the second process."
KINDS = (
    "agent.thread", "agent.turn", "agent.id", "agent.queue", "agent.sent", "agent.queue.held", "agent.bell", "agent.summary",
    "agent.requests", "agent.memory", "artifact", "outcome",
)  # fmt: skip


def place_in(folder: Path) -> Place:
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    return Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))


async def test_what_is_remembered_survives_a_kill_once(nest: Nest, tmp_path: Path) -> None:
    killed = 0
    for number in count(1):
        place = place_in(tmp_path / str(number))
        await prepare(place, ANN)
        first = Scene(place=place, death=Death(at=number, side="any"))
        ending = await nest.raise_child(play, msgspec.to_builtins(first))
        is_killed = ending.signal == signal.SIGKILL
        killed += is_killed
        if is_killed:
            again = msgspec.to_builtins(Scene(place=place, adds=BETWEEN))
            ending = await nest.raise_child(play, again)
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        asked = [json.loads(line) for line in Path(place.folder, "asked").read_text().splitlines()]
        assert sorted({step for step, _ in asked}) == [0, 1, 2, 3]
        systems = {messages[0][1].partition("\n\nYour list of steps")[0] for _, messages in asked}
        assert len(systems) == 1, "a turn reads one memory"
        assert not any(fact in systems.copy().pop() for fact in FACTS)
        async with runtime_at(place) as rt:
            found = [(fact.text, fact.agent) for fact in await rt.memory.list(caller=ANN)]
            (turn,) = (await agent_at(rt, place, ANN).history("t")).turns
        assert sorted(found) == sorted(
            [(text, "") for text in (*FACTS, *((BETWEEN,) if is_killed else ()))] + [("I am quick.", "react")]
        ), f"after the kill at {number}"
        assert not [message.content for message in turn.messages if message.failed]
        if not is_killed:
            break
    assert killed >= 10, killed


async def whole(place: Place) -> Place:
    """Two callers of whom the store has something of every kind."""
    await prepare(place, ANN, BOB)
    async with runtime_at(place) as rt:
        for caller in (ANN, BOB):
            agent = agent_at(rt, place, caller)
            await agent.run("Remember me.", thread="t", id="one")
            mine = rt.acting_for(caller)
            await mine.call("save", {"text": f"a file of {caller}"}, thread="plain", id="named")
            await mine.put_artifact(f"another file of {caller}".encode())
            await rt.engine.store.put_document("agent.sent", f"{caller}/react/t/x", b'"digest"', None)
    return place


async def left(rt: Any, caller: str) -> list[str]:
    from clicket.ports import Query

    store = rt.engine.store
    found: list[Any] = [document for kind in KINDS for document in await store.documents(kind)]
    found += await store.history(Query(limit=1_000))
    return sorted(text for text in map(repr, found) if caller in text)


async def test_a_caller_is_forgotten_after_a_kill(nest: Nest, tmp_path: Path) -> None:
    made = await whole(place_in(tmp_path / "made"))
    async with runtime_at(made) as rt:
        theirs = await left(rt, BOB)
    killed = 0
    for number in count(1):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "made", folder)
        place = place_in(folder)
        first = Scene(place=place, death=Death(at=number, side="after"))
        ending = await nest.raise_child(forget, msgspec.to_builtins(first))
        is_killed = ending.signal == signal.SIGKILL
        killed += is_killed
        if is_killed:
            ending = await nest.raise_child(forget, msgspec.to_builtins(Scene(place=place)))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        async with runtime_at(place) as rt:
            assert await left(rt, ANN) == [], f"after the kill at {number}"
            assert await left(rt, BOB) == theirs, f"after the kill at {number}"
            audited = [each for each in await rt.audit.list() if each.what == "caller.forgotten"]
            assert audited
            if number % 5 == 1:  # the caller begins anew
                await rt.memory.add(OLD, caller=ANN)
                result = await agent_at(rt, place, ANN).run("Remember me.", thread="t", id="one")
                assert (result.turn, result.text) == (1, "done")
        if not is_killed:
            break
    assert killed >= 10, killed
