"""Submitted in one process, run by a worker in another, controlled from a third; real signals stop workers, gracefully
or at once."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import is_running
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios import worker_tools
from tests.scenarios.cli_kit import PROGRAM, Place
from tests.scenarios.kit import assert_sound, sqlite_url
from tests.scenarios.worker_tools import TOOLS

from clicket import Policy, Record, Runtime, Settings, State

ALL = [
    worker_tools.quick, worker_tools.look, worker_tools.pay, worker_tools.tree, worker_tools.stuck, worker_tools.told,
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, sqlite_url(tmp_path), TOOLS, CLICKET_CANCEL_GRACE="0.2", CLICKET_CLOSE_TIMEOUT="60")
    yield place
    place.close()


def submitter(place: Place, policy: Policy | None = None) -> Runtime:
    """A process that makes calls and runs none: this one."""
    return Runtime(ALL, engine="workers", policy=policy, settings=Settings(store=place.store))


async def submit(place: Place, *calls: tuple[str, str, dict[str, Any]]) -> None:
    """Calls by id, tool and arguments; the submitter has closed when this returns."""
    async with submitter(place) as runtime:
        for id, tool, arguments in calls:
            await runtime.submit(tool, arguments, id=id)


async def record_of(place: Place, id: str) -> Record:
    async with Runtime((), settings=Settings(store=place.store)) as watcher:
        record = await watcher.get(id)
    assert_sound(record)
    return record


def written(place: Place, name: str = "log") -> list[str]:
    path = place.folder / name
    return path.read_text().splitlines() if path.exists() else []


def held(place: Place, gate: str = "gate") -> dict[str, str]:
    return {"log": str(place.folder / "log"), "gate": str(place.folder / gate)}


class TestManyProcesses:
    async def test_submitted_here_run_there_watched_from_a_third(self, place: Place) -> None:
        async with submitter(place) as runtime:
            handle = await runtime.submit("look", held(place), id="watched")
            assert await runtime.state("watched") is State.PENDING
            worker = place.worker()
            worker.wait_for("started", id="watched", tool="look", attempt=1)
            tail = place.start("--json", "tail", "watched")
            tail.until(lambda: any(event["type"] == "attempt_started" for event in tail.lines))
            place.touch("gate")
            result = await handle.result()
        assert (result.output, result.attempts) == ("seen", 1)
        assert tail.ended() == 0
        assert [event["seq"] for event in tail.lines] == list(range(1, len(tail.lines) + 1))
        assert worker.wait_for("ended", id="watched")["state"] == "completed"
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert worker.lines[-1].items() >= {"event": "stopped", "started": 1, "ended": 1}.items()
        assert written(place) == ["look"]

    async def test_cancelled_from_a_third(self, place: Place) -> None:
        await submit(place, ("mine", "pay", held(place)))
        worker = place.worker()
        worker.wait_for("started", id="mine")
        done = place.json("cancel", "mine", "--wait", "60s", "--reason", "changed my mind")
        assert done["cancelled"]
        ended = worker.wait_for("ended", id="mine")
        assert (ended["state"], ended["error"]) == ("cancelled", "cancelled")

    async def test_cancelled_while_no_process_owns_it(self, place: Place) -> None:
        await submit(place, ("waits", "quick", {"log": str(place.folder / "log"), "name": "never"}))
        assert place.json("cancel", "waits", "--wait", "60s")["cancelled"]
        worker = place.worker()
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert written(place) == []

    async def test_interrupted_caller_takes_its_call_along_and_leaves_others_alone(self, place: Place) -> None:
        worker = place.worker()
        arguments = [f"{name}={value}" for name, value in held(place).items()]
        own = place.start("call", "look", *arguments, CLICKET_ENGINE="workers")
        id = worker.wait_for("started")["id"]
        own.signal(signal.SIGINT)
        assert own.ended() == 130
        assert (await record_of(place, id)).state is State.CANCELLED
        await submit(place, ("theirs", "look", held(place)))
        worker.wait_for("started", id="theirs")
        watching = place.start(
            "call", "look", *arguments, "--id", "theirs", "--json", "--stream", CLICKET_ENGINE="workers"
        )
        watching.until(lambda: any(event["type"] == "attempt_started" for event in watching.lines))
        watching.signal(signal.SIGINT)
        assert watching.ended() == 130
        place.touch("gate")
        worker.wait_for("ended", id="theirs", state="completed")

    async def test_approved_from_a_third(self, place: Place) -> None:
        async with submitter(place, Policy(ask=["told"])) as runtime:
            handle = await runtime.submit("told", {"text": "yes"}, id="asked")
            worker = place.worker()
            async with Runtime((), settings=Settings(store=place.store)) as third:
                assert (await third.get("asked")).waiting_for == "approval"
                assert await third.approve("asked", by="Ann")
            result = await handle.result()
        assert result.output == "yes in attempt 1"
        worker.wait_for("ended", id="asked", state="completed")

    async def test_cancel_from_elsewhere_ends_a_process_with_its_children(self, place: Place) -> None:
        await submit(place, ("tree", "tree", {"log": str(place.folder / "log")}))
        worker = place.worker()
        pids = [int(pid) for pid in worker.until(lambda: written(place))[0].split()]
        assert all(map(is_running, pids))
        assert place.json("cancel", "tree", "--wait", "60s")["cancelled"]
        await eventually(lambda: not any(map(is_running, pids)))


class TestDraining:
    async def test_running_call_that_may_be_repeated_is_handed_back(self, place: Place) -> None:
        await submit(place, ("long", "look", held(place)))
        first = place.worker(CLICKET_CLOSE_TIMEOUT="0.2")
        first.wait_for("started", id="long")
        first.signal(signal.SIGTERM)
        assert first.ended() == 0
        assert first.wait_for("draining", signal="SIGTERM")["running"] == ["long"]
        assert first.wait_for("handed_back", id="long")["state"] == "retrying"
        assert (await record_of(place, "long")).state is State.RETRYING
        [listed] = place.json("ps")["calls"]
        assert not listed["owner_gone"]
        assert "waiting for a worker" in place.run("ps").stdout
        place.touch("gate")
        second = place.worker()
        second.wait_for("started", id="long", attempt=2)
        second.wait_for("ended", id="long", state="completed")
        assert written(place) == ["look", "look"]

    async def test_running_call_that_may_not_is_unknown_after_the_bound(self, place: Place) -> None:
        await submit(place, ("paying", "pay", held(place)))
        worker = place.worker(CLICKET_CLOSE_TIMEOUT="0.2")
        worker.wait_for("started", id="paying")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        record = await record_of(place, "paying")
        assert record.state is State.FAILED
        assert record.error is not None
        assert record.error.code == "outcome_unknown"
        place.touch("gate")
        again = place.worker()
        again.signal(signal.SIGTERM)
        assert again.ended() == 0
        assert written(place) == ["pay"]

    async def test_running_call_that_finishes_in_time_is_completed(self, place: Place) -> None:
        await submit(place, ("paying", "pay", held(place)))
        worker = place.worker()
        worker.wait_for("started", id="paying")
        worker.signal(signal.SIGTERM)
        worker.wait_for("draining")
        await submit(place, ("late", "quick", {"log": str(place.folder / "log"), "name": "late"}))
        place.touch("gate")
        assert worker.ended() == 0
        record = await record_of(place, "paying")
        assert (record.state, record.output) == (State.COMPLETED, "paid")
        assert (await record_of(place, "late")).state is State.PENDING  # no new claims
        assert written(place) == ["pay"]

    async def test_what_waits_keeps_waiting_and_nothing_is_lost(self, place: Place) -> None:
        log = str(place.folder / "log")
        names = [f"call-{number}" for number in range(20)]
        await submit(place, ("first", "pay", held(place)), *((n, "quick", {"log": log, "name": n}) for n in names))
        first = place.worker("--concurrency", "1", CLICKET_CLOSE_TIMEOUT="0.2")
        first.wait_for("started", id="first")
        first.signal(signal.SIGINT)
        assert first.ended() == 130
        assert {call["id"] for call in place.json("ps")["calls"]} == set(names)
        second = place.worker("--concurrency", "3")
        second.until(lambda: sum(event["event"] == "ended" for event in second.lines) == len(names))
        second.signal(signal.SIGTERM)
        assert second.ended() == 0
        assert sorted(written(place)) == sorted(["pay", *names])

    async def test_second_signal_ends_at_once_and_the_store_is_whole(self, place: Place) -> None:
        log = str(place.folder / "log")
        await submit(
            place,
            ("again", "look", held(place)),
            ("once", "pay", held(place)),
            ("tree", "tree", {"log": f"{log}.pids"}),
        )
        worker = place.worker()
        [pids] = worker.until(lambda: len(written(place)) == 2 and written(place, "log.pids"))
        worker.signal(signal.SIGTERM)
        assert set(worker.wait_for("draining")["running"]) == {"again", "once", "tree"}
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 128 + signal.SIGTERM
        await eventually(lambda: not any(is_running(int(pid)) for pid in pids.split()), timeout=PATIENCE)
        assert "stopped" not in [event["event"] for event in worker.lines]
        listed = {call["id"]: call["owner_gone"] for call in place.json("ps")["calls"]}
        assert listed == {"again": True, "once": True, "tree": True}
        place.touch("gate")
        second = place.worker()
        assert second.wait_for("recovered").items() >= {"rerun": 1, "unknown": 2}.items()
        second.wait_for("ended", id="again", state="completed")
        codes = {id: (await record_of(place, id)).error for id in ("once", "tree")}
        assert {id: error.code if error else None for id, error in codes.items()} == {
            "once": "outcome_unknown", "tree": "outcome_unknown",
        }  # fmt: skip
        assert sorted(written(place)) == ["look", "look", "pay"]

    async def test_second_signal_is_heard_while_a_tool_holds_the_loop_up(self, place: Place) -> None:
        await submit(place, ("stuck", "stuck", {"log": str(place.folder / "log")}))
        worker = place.worker()
        worker.until(lambda: written(place) == ["stuck"])
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)  # two different ones: the kernel would merge two equal ones
        assert worker.ended() in (128 + signal.SIGINT, 128 + signal.SIGTERM)


class TestWords:
    async def test_reader_that_leaves_does_not_end_the_work(self, place: Place) -> None:
        log = str(place.folder / "log")
        worker = subprocess.Popen(
            [*PROGRAM, "--json", "worker"], cwd=place.folder, env=place.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert worker.stdout is not None
            assert worker.stderr is not None
            assert b"ready" in worker.stdout.readline()
            worker.stdout.close()
            worker.stderr.close()
            await submit(place, *((name, "quick", {"log": log, "name": name}) for name in ("one", "two")))
            await eventually(lambda: sorted(written(place)) == ["one", "two"])
            worker.terminate()
            assert worker.wait(PATIENCE) == 0
        finally:
            worker.kill()
            worker.wait()
        assert (await record_of(place, "two")).state is State.COMPLETED

    async def test_people_read_what_it_does(self, place: Place) -> None:
        log = str(place.folder / "log")
        await submit(place, ("one", "quick", {"log": log, "name": "x"}), ("two", "pay", held(place)))
        worker = place.start("worker", "-c", "7")
        worker.until(
            lambda: "one  quick" in worker.err and "completed" in worker.err and written(place) == ["x", "pay"]
        )
        worker.signal(signal.SIGTERM)
        worker.until(lambda: "SIGTERM: no new calls; 1 running: " in worker.err)
        place.touch("gate")
        assert worker.ended() == 0
        for text in (
            place.store,
            "durability process, 7 calls at once",
            "tools: quick, look, pay",
            "two  pay",
            "stopped",
        ):
            assert text in worker.err
        assert worker.out == ""

    async def test_quiet_says_nothing_of_calls(self, place: Place) -> None:
        await submit(place, ("one", "quick", {"log": str(place.folder / "log"), "name": "x"}))
        worker = place.start("worker", "-q")
        worker.until(lambda: written(place) == ["x"])
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        assert "durability process" in worker.err
        assert "one  quick" not in worker.err

    def test_wrong_use(self, place: Place) -> None:
        for arguments, code, says in (
            (["--store", "memory://"], 2, "store in memory"),
            (["--tools", "nothing_here"], 2, "there is no module"),
            (["--concurrency", "0"], 2, "Invalid value"),
            (["--store", "sqlite:////proc/none/calls.db"], 3, "/proc/none"),
        ):
            done = place.run("worker", *arguments)
            assert done.returncode == code, done.stderr
            assert says in done.stderr
            assert "Traceback" not in done.stderr
        [error] = place.run("--json", "worker", "--store", "memory://").stdout.splitlines()
        assert json.loads(error)["error"]["code"] == "usage"
