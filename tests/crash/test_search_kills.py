"""A search that is killed at any checkpoint resumes there: same bytes at the end, and no finished query is repeated."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.search_scene import CALL, QUESTION, Death, live, searches, tool_at
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound

from clicket import Record, Runtime, Settings, State
from clicket.errors import NotFound


async def undisturbed(folder: Path) -> tuple[bytes, list[str], dict[str, bool]]:
    """The output, the searches, and the keys of the checkpoints in order, with whether each is an artifact."""
    folder.mkdir()
    async with Runtime([tool_at(folder)], settings=Settings(store="memory://")) as rt:
        result = await rt.call("deep_search", {"query": QUESTION})
        assert result.state is State.COMPLETED, result.error
        record = await rt.get(result.call_id)
    return (
        msgspec.json.encode(result.output),
        searches(folder),
        {note["key"]: "artifact" in note for note in notes(record)},
    )


def notes(record: Record) -> list[dict[str, Any]]:
    return [e.data for e in record.events if e.type == "note" and e.data.get("reason") == "checkpoint"]


async def finished(place: Place) -> list[str]:
    """The queries of the stored searches, read by a runtime without the tool."""
    async with Runtime([], settings=place.settings()) as rt:
        try:
            record = await rt.get(CALL)
        except NotFound:
            return []
        kept = [note for note in notes(record) if note["key"].startswith("search:")]
        texts = [note.get("content") or await rt.artifact(note["artifact"]) for note in kept]
    return [msgspec.json.decode(text)["query"] for text in texts]


async def killed(place: Place, nest: Nest, deaths: Sequence[Death]) -> None:
    for death in deaths:
        before, done = len(searches(Path(place.folder))), await finished(place) if death is not deaths[0] else []
        life = {"place": msgspec.to_builtins(place), "death": msgspec.to_builtins(death)}
        ending = await nest.raise_child(live, life)
        assert ending.signal == signal.SIGKILL, f"{death}: {ending}"
        assert not ending.hung
        assert not set(searches(Path(place.folder))[before:]) & set(done), death


async def resumed(place: Place) -> tuple[bytes, Record]:
    """The result after a runtime with the tool resumes the call; no finished search runs again."""
    folder = Path(place.folder)
    done, before = await finished(place), len(searches(folder))
    async with Runtime([tool_at(folder)], settings=place.settings()) as rt:
        await rt.recover()
        handle = await rt.submit("deep_search", {"query": QUESTION}, id=CALL)  # the same call, if it exists
        result = await asyncio.wait_for(handle.result(), PATIENCE)
        record = await rt.get(CALL)
    assert result.state is State.COMPLETED, result.error
    again = searches(folder)[before:]
    assert not set(again) & set(done)
    assert_sound(record)
    return msgspec.json.encode(result.output), record


def points(row: Row, kept: Mapping[str, bool]) -> list[Death]:
    """All checkpoints on one store; on the others the first search, a half-stored one, and the last stage."""
    numbers = range(1, len(kept) + 1)
    halves = [Death(at=at, when="half") for at, is_artifact in zip(numbers, kept.values(), strict=True) if is_artifact]
    assert halves, "some checkpoints are artifacts"
    if row.name == "sqlite":
        return [*halves, *(Death(at=at, when=when) for at in numbers for when in ("before", "after"))]
    return [Death(at=2, when="after"), halves[-1], Death(at=len(kept), when="after")]


@pytest.mark.parametrize("served", ["sqlite", "redis", "postgres"], indirect=True)
async def test_killed_at_every_checkpoint(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    row, fresh = served
    output, asked, kept = await undisturbed(tmp_path / "undisturbed")
    keys = list(kept)
    assert keys[0] == "plan:1"
    assert keys[-1] == "synthesis"
    assert "search:2:0" in keys, "a search of one round would test little"
    assert len(asked) == len(set(asked)) >= 4
    for number, death in enumerate(points(row, kept)):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Place(store=fresh(folder), folder=str(folder))
        await killed(place, nest, [death])
        same, record = await resumed(place)
        assert same == output, str(death)
        assert len(record.attempts) == 2
        everything = searches(folder)
        assert set(everything) == set(asked)
        # Only queries of the round that were running and not stored are repeated.
        assert len(everything) - len(asked) <= 5


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_again_and_again(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    _, fresh = served
    output, _, kept = await undisturbed(tmp_path / "undisturbed")
    place = Place(store=fresh(tmp_path), folder=str(tmp_path))
    await killed(place, nest, [Death(at=2, when="after"), Death(at=2, when="half"), Death(at=3, when="after")])
    same, record = await resumed(place)
    assert same == output
    assert len(record.attempts) == 4
    assert len({note["key"] for note in notes(record)}) == len(kept)


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_killed_at_any_instant(served: tuple[Row, Fresh], nest: Nest, tmp_path: Path) -> None:
    _, fresh = served
    output, asked, _ = await undisturbed(tmp_path / "undisturbed")
    chance = random.Random(7)
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = Place(store=fresh(folder), folder=str(folder))
        life = {"place": msgspec.to_builtins(place), "death": {"at": 0, "when": "after"}}
        instant = (chance.uniform(0.0, 0.12), int(signal.SIGKILL))
        ending = await nest.raise_child(live, life, signals=[instant], ready=True)
        assert not ending.hung
        assert ending.code == 0
        same, _ = await resumed(place)
        assert same == output
        assert set(searches(folder)) == set(asked)
