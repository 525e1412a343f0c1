"""Worker processes for an operator: listed, drained, lost, stopped when idle, probed over HTTP."""

from __future__ import annotations

import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually_sync
from tests.scenarios import worker_tools
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.worker_tools import TOOLS

from clicket import Settings
from clicket.sync import Runtime

ALL = [worker_tools.quick, worker_tools.look, worker_tools.pay]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, sqlite_url(tmp_path), TOOLS, CLICKET_CLOSE_TIMEOUT="60", CLICKET_LEASE="0.9")
    yield place
    place.close()


def submit(place: Place, *calls: tuple[str, str]) -> None:
    arguments = {"log": str(place.folder / "log")}
    with Runtime(ALL, engine="workers", settings=Settings(store=place.store)) as runtime:
        for id, tool in calls:
            more = {"name": id} if tool == "quick" else {"gate": str(place.folder / "gate")}
            runtime.submit(tool, {**arguments, **more}, id=id)


def state_of(place: Place, id: str) -> str | None:
    return next((each["state"] for each in place.ask("workers")["items"] if each["id"] == id), None)


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:  # ours
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_worker_is_listed_drained_and_ends(place: Place) -> None:
    submit(place, ("held", "look"))
    worker = place.worker("--labels", "gpu,eu", "--concurrency", "3", "--health-port", "0")
    ready = worker.lines[0]
    worker.wait_for("started", id="held")
    (listed,) = place.ask("workers", "list")["items"]
    facts = {
        "id": ready["id"],
        "pid": worker.process.pid,
        "role": "worker",
        "state": "active",
        "labels": ["gpu", "eu"],
        "capacity": 3,
    }
    assert listed.items() >= facts.items()
    assert {"quick": "1", "look": "1"}.items() <= listed["tools"].items()
    shown = place.inside("workers").stdout
    assert ready["id"] in shown
    assert "gpu,eu" in shown
    port = ready["health_port"]
    assert get(port, "/livez")[0] == get(port, "/healthz")[0] == 200
    assert get(port, "/readyz") == (200, '{"ready": true, "reason": null}')
    status, page = get(port, "/metrics")
    assert status == 200
    assert "clicket_" in page
    assert get(port, "/calls")[0] == 404

    assert place.ask("workers", "drain", ready["id"][:-2])["items"][0]["state"] == "draining"
    eventually_sync(lambda: get(port, "/readyz")[0] == 503)
    submit(place, ("later", "quick"))
    assert worker.process.poll() is None, "its call still runs"
    place.touch("gate")
    assert worker.ended() == 0
    assert worker.lines[-1].items() >= {"event": "stopped", "started": 1, "ended": 1}.items()
    assert state_of(place, ready["id"]) is None
    with Runtime((), settings=Settings(store=place.store)) as runtime:
        assert runtime.get("held").attempts[0].worker == ready["id"]
        assert runtime.get("later").attempts == [], "a draining worker claims nothing new"


def test_a_killed_worker_is_listed_as_lost_and_its_call_runs_elsewhere(place: Place) -> None:
    submit(place, ("mine", "look"))
    first = place.worker()
    first.wait_for("started", id="mine")
    first.kill()
    lost = first.lines[0]["id"]
    second = place.worker()
    second.wait_for("started", id="mine", attempt=2)
    assert state_of(place, lost) == "lost"
    refused = place.inside("workers", "drain", lost, "--json")
    assert (refused.returncode, "is lost" in refused.stdout) == (2, True)
    place.touch("gate")
    second.wait_for("ended", id="mine", state="completed")
    shown = place.ask("show", "mine")
    assert [attempt["worker"] for attempt in shown["attempts"]] == [lost, second.lines[0]["id"]]
    (listed,) = place.ask("ps", "--all")["items"]
    assert (listed["worker"], listed["host"]) == (second.lines[0]["id"], shown["attempts"][1]["host"])
    checked = {check["name"]: check for check in place.ask("doctor")["checks"]}
    assert checked["workers"]["verdict"] == "warn"


def test_a_call_that_kills_its_workers_ends_among_the_dead(place: Place) -> None:
    submit(place, ("deadly", "look"))
    first = place.worker()
    first.wait_for("started", id="deadly")
    first.kill()
    second = place.worker(CLICKET_MAX_CLAIMS="1")
    assert second.wait_for("ended", id="deadly")["error"] == "outcome_unknown"
    (dead,) = place.ask("dead")["items"]
    assert (dead["id"], dead["worker"]) == ("deadly", first.lines[0]["id"])
    (again,) = place.ask("requeue", "deadly")["items"]
    second.wait_for("started", id=again["id"], attempt=1)
    place.touch("gate")
    second.wait_for("ended", id=again["id"], state="completed")


def test_a_burst_ends_when_nothing_waits(place: Place) -> None:
    submit(place, *((f"c{number}", "quick") for number in range(25)))
    worker = place.start("--json", "worker", "--burst", "--concurrency", "2")
    assert worker.ended() == 0, worker.err
    assert worker.lines[-1].items() >= {"event": "stopped", "started": 25, "ended": 25}.items()
    idle = place.start("--json", "worker", "--burst")
    assert idle.ended() == 0
    assert idle.lines[-1]["started"] == 0


def test_a_signal_during_a_drain_ends_it_in_order_and_progress_is_reported(place: Place) -> None:
    submit(place, ("one", "look"), ("two", "look"))
    worker = place.worker()
    worker.wait_for("started", id="one")
    worker.wait_for("started", id="two")
    worker.signal(signal.SIGTERM)
    worker.until(lambda: [line for line in worker.lines if line["event"] == "draining"])
    assert state_of(place, worker.lines[0]["id"]) in ("draining", "active")
    place.touch("gate")
    assert worker.ended() == 0
    assert [line["left"] for line in worker.lines if line["event"] == "draining" and "left" in line] == [1, 0]


def test_a_port_that_is_taken_is_an_error(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done: Any = place.inside("worker", "--health-port", str(taken.getsockname()[1]), "--burst")
    assert done.returncode == 2
    assert "--health-port" in done.stderr
