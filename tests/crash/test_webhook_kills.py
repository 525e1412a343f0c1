"""A kill after each commit and each request of a delivery: no notice is lost, and none is sent under two ids."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.stores import Fresh, Row
from tests.crash.webhook_scene import Line, decide, deliver_all, finish_lines, linked, live, open_runtime, press

from clicket.telemetry.webhooks.outbox import LEASE
from clicket.telemetry.webhooks.sender import HttpSender


async def facts_after(place: Place) -> set[tuple[str, str]]:
    """Let a second process finish what the first one left; the facts that the store has then."""
    finish_lines(place)
    async with open_runtime(place) as rt:
        webhooks = rt.engine.webhooks
        assert webhooks is not None
        webhooks.outbox._now = lambda: time.time() + 10 * LEASE  # the claims of the dead process have ended
        await rt.recover()
        await webhooks.follow()
        await deliver_all(rt)
        facts: set[tuple[str, str]] = set()
        for record in (await rt.history()).items:
            facts |= {
                ("approval.requested", record.id) for event in record.events if event.type == "approval_requested"
            }
            if record.state.is_terminal:
                facts.add(("call.ended", record.id))
            if record.error is not None and record.error.code == "outcome_unknown":
                facts.add(("call.unknown", record.id))
        if (await rt.hub("t1").status("pay")).status == "maintenance":
            facts.add(("tool.health", "maintenance"))
        facts |= {("worker.lost", worker.id) for worker in await rt.workers.list() if worker.state == "lost"}
    return facts


async def check(nest: Nest, place: Place, at: int) -> bool:
    """False: the child ended before its kill."""
    Path(place.folder).mkdir()
    ending = await nest.raise_child(live, {"place": msgspec.to_builtins(place), "at": at})
    assert not ending.hung
    assert ending.code == 0
    facts = await facts_after(place)
    ids: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for line in place.lines("received", Line):
        ids[line.endpoint, line.type, line.about].add(line.id)
    assert set(ids) == {(endpoint, *fact) for endpoint in ("first", "second") for fact in facts}, f"after commit {at}"
    assert all(len(each) == 1 for each in ids.values()), f"two ids after commit {at}: {ids}"
    return ending.signal != 0


async def check_all(nest: Nest, served: tuple[Row, Fresh], folder: Path, step: int) -> int:
    row, fresh = served
    at = 1
    while True:
        own = folder / str(at)
        place = Place(store=fresh(own), folder=str(own), durability=row.durability)
        if not await check(nest, place, at):
            return at
        at += step


@pytest.fixture(autouse=True)
def _sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpSender, "send", HttpSender.send)  # set back afterwards


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_kills_after_some_commits(nest: Nest, served: tuple[Row, Fresh], tmp_path: Path) -> None:
    assert await check_all(nest, served, tmp_path, 7) > 30


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_kills_after_every_commit(nest: Nest, served: tuple[Row, Fresh], tmp_path: Path) -> None:
    assert await check_all(nest, served, tmp_path, 1) > 30


@pytest.mark.parametrize("served", ["sqlite"], indirect=True)
async def test_kills_during_a_decision_by_a_link(nest: Nest, served: tuple[Row, Fresh], tmp_path: Path) -> None:
    """The decision is taken once, or can be taken again; a link that was used takes no other one."""
    row, fresh = served
    killed, answers = 0, set()
    for at in range(1, 20):
        own = tmp_path / str(at)
        own.mkdir()
        place = Place(store=fresh(own), folder=str(own), durability=row.durability)
        ending = await nest.raise_child(decide, {"place": msgspec.to_builtins(place), "at": at})
        assert not ending.hung
        token = (own / "link").read_text().splitlines()[0].strip('"')
        async with linked(place) as rt:
            if not ending.signal:
                assert await press(rt, token, "approve") == 410
                break
            killed += 1
            assert await press(rt, token, "deny") == 410
            answers.add(await press(rt, token, "approve"))
            result = await (await rt.handle("asked")).result()
            assert (result.state.value, result.output) == ("completed", "approved")
            record = await rt.get("asked")
            assert [event.data["approved"] for event in record.events if event.type == "approval_given"] == [True]
    assert killed >= 3
    assert answers == {200, 410}  # killed before the decision was in the call, and after
