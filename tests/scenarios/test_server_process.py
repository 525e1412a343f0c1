"""`clicket serve` and `clicket keys` as processes: their output, their exit, and what they leave on disk."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kit.forks import SERVER, forked
from tests.kit.waiting import PATIENCE
from tests.scenarios import cli_kit
from tests.scenarios.cli_kit import Command, Place
from tests.scenarios.kit import sqlite_url

TOOLS = "tests.scenarios.server_tools:TOOLS"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, sqlite_url(tmp_path), TOOLS, CLICKET_CANCEL_GRACE="0.2", CLICKET_CLOSE_TIMEOUT="1")
    yield place
    place.close()


def serve(place: Place, *options: str, **environment: str) -> tuple[Command, dict[str, Any]]:
    server = place.start("--json", "serve", "--port", "0", *options, **environment)
    return server, server.wait_for("ready")


def test_it_says_where_it_is_and_leaves_in_order(place: Place) -> None:
    server, ready = serve(place)
    assert ready["auth"] == "none"
    assert ready["durability"] == "process"
    assert ready["store"].startswith("sqlite:")
    assert "base_tool" in ready["tools"]
    with httpx2.Client(base_url=ready["url"]) as client:
        made = client.post("/calls", json={"tool": "base_tool", "wait": True}, headers={"authorization": ""})
        assert made.status_code == 401, "an empty Authorization is not a key"
        made = client.post("/calls", json={"tool": "base_tool", "arguments": {"data": "x"}, "wait": True})
        assert made.json()["output"] == "base(x)"
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    assert server.lines[-1]["event"] == "stopped"
    assert "POST /calls 200" in server.err
    assert "mcp.server" not in server.err, "log lines of libraries are not shown"
    again, ready = serve(place)
    with httpx2.Client(base_url=ready["url"]) as client:
        assert client.get(f"/calls/{made.json()['call_id']}").json()["output"] == "base(x)"
    again.signal(signal.SIGINT)
    assert again.ended() == 130


def test_for_people(place: Place) -> None:
    server = place.start("serve", "--port", "0", "--log-format", "json")
    server.until(lambda: "tools  " in server.err)
    assert "listening on http://127.0.0.1:" in server.err
    assert "no keys: loopback only" in server.err
    url = server.err.partition("listening on ")[2].split()[0]
    httpx2.get(f"{url}/healthz")
    line = json.loads(
        server.until(lambda: next((each for each in server.err.splitlines() if "/healthz" in each), None))
    )
    assert (line["route"], line["status"], line["method"]) == ("/healthz", 200, "GET")
    server.signal(signal.SIGTERM)
    assert server.ended() == 0


def test_leaving_with_open_streams_and_running_calls_is_bounded(place: Place) -> None:
    server, ready = serve(place)
    with httpx2.Client(base_url=ready["url"], timeout=PATIENCE) as client, httpx2.Client(timeout=PATIENCE) as other:
        id = client.post("/calls", json={"tool": "waiter"}).json()["id"]
        with other.stream("GET", f"{ready['url']}/calls/{id}/events") as stream:
            lines = stream.iter_lines()
            while "attempt_started" not in next(lines):
                pass
            server.signal(signal.SIGTERM)
            began = time.monotonic()
            rest = list(lines)
        assert "event: shutdown" in rest or any('"state":"failed"' in line for line in rest)
    assert server.ended() == 0
    assert time.monotonic() - began < PATIENCE
    drained = next(line for line in server.lines if line["event"] == "draining")
    assert drained["running"] == [id]
    again, ready = serve(place)
    record = httpx2.get(f"{ready['url']}/calls/{id}").json()
    assert record["error"]["code"] == "outcome_unknown"
    again.signal(signal.SIGTERM)
    assert again.ended() == 0


def test_a_call_that_ends_in_time_is_answered(place: Place) -> None:
    server, ready = serve(place, CLICKET_CLOSE_TIMEOUT="60")
    gate = place.folder / "gate"
    address = ("127.0.0.1", ready["port"])
    body = json.dumps({"tool": "waiter", "id": "w", "arguments": {"gate": str(gate)}, "wait": True}).encode()
    head = f"POST /calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(address, timeout=60) as waiting:
        waiting.sendall(head.encode() + body)
        server.until(lambda: _is_running(ready["url"]))
        server.signal(signal.SIGTERM)
        server.wait_for("draining")
        refused = httpx2.get(f"{ready['url']}/readyz")
        assert (refused.status_code, refused.json()["reason"]) == (503, "shutting_down")
        assert httpx2.post(f"{ready['url']}/calls", json={"tool": "base_tool"}).status_code == 503
        gate.touch()
        assert waiting.recv(100).startswith(b"HTTP/1.1 200 ")
    assert server.ended() == 0


def _is_running(url: str) -> bool:
    found = httpx2.get(f"{url}/calls/w")
    return found.status_code == 200 and found.json()["started_at"] is not None


def test_a_second_signal_ends_it_at_once(place: Place) -> None:
    server, ready = serve(place, CLICKET_CLOSE_TIMEOUT="60")
    httpx2.post(f"{ready['url']}/calls", json={"tool": "waiter", "id": "w"})
    server.until(lambda: _is_running(ready["url"]))
    server.signal(signal.SIGTERM)
    server.wait_for("draining")
    server.signal(signal.SIGTERM)
    assert server.ended() == 128 + signal.SIGTERM
    again, ready = serve(place)
    assert httpx2.get(f"{ready['url']}/calls/w").json()["error"]["code"] == "outcome_unknown"
    again.signal(signal.SIGTERM)
    assert again.ended() == 0


def test_keys(place: Place) -> None:
    made = place.ask("keys", "create", "--name", "ci", "--scopes", "read,call", "--expires", "90d")
    assert made["key"].startswith(f"ck_{made['id']}_")
    assert made["scopes"] == ["read", "call"]
    server, ready = serve(place, "--host", "0.0.0.0")
    assert (ready["auth"], ready["keys"]) == ("keys", 1)
    url = f"http://127.0.0.1:{ready['port']}"
    headers = {"authorization": f"Bearer {made['key']}"}
    assert httpx2.get(f"{url}/tools").status_code == 401
    assert httpx2.get(f"{url}/tools", headers=headers).status_code == 200
    second = place.inside("keys", "create", "--name", "for people")
    assert second.returncode == 0
    assert second.stdout.startswith("ck_")
    listed = place.ask("keys", "list")
    assert [(key["name"], key["state"]) for key in listed] == [("ci", "valid"), ("for people", "valid")]
    assert made["key"].split("_", 2)[2] not in json.dumps(listed)
    assert "hash" not in listed[0]
    assert place.ask("keys", "revoke", made["id"])["revoked"] is True
    assert httpx2.get(f"{url}/tools", headers=headers).status_code == 401
    assert place.inside("keys", "revoke", made["id"]).returncode == 1
    assert place.inside("keys", "revoke", "nobody").returncode == 2
    assert place.inside("keys", "create", "--name", "x", "--scopes", "raed").returncode == 2
    assert "revoked" in place.inside("keys", "list").stdout
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    assert made["key"] not in server.err + server.out


def test_wrong_use(place: Place) -> None:
    for options, exit_code in (
        (("serve", "--host", "0.0.0.0", "--port", "0"), 2),
        (("serve", "--host", "no.such.host.invalid", "--port", "0"), 2),
        (("serve", "--port", "0", "--log-format", "xml"), 2),
        (("serve", "--port", "99999"), 2),
    ):
        done = place.inside(*options)
        assert done.returncode == exit_code, done.stderr
        assert "Traceback" not in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = place.run("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot be bound" in done.stderr
    done = place.inside("serve", "--port", "0", CLICKET_API_KEYS="short")
    assert done.returncode == 2
    soon = {"CLICKET_STORE_TIMEOUT": "0.3", "CLICKET_OPEN_TIMEOUT": "0.1"}
    done = place.inside("serve", "--port", "0", "--store", "postgresql://127.0.0.1:1/none", **soon)
    assert done.returncode == 3


def test_keys_of_the_environment(place: Place) -> None:
    server, ready = serve(place, CLICKET_API_KEYS="ci:read:0123456789abcdef, boss:admin:fedcba9876543210")
    assert ready["keys"] == 2
    url = ready["url"]
    assert httpx2.get(f"{url}/calls").status_code == 401
    assert httpx2.get(f"{url}/calls", headers={"x-api-key": "0123456789abcdef"}).status_code == 200
    assert httpx2.get(f"{url}/audit", headers={"x-api-key": "0123456789abcdef"}).status_code == 403
    assert httpx2.get(f"{url}/audit", headers={"x-api-key": "fedcba9876543210"}).status_code == 200
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    assert "0123456789abcdef" not in server.err + server.out
    shown = place.inside("config", CLICKET_API_KEYS="ci:read:0123456789abcdef").stdout
    assert "0123456789abcdef" not in shown


def test_more_idle_connections_than_descriptors(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    few = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))"
    start = f"{few}; from clicket.cli import main; sys.exit(main(sys.argv[1:]))"
    monkeypatch.setattr(
        cli_kit,
        "PROGRAM",
        (sys.executable, *forked("clicket.cli.app", "clicket.cli.commands.serve", *SERVER), "-c", start),
    )
    server, ready = serve(place)
    with ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(socket.create_connection((ready["host"], ready["port"])))
        body = {"tool": "base_tool", "arguments": {"data": "x"}, "wait": True}
        assert httpx2.post(f"{ready['url']}/calls", json=body, timeout=PATIENCE).json()["output"] == "base(x)"
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    assert "Too many open files" not in server.err


def test_it_names_the_authorization_server(place: Place) -> None:
    given = {"CLICKET_OAUTH_ISSUER": "https://login.example", "CLICKET_OAUTH_AUDIENCE": "https://tools.example"}
    _, ready = serve(place, **given)
    assert (ready["auth"], ready["issuer"], ready["keys"]) == ("oauth", "https://login.example", 0)
    with httpx2.Client(base_url=ready["url"]) as client:
        assert client.get("/calls").status_code == 401
        found = client.get("/.well-known/oauth-protected-resource").json()
        assert found["authorization_servers"] == ["https://login.example"]
    plain = place.start("serve", "--port", "0", **given)
    cli_kit.eventually_sync(lambda: "access tokens of https://login.example" in plain.err + plain.out)
