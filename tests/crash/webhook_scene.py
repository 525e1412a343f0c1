"""A process with webhooks that ends with SIGKILL after its n-th commit, or after its n-th request to an endpoint."""

from __future__ import annotations

import asyncio
import os
import signal
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Policy, Runtime, tool
from clicket.webhooks import outbox
from clicket.webhooks.config import Endpoint
from clicket.webhooks.sender import Answer, HttpSender

__all__ = ["Line", "deliver_all", "live", "open_runtime"]

LEASE = 0.05
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


@tool
async def asked() -> str:
    return "approved"


class _Killer:
    def __init__(self, at: int) -> None:
        self._left = at

    def passed(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def open_runtime(place: Place) -> Runtime:
    """Requests are lines in a file: what a receiver has, whatever becomes of the sender."""
    outbox.LEASE = LEASE
    return Runtime(
        [pay, asked], policy=Policy(ask=["asked"]), settings=place.settings(webhooks=_HOOKS, telemetry="off")
    )


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
    async with asyncio.timeout(20):
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
    async with open_runtime(place) as rt:
        _count_commits(rt.store, killer)
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
