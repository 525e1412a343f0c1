"""The health port of a worker: probes need no key, and metrics need one with the scope `read`."""

from __future__ import annotations

import asyncio

from tests.scenarios.kit import make
from tests.scenarios.server_kit import add

from clicket import Runtime
from clicket.cli.health_port import HealthPort, health_port
from clicket.server import keys

STRANGER = ("10.0.0.9", 4321)
LOCAL = ("127.0.0.1", 4321)
HOST = (b"host", b"127.0.0.1:9000")


async def ask(port: int, path: str, *headers: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {path} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    text = (await reader.read()).decode()
    writer.close()
    return int(text.split(" ", 2)[1]), text


async def key(rt: Runtime, *scopes: str) -> tuple[str, str]:
    made, text = await keys.create(rt.store, name="-".join(scopes), scopes=scopes, now=1.0)
    return made.id, f"authorization: Bearer {text}"


async def test_metrics_need_a_key_and_probes_do_not() -> None:
    async with make([add]) as rt, health_port(rt, lambda: "active", "127.0.0.1", 0) as health:
        assert health is not None
        await rt.call("add", {"a": 1, "b": 2})
        await rt.acting_for("ann").call("add", {"a": 1, "b": 2})
        reader, read = await key(rt, "read")
        _, call = await key(rt, "call")
        _, admin = await key(rt, "admin")
        for path in ("/livez", "/healthz", "/readyz"):
            assert (await ask(health.port, path))[0] == 200
        status, text = await ask(health.port, "/metrics")
        assert status == 401
        assert "www-authenticate: Bearer" in text
        assert "clicket_" not in text
        assert (await ask(health.port, "/metrics", call))[0] == 403
        assert (await ask(health.port, "/metrics", "authorization: Bearer ck_no_thing"))[0] == 401
        status, text = await ask(health.port, "/metrics", read)
        assert status == 200
        assert "clicket_tool_executions_total{" not in text, "a key sees the figures of its own calls"
        status, text = await ask(health.port, "/metrics?x=1", admin)
        assert status == 200
        assert 'clicket_tool_executions_total{state="completed",tool="add"} 2.0' in text
        await keys.revoke(rt.store, reader, now=2.0)
        assert (await ask(health.port, "/metrics", read))[0] == 401


async def test_without_keys_only_this_machine_reads_metrics() -> None:
    async with make([add]) as rt:
        health = HealthPort(rt, lambda: "active", "0.0.0.0")  # as in a container; nothing is bound here
        assert (await health.answer("GET", "/metrics", [HOST], LOCAL))[0] == 200
        assert (await health.answer("GET", "/metrics", [HOST], STRANGER))[0] == 401
        assert (await health.answer("GET", "/readyz", [HOST], STRANGER))[0] == 200
        foreign = [(b"host", b"evil.example")]
        assert (await health.answer("GET", "/metrics", foreign, LOCAL))[0] == 403, "a page that rebinds its name"


async def test_static_keys_and_oauth_need_a_key_from_this_machine_too() -> None:
    oauth = {"issuer": "https://login.example.com", "audience": "https://clicket.example.com"}
    for settings in ({"api_keys": ("ops:read:0123456789abcdef0123",)}, {"oauth": oauth}):
        async with make([add], **settings) as rt:
            health = HealthPort(rt, lambda: "active", "127.0.0.1")
            assert (await health.answer("GET", "/metrics", [HOST], LOCAL))[0] == 401
            if "api_keys" in settings:
                bearer = (b"authorization", b"Bearer 0123456789abcdef0123")
                assert (await health.answer("GET", "/metrics", [HOST, bearer], STRANGER))[0] == 200
