"""Maintenance commands: recover, cache, gc, and the owners in ps and doctor; over every kind of store."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.redis_server import redis_server
from tests.scenarios import worker_tools
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.worker_tools import TOOLS

from clicket import Settings
from clicket.cli.formatting import parse_size, shown_url
from clicket.errors import UsageError
from clicket.sync import Runtime

ALL = [worker_tools.quick, worker_tools.look, worker_tools.pay, worker_tools.double]
SECRET = "hunter2"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, sqlite_url(tmp_path), TOOLS, CLICKET_CANCEL_GRACE="0.2", CLICKET_CLOSE_TIMEOUT="60")
    yield place
    place.close()


def submit(place: Place, *calls: tuple[str, str, dict[str, Any]]) -> None:
    """Submit calls by id, tool and arguments, for a worker."""
    with Runtime(ALL, engine="workers", settings=Settings(store=place.store)) as runtime:
        for id, tool, arguments in calls:
            runtime.submit(tool, arguments, id=id)


def held(place: Place) -> dict[str, str]:
    return {"log": str(place.folder / "log"), "gate": str(place.folder / "gate")}


def written(place: Place) -> list[str]:
    path = place.folder / "log"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def states(place: Place) -> dict[str, str]:
    return {call["id"]: call["state"] for call in place.ask("ps", "--all")["calls"]}


def crash(place: Place) -> None:
    """A worker dies in the middle of two calls: one repeatable, one not."""
    submit(place, ("again", "look", held(place)), ("once", "pay", held(place)))
    worker = place.worker()
    worker.until(lambda: written(place) == ["look", "pay"])
    worker.kill()


class TestOwnersThatAreGone:
    def test_ps_show_and_doctor_say_so_and_touch_nothing(self, place: Place) -> None:
        submit(place, ("alive", "look", held(place)))
        worker = place.worker()
        worker.until(lambda: written(place) == ["look"])
        [listed] = place.ask("ps")["calls"]
        assert not listed["owner_gone"]
        assert not place.ask("show", "alive")["owner_gone"]
        owners = {check["name"]: check for check in place.ask("doctor")["checks"]}["owners"]
        assert owners["verdict"] == "ok"
        assert "1 alive" in owners["found"]

        worker.kill()
        [listed] = place.ask("ps")["calls"]
        assert (listed["state"], listed["owner_gone"]) == ("running", True)
        table = place.inside("ps")
        assert "running (owner gone)" in table.stdout
        assert "clicket recover" in table.stderr
        assert place.ask("show", "ali")["owner_gone"]
        assert "its owner is dead" in place.inside("show", "alive").stderr
        owners = {check["name"]: check for check in place.ask("doctor")["checks"]}["owners"]
        assert owners["verdict"] == "warn"
        assert "0 alive, 1 dead; 1 calls have a dead owner, of look" in owners["found"]
        assert "clicket recover" in owners["advice"]
        assert states(place) == {"alive": "running"}

    def test_recover_settles_and_sees_through(self, place: Place) -> None:
        crash(place)
        place.touch("gate")
        report = place.json("recover")
        assert report["total"] == 2
        assert (report["rerun"], report["unknown"], report["handed_back"]) == (1, 1, 0)
        assert report["ended"] == {"completed": 1, "failed": 1}
        assert report["unknown_calls"] == [{"id": "once", "thread": "default", "tool": "pay", "attempts": 1}]
        assert states(place) == {"again": "completed", "once": "failed"}
        assert written(place) == ["look", "look", "pay"]
        again = place.inside("recover")
        assert (again.returncode, again.stdout.split(":")[0]) == (0, "nothing to recover")

    def test_recover_prints_text(self, place: Place) -> None:
        crash(place)
        place.touch("gate")
        done = place.inside("recover")
        assert done.returncode == 0
        assert "took over 2 calls" in done.stdout
        assert "outcome_unknown  once  pay  thread default" in done.stdout
        assert "1 completed, 1 failed" in done.stdout

    def test_recover_without_waiting_runs_nothing_here(self, place: Place) -> None:
        crash(place)
        report = place.ask("recover", "--no-wait")
        assert (report["rerun"], report["unknown"], report["handed_back"]) == (1, 1, 1)
        assert states(place) == {"again": "retrying", "once": "failed"}
        assert written(place) == ["look", "pay"]
        assert not any(call["owner_gone"] for call in place.ask("ps", "--all")["calls"])
        waiting = place.inside("recover", "--no-wait")
        assert "1 calls wait for a worker" in waiting.stderr
        place.touch("gate")
        worker = place.worker()
        worker.wait_for("ended", id="again", state="completed")

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupted_recover_hands_back(self, place: Place, number: int) -> None:
        crash(place)
        recover = place.start("--json", "recover", CLICKET_CLOSE_TIMEOUT="0.2")
        recover.until(lambda: written(place) == ["look", "look", "pay"])
        recover.signal(number)
        assert recover.ended() == 130
        report = json.loads(recover.out)
        assert (report["rerun"], report["handed_back"], report["without_tool"]) == (1, 1, {})
        assert states(place) == {"again": "retrying", "once": "failed"}

    def test_calls_of_other_tools_are_left_alone_and_named(self, place: Place) -> None:
        crash(place)
        place.touch("gate")
        report = place.ask("recover", "--tools", f"{TOOLS}:look")
        assert (report["rerun"], report["unknown"], report["without_tool"]) == (1, 0, {"pay": 1})
        done = place.inside("recover", "--tools", f"{TOOLS}:look")
        assert "pay (1)" in done.stderr
        assert states(place) == {"again": "completed", "once": "running"}

    def test_nothing_there_is_no_error_and_no_store_is_made(self, place: Place) -> None:
        assert place.ask("recover")["total"] == 0
        assert place.ask("cache", "stats")["items"] == 0
        assert place.ask("cache", "clear") == {"removed": 0, "tag": None, "max_age": None}
        assert not (place.folder / "calls.db").exists()


class TestCache:
    def test_stats_and_clear(self, place: Place) -> None:
        for number in (1, 1, 2):
            assert place.inside("call", "double", f"number={number}").returncode == 0
        stats = place.ask("cache", "stats")
        assert (stats["items"], stats["hits"], stats["misses"], stats["evictions"]) == (2, 1, 2, 0)
        assert stats["hit_rate"] == pytest.approx(1 / 3)
        assert stats["max_bytes"] == 64 * 1024 * 1024
        output = place.inside("cache", "stats").stdout
        assert "33.3%" in output
        assert "of 64.0 MiB" in output
        listed = place.ask("cache", "list")
        assert {item["tool"] for item in listed["items"]} == {"double"}
        assert len(place.ask("cache", "list", "--limit", "1")["items"]) == 1
        assert "double" in place.inside("cache", "list").stdout
        assert place.ask("cache", "clear", "--max-age", "1h")["removed"] == 0
        assert place.ask("cache", "clear", "--tag", "tool:other")["removed"] == 0
        assert place.ask("cache", "--store", place.store, "clear", "--tag", "tool:double")["removed"] == 2
        assert "removed 0 cached results" in place.inside("cache", "clear").stdout
        assert place.ask("cache", "stats")["items"] == 0

    def test_help(self, place: Place) -> None:
        assert "stats" in place.inside("cache", "--help").stdout
        assert place.inside("cache").returncode == 2
        assert place.inside("cache", "nonsense").returncode == 2


def fill(place: Place, *threads: str, **options: Any) -> None:
    """A call in each thread, in turn: call-0, call-1, …"""
    with Runtime(ALL, settings=Settings(store=place.store)) as runtime:
        for number, thread in enumerate(threads):
            runtime.call("double", {"number": number}, id=f"call-{number}", thread=thread, **options)


class TestGc:
    def test_bounds(self, place: Place) -> None:
        fill(place, *"aaaabb")
        for bound, left in (
            (("--keep-thread-calls", "3"), {1, 2, 3, 4, 5}),
            (("--keep-calls", "3"), {3, 4, 5}),
            (("--keep-thread-bytes", "0"), set()),
        ):
            before = states(place)
            counted = place.ask("gc", *bound, "--dry-run")
            assert states(place) == before
            swept = place.ask("gc", *bound)
            assert counted["calls"] == swept["calls"] == len(before) - len(left)
            assert counted["bytes"] == swept["bytes"] > 0
            assert set(states(place)) == {f"call-{number}" for number in left}

    def test_settings_are_the_bounds_unless_others_are_given(self, place: Place) -> None:
        fill(place, *"aaaa")
        given = {"CLICKET_RETENTION_CALLS": "3", "CLICKET_RETENTION": "600"}
        assert place.ask("gc", "--dry-run", **given)["calls"] == 1
        assert place.ask("gc", "--dry-run", "--keep-calls", "1", **given)["calls"] == 3
        done = place.inside("gc", "--keep-bytes", "1GB", **given)
        summary = "removed 1 calls that ended more than 10 min 0 s ago or exceed 3 calls in all, 953.7 MiB in all"
        assert summary in done.stdout

    def test_calls_under_way_are_kept(self, place: Place) -> None:
        submit(place, ("waits", "pay", held(place)))
        assert place.ask("gc", "--keep-calls", "0", "--older-than", "0")["calls"] == 0
        assert states(place) == {"waits": "pending"}

    def test_compact_gives_space_back(self, place: Place) -> None:
        fill(place, *"a" * 300, metadata={"ballast": "x" * 2000})
        done = place.ask("gc", "--older-than", "0", "--compact", CLICKET_OUTCOME_RETENTION="0")
        assert done["calls"] == 300
        assert done["compacted"] > 100_000
        assert (place.folder / "calls.db").stat().st_size < 300_000  # an empty one, whose tables have a page each
        assert place.inside("call", "double", "number=1").stdout == "2\n"

    def test_wrong_bounds(self, place: Place) -> None:
        for bound in (("--keep-bytes", "much"), ("--keep-calls", "-1"), ("--keep-thread-bytes", "-5")):
            assert place.inside("gc", *bound).returncode == 2


@pytest.fixture(scope="module", params=["redis", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A URL with a password, of a server that requires one or accepts any."""
    if request.param == "redis":
        with redis_server(tmp_path_factory.mktemp("redis")) as redis:
            assert redis.ask("CONFIG", "SET", "requirepass", SECRET) == "+OK"
            yield f"redis://:{SECRET}@127.0.0.1:{redis.port}/0"
    else:
        from tests.postgres_server import postgres_server

        with postgres_server() as postgres:
            yield postgres.url(password=SECRET)


class TestServers:
    def test_every_command_and_no_password(self, tmp_path: Path, server: str) -> None:
        place = Place(tmp_path, server, TOOLS, CLICKET_CLOSE_TIMEOUT="60")
        output = ""

        def run(*arguments: str, code: int = 0) -> str:
            nonlocal output
            done = (place.run if "first-call" in arguments[3:] else place.inside)(*arguments)
            output += done.stdout + done.stderr
            assert done.returncode == code, done.stdout + done.stderr
            return done.stdout

        try:
            assert run("call", "double", "number=4", "--id", "first-call") == "8\n"
            assert run("call", "double", "number=4") == "8\n"
            assert json.loads(run("cache", "stats", "--json"))["hits"] == 1
            assert "first-call" in run("ps", "--all")
            assert json.loads(run("show", "first", "--json"))["output"] == 8
            run("show", "nothing", code=2)
            run("tail", "first-call")
            run("cancel", "first-call", code=1)
            crash(place)
            assert "(owner gone)" in run("ps")
            checks = json.loads(run("doctor", "--json"))["checks"]
            assert {check["name"]: check["verdict"] for check in checks}["owners"] == "warn"
            place.touch("gate")
            report = json.loads(run("recover", "--json"))
            assert (report["rerun"], report["unknown"]) == (1, 1)
            assert [call["id"] for call in report["unknown_calls"]] == ["once"]
            submit(place, ("later", "quick", {"log": str(tmp_path / "log"), "name": "later"}))
            worker = place.worker()
            worker.wait_for("ended", id="later", state="completed")
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
            output += worker.out + worker.err
            assert (
                run("cache", "clear", "--tag", "tool:double") == "removed 1 cached results with the tag tool:double.\n"
            )
            counted = json.loads(run("gc", "--older-than", "0", "--dry-run", "--json"))
            swept = json.loads(run("gc", "--older-than", "0", "--compact", "--json"))
            assert counted["calls"] == swept["calls"] == 5
            assert json.loads(run("ps", "--all", "--json"))["calls"] == []
            run("gc", "--compact")
            assert "***" in run("config")
        finally:
            place.close()
        assert SECRET not in output

    @pytest.mark.parametrize("scheme", ["redis", "postgresql"])
    def test_server_that_is_not_there_is_3(self, tmp_path: Path, scheme: str) -> None:
        store = f"{scheme}://me:{SECRET}@127.0.0.1:1/0"  # nothing listens on port 1
        place = Place(tmp_path, store, TOOLS, CLICKET_STORE_TIMEOUT="0.3", CLICKET_OPEN_TIMEOUT="0.1")
        for command in (["ps"], ["--json", "cache", "stats"], ["worker"], ["recover"], ["call", "double"], ["doctor"]):
            done = place.inside(*command)
            assert done.returncode == 3, done.stdout + done.stderr
            assert SECRET not in done.stdout + done.stderr
            assert "Traceback" not in done.stderr
            assert "127.0.0.1" in done.stdout + done.stderr

    @pytest.mark.parametrize(("package", "extra"), [("redis", "redis"), ("psycopg", "postgres")])
    def test_missing_client_is_named_with_what_brings_it(
        self, tmp_path: Path, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scheme = "redis" if package == "redis" else "postgresql"
        place = Place(tmp_path, f"{scheme}://127.0.0.1:1/0", TOOLS)
        store = f"clicket.stores.{extra}"
        for name in [name for name in sys.modules if f"{name}.".startswith((f"{package}.", f"{store}."))]:
            monkeypatch.delitem(sys.modules, name)  # as in a process that has not imported them yet
        monkeypatch.setitem(sys.modules, package, None)
        for command, exit_code in (["doctor"], 1), (["ps"], 2):
            done = place.inside(*command)
            assert done.returncode == exit_code, done.stdout + done.stderr
            assert f"pip install 'clicket[{extra}]'" in " ".join((done.stdout + done.stderr).split())


class TestWords:
    def test_config_shows_every_setting_and_no_password(self, place: Place) -> None:
        (place.folder / "clicket.toml").write_text("[cache_ttl]\nweather = 60\n")
        given = {"CLICKET_STORE": f"postgresql://me:{SECRET}@db/x", "CLICKET_ENGINE": "workers"}
        settings = place.ask("config", **given)
        new = {"engine", "cache", "cache_scope", "cache_max_bytes", "cache_ttl", "store_timeout", "retention_calls"}
        new |= {"retention_bytes", "thread_retention_calls", "thread_retention_bytes"}
        assert new <= settings.keys()
        assert settings["store"] == {"value": "postgresql://me:***@db/x", "origin": "CLICKET_STORE"}
        output = place.inside("config", **given).stdout
        assert "weather=60" in output
        assert SECRET not in output

    def test_wrong_scheme_shows_no_password_either(self, place: Place) -> None:
        done = place.inside("ps", "--store", f"postgre://me:{SECRET}@db/x")
        assert done.returncode == 2
        assert SECRET not in done.stderr

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("redis://:pw@host:6379/0", "redis://:***@host:6379/0"),
            ("redis://me@host/0", "redis://me@host/0"),
            ("redis://host?password=pw&db=1", "redis://host?password=***&db=1"),
            ("postgresql://me:p/w@x@host/db?sslpassword=pw", "postgresql://me:***@host/db?sslpassword=***"),
            ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
            ("cannot reach redis://u:pw@h:1/0 now", "cannot reach redis://u:***@h:1/0 now"),
        ],
    )
    def test_urls_are_shown_without_secrets(self, url: str, shown: str) -> None:
        assert shown_url(url) == shown

    def test_sizes_are_read(self) -> None:
        sizes = [parse_size(text) for text in ("0", "10", "1k", "1 KiB", "1.5MB", "2GiB")]
        assert sizes == [0, 10, 1000, 1024, 1_500_000, 2 * 1024**3]
        for text in ("", "much", "-1", "1x", "1ib2"):
            with pytest.raises(UsageError, match="is not a size"):
                parse_size(text)
