"""A process with webhooks that ends with SIGKILL after its n-th commit, or after its n-th request to an endpoint."""

from __future__ import annotations

import asyncio
import os
import signal
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
from httpx2 import ASGITransport, AsyncClient
from tests.crash.settle import Place
from tests.crash.tools import append_line
from tests.kit.waiting import PATIENCE

from clicket import Policy, Runtime, Settings, tool
from clicket.runtime.compose import open_store
from clicket.server import create_app
from clicket.telemetry.webhooks.config import Endpoint
from clicket.telemetry.webhooks.sender import Answer, HttpSender

__all__ = ["Line", "decide", "deliver_all", "finish_lines", "linked", "live", "open_runtime", "press"]

_SECRET = "whsec_" + b64encode(b"the secret of all crash tests...").decode()
_HOOKS = tuple({"url": f"http://{name}.example/hook", "secret": _SECRET, "name": name} for name in ("first", "second"))


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A request that came to an endpoint."""

    endpoint: str
    id: str
    type: str
    about: str


@tool(max_retries=0)
async def pay(amount: int) -> str:
    await asyncio.sleep(0)
    if amount < 0:
        raise ValueError("no")
    return f"paid {amount}"


@tool(read_only=True)
async def asked() -> str:
    return "approved"


class _Killer:
    def __init__(self, at: int) -> None:
        self._left = at
        self.armed = False

    def passed(self) -> None:
        self._left -= self.armed
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def open_runtime(place: Place, killer: _Killer | None = None) -> Runtime:
    """Requests are lines in a file: what a receiver has, whatever becomes of the sender."""
    return _runtime([pay, asked], place.settings(webhooks=_HOOKS, telemetry="off"), killer)


def _runtime(tools: list[Any], settings: Settings, killer: _Killer | None) -> Runtime:
    store = open_store(settings)
    if killer is not None:
        _count_commits(store, killer)  # before the runtime's parts take the store's methods
    return Runtime(tools, policy=Policy(ask=["asked"]), store=store, settings=settings)


def _record(place: Place, killer: _Killer | None) -> None:
    async def send(self: HttpSender, endpoint: Endpoint, id: str, at: float, body: bytes) -> Answer:
        sent = msgspec.json.decode(body)
        data = sent["data"]
        about = data["call"]["id"] if "call" in data else data.get("worker") or data.get("after")
        append_line(Path(place.folder, "received"), [endpoint.name, id, sent["type"], about])
        if killer is not None:
            killer.passed()
        return Answer(status=204)

    HttpSender.send = send  # type: ignore[method-assign]


async def deliver_all(rt: Runtime) -> None:
    webhooks = rt.engine.webhooks
    assert webhooks is not None
    async with asyncio.timeout(PATIENCE):
        while True:
            await webhooks.delivery.look()
            if not webhooks._fresh and not await webhooks.outbox.pending(""):
                return
            await asyncio.sleep(0.01)


def finish_lines(place: Place) -> None:
    """For the parent, which finishes what the child left."""
    _record(place, None)


def live(given: dict[str, Any]) -> None:
    """In a child."""
    place, killer = msgspec.convert(given["place"], Place), _Killer(given["at"])
    _record(place, killer)
    asyncio.run(_live(place, killer))


async def _live(place: Place, killer: _Killer) -> None:
    async with open_runtime(place, killer) as rt:
        killer.armed = True
        await rt.call("pay", {"amount": 1}, id="good")
        await rt.call("pay", {"amount": -1}, id="bad")
        await rt.submit("asked", {}, id="asked")
        await rt.hub("t1").set("pay", "maintenance", "closed")
        await deliver_all(rt)


def _count_commits(store: Any, killer: _Killer) -> None:
    append = store.append

    def counted(change: Any, done: Any) -> None:
        def then(written: Any, error: Any) -> None:
            killer.passed()
            done(written, error)

        append(change, then)

    def counted_write(write: Any) -> Any:
        async def written(*args: Any) -> Any:
            result = await write(*args)
            killer.passed()
            return result

        return written

    for name in ("put_document", "delete_document", "put_tool_health"):
        setattr(store, name, counted_write(getattr(store, name)))
    store.append = counted


# A decision by an approval link.


def linked(place: Place, killer: _Killer | None = None) -> Runtime:
    """A runtime whose notices carry links."""
    given = {"webhooks": _HOOKS[:1], "public_url": "http://127.0.0.1", "secret_key": "a key of sixteen characters"}
    return _runtime([asked], place.settings(telemetry="off", **given), killer)


async def press(rt: Runtime, token: str, decision: str) -> int:
    """Press a button of the approver page; the status of the answer."""
    app = create_app(rt, mcp=False)
    transport = ASGITransport(app=app)  # type: ignore[arg-type]
    async with app.lifespan(), AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return (await client.post(f"/approvals/{token}", data={"decision": decision})).status_code


def decide(given: dict[str, Any]) -> None:
    """In a child: ask, and approve by the link."""
    asyncio.run(_decide(msgspec.convert(given["place"], Place), _Killer(given["at"])))


async def _decide(place: Place, killer: _Killer) -> None:
    HttpSender.send = _keep_link(place)  # type: ignore[method-assign]
    async with linked(place, killer) as rt:
        await rt.submit("asked", {}, id="asked")
        links = Path(place.folder, "link")
        while not links.exists():
            await asyncio.sleep(0.005)
        await deliver_all(rt)  # its commits are not those of the decision
        killer.armed = True
        append_line(Path(place.folder, "answers"), await press(rt, links.read_text().strip().strip('"'), "approve"))
        os._exit(0)


def _keep_link(place: Place) -> Any:
    async def send(self: HttpSender, endpoint: Endpoint, id: str, at: float, body: bytes) -> Answer:
        append_line(Path(place.folder, "link"), msgspec.json.decode(body)["data"]["link"].rpartition("/")[2])
        return Answer(status=204)

    return send
