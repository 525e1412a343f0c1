"""Schedules and `not_before` over HTTP, in the client, the blocking runtime, the CLI and the metrics."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.server_kit import add, key_for, served

from clicket.client import Client
from clicket.errors import NotFound
from clicket.sync import Runtime as SyncRuntime
from clicket.telemetry.process_stats import collect
from clicket.telemetry.prometheus import exposition


async def test_over_http_each_key_has_its_own() -> None:
    async with served() as it:
        ann, bob = await key_for(it, "ann", "read", "call"), await key_for(it, "bob", "read", "call")
        reads, admin = await key_for(it, "eve", "read"), await key_for(it, "root", "admin")
        body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "tool": "add", "arguments": {"a": 1, "b": 2}}
        assert (await it.put("/schedules/nightly", json=body, headers=reads)).status_code == 403
        made = await it.put("/schedules/nightly", json=body, headers=ann)
        assert made.status_code == 200
        assert made.json()["overlap"] == "skip"
        again = await it.put("/schedules/nightly", json=body, headers=ann)
        assert again.json() == made.json()
        for method, path in (
            ("GET", ""), ("GET", "/next"), ("POST", "/pause"), ("POST", "/resume"), ("DELETE", ""),
        ):  # fmt: skip
            refused = await it.client.request(method, f"/schedules/nightly{path}", headers=bob)
            assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        assert (await it.get("/schedules", headers=bob)).json() == {"items": []}
        assert len((await it.get("/schedules", headers=admin)).json()["items"]) == 1
        times = (await it.get("/schedules/nightly/next", params={"count": 2}, headers=ann)).json()["times"]
        assert len(times) == 2
        paused = await it.post("/schedules/nightly/pause", headers=admin)
        assert (paused.json()["paused"], paused.json()["next_at"]) == (True, None)
        assert (await it.post("/schedules/nightly/resume", headers=ann)).json()["paused"] is False
        assert (await it.client.request("DELETE", "/schedules/nightly", headers=ann)).json()["removed"] is True
        assert (await it.get("/schedules/nightly", headers=ann)).status_code == 404
        for wrong, status in (
            ({"cron": "61 * * * *"}, 400), ({"timezone": "Nowhere"}, 400), ({"tool": "nope"}, 404), ({"overlap": "x"}, 422),
            ({"arguments": {"a": "x"}}, 422), ({"jitter": -1}, 422), ({"surprise": 1}, 422),
        ):  # fmt: skip
            refused = await it.put("/schedules/nightly", json={**body, **wrong}, headers=ann)
            assert refused.status_code == status, (wrong, refused.text)
        assert (await it.put("/schedules/a%40b", json=body, headers=ann)).status_code == 400


async def test_the_client_has_the_same_methods() -> None:
    async with served() as it, Client(it.url) as client:
        made = await client.schedule("hourly", "@hourly", "add", {"a": 1, "b": 2}, catch_up="all")
        assert [each.name for each in await client.schedules.list()] == ["hourly"]
        assert (
            (await client.schedules.get("hourly")).next_at == made.next_at == (await client.schedules.next("hourly"))[0]
        )
        assert (await client.schedules.pause("hourly")).paused
        assert not (await client.schedules.resume("hourly")).paused
        assert await client.schedules.remove("hourly")
        assert not await client.schedules.remove("hourly")
        with pytest.raises(NotFound):
            await client.schedules.get("hourly")
        handle = await client.submit("add", {"a": 1, "b": 2}, not_before=time.time() + 3600)
        record = await client.get(handle.id)
        assert record.waiting_for == "time"
        assert await handle.cancel()
        soon = await client.submit("add", {"a": 1, "b": 2}, not_before=time.time() + 0.1)
        assert (await soon.result()).output == 3
        wrong = await it.post("/calls", json={"tool": "add", "not_before": "tomorrow"})
        assert wrong.status_code == 422


def test_the_blocking_runtime_has_them_too(tmp_path: Path) -> None:
    with SyncRuntime([add], store=sqlite_url(tmp_path)) as rt:
        rt.schedule("hourly", "@hourly", "add", {"a": 1, "b": 2})
        assert [each.name for each in rt.schedules.list()] == ["hourly"]
        assert len(rt.schedules.next("hourly", 3)) == 3
        assert rt.schedules.pause("hourly").paused
        assert not rt.schedules.resume("hourly").paused
        assert rt.schedules.get("hourly").tool == "add"
        assert rt.schedules.put("hourly", "@daily", "add", {"a": 1, "b": 2}).cron == "@daily"
        assert rt.schedules.remove("hourly")
        assert rt.call("add", {"a": 1, "b": 2}, not_before=time.time() + 0.05).output == 3


async def test_lateness_is_in_the_metrics() -> None:
    async with served() as it:
        await it.runtime.call("add", {"a": 1, "b": 2}, not_before=time.time() + 0.05)
        figures, stats = await collect(it.runtime)
        page = exposition(figures, stats)[0].decode()
        assert "clicket_due_calls_total 1.0" in page
        assert "clicket_schedule_firings_total 0.0" in page
        assert "clicket_due_calls_late_seconds_total " in page


def test_commands(tmp_path: Path) -> None:
    place = Place(tmp_path, sqlite_url(tmp_path), "tests.scenarios.server_kit:TOOLS")

    def out(*arguments: str) -> str:
        done = place.inside(*arguments, COLUMNS="200")
        assert done.returncode == 0, done.stderr
        return done.stdout

    made = out("schedules", "add", "nightly", "30 2 * * *", "add", "a=1", "b=2", "--timezone", "Europe/Berlin")
    assert "nightly fires next at" in made
    listed = place.ask("schedules")["items"]
    assert [(each["name"], each["arguments"]) for each in listed] == [("nightly", {"a": 1, "b": 2})]
    assert "30 2 * * *" in out("schedules", "list")
    assert len(place.ask("schedules", "next", "nightly", "-n", "3")["times"]) == 3
    assert out("schedules", "next", "nightly").count(" 02:30+0") == 5
    assert "is paused" in out("schedules", "pause", "nightly")
    assert "paused" in out("schedules", "show", "nightly")
    assert "fires next" in out("schedules", "resume", "nightly")
    assert out("schedules", "remove", "nightly") == "nightly was removed.\n"
    assert place.inside("schedules", "remove", "nightly").returncode == 2
    submitted = place.ask("call", "add", "a=1", "b=2", "--not-before", "+1h", "--id", "later")
    assert submitted["id"] == "later"
    assert submitted["not_before"] > time.time() + 3500
    assert place.ask("show", "later")["waiting_for"] == "time"
    out("cancel", "later")
    assert place.ask("show", "later")["state"] == "cancelled"
    for wrong in ("tomorrow", "2030-01-01T00:00:00"):
        assert place.inside("call", "add", "a=1", "b=2", "--not-before", wrong).returncode == 2
