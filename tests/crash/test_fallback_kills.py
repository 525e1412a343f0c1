"""A process is killed while the second of two models answers, or at any write: what failed is on record and counted once, the turn goes
on with a model that is not held, and its tool calls run once."""

from __future__ import annotations

import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.agent_scene import Death, effects
from tests.crash.fallback_scene import COST, Play, agent_at, play, runtime_at
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.crash.stores import Fresh, Row

from clicket import Runtime


def asked(place: Place) -> list[str]:
    return read_lines(Path(place.folder, "asked"), str)


async def entries_of(rt: Runtime) -> list[dict[str, Any]]:
    record = await rt.get("turn-1", thread="agent:a/t")
    return [event.data["entry"] for event in record.events if event.type == "note" and "entry" in event.data]


async def finished(scene: Play) -> list[dict[str, Any]]:
    """Bring the turn to its end, and check what holds however it was killed. Returns its entries."""
    rt = runtime_at(scene)
    agent = agent_at(rt, scene)  # before it opens: it continues the turn
    async with rt:
        if await agent.wait("t") is None and not (await agent.look("t")).turns:
            await agent.run("go", thread="t")
        (turn,) = (await agent.history("t")).turns
        book = rt.engine.book
        await book.sweep(1e9)
        found = [entry async for page in book.ledger.pages() for entry in page.entries.values()]
        accounts = [account async for _, account, _ in book.accounts.listed()]
        entries = await entries_of(rt)
        shown = [event.type async for event in agent.events("t")]
    assert (turn.text, turn.stopped) == ("done", "finished")
    assert {entry["model"] for entry in entries if entry["e"] == "reply"} == {"second"}
    ran = Counter(each.call for each in effects(Path(scene.place.folder)))
    assert len(ran) <= 2
    assert set(ran.values()) <= {1}
    # Each answer on record is counted with what it cost, for the model that gave it. Others may have been assumed.
    known = Counter(entry.name for entry in found if not entry.assumed)
    recorded = Counter(entry["spend"]["model"] for entry in entries if entry.get("spend"))
    assert known == recorded
    assert all(entry.all_tokens == COST[entry.name] for entry in found if not entry.assumed)
    total = sum(entry.all_tokens for entry in found)
    if scene.budget:
        given = Counter(asked(scene.place))
        assert total >= sum(COST[name] * times for name, times in given.items() if scene.declines or name == "second")
    assert [(account.used()[1], len(account.holds)) for account in accounts] == [(total, 0)] * scene.budget
    usage = sum(COST[model] * times for model, times in recorded.items())
    assert turn.usage.total == usage
    assert shown.count("fallback") == sum(entry["e"] == "tried" for entry in entries)
    return entries


@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
@pytest.mark.parametrize("answer", [1, 2, 3])
async def test_killed_while_the_second_model_answers(place: Place, nest: Nest, answer: int) -> None:
    scene = Play(place=place, budget=answer != 1, dies_at=answer)
    ending = await nest.raise_child(play, msgspec.to_builtins(scene))
    assert ending.signal == signal.SIGKILL
    entries = await finished(scene)
    # The first model is held: it was asked once, and not again after the crash.
    assert asked(place) == ["first", *["second"] * 4]
    assert [entry["e"] for entry in entries if entry["e"] in ("tried", "restart", "reply")] == [
        "tried", *["reply"] * (answer - 1), "restart", *["reply"] * (4 - answer)
    ]  # fmt: skip
    (tried,) = [entry for entry in entries if entry["e"] == "tried"]
    assert (tried["model"], tried["reason"], tried["next"], tried["step"]) == ("first", "unavailable", "second", 1)


@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_an_answer_that_was_not_used_before_the_kill_is_counted(place: Place, nest: Nest) -> None:
    """Without a budget the ledger is written some time later, so after the kill it is written from the record."""
    scene = Play(place=place, declines=True, budget=False, dies_at=1)
    ending = await nest.raise_child(play, msgspec.to_builtins(scene))
    assert ending.signal == signal.SIGKILL
    entries = await finished(scene)
    assert asked(place) == ["first", "second"] * 4
    assert [entry["e"] for entry in entries if entry["e"] in ("tried", "restart", "reply")] == [
        "tried", "restart", *["tried", "reply"] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
@pytest.mark.parametrize("declines", [False, True])
async def test_killed_at_each_write(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path, declines: bool) -> None:
    killed = 0
    for number in count(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Place(store=served[1](folder), folder=str(folder / "logs"))
        Path(place.folder).mkdir()
        scene = Play(place=place, declines=declines, death=Death(at=number, side="before" if number % 2 else "after"))
        ending = await nest.raise_child(play, msgspec.to_builtins(scene))
        try:
            await finished(scene)
        except AssertionError as error:
            raise AssertionError(f"killed {scene.death}, asked {asked(place)}") from error
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0)
            break
        killed += 1
    assert killed > 10
