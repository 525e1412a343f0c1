"""Connections stay open between requests, belong to their loop, and are closed when a loop or a model ends."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.adapters.provider import Provider, serving
from tests.kit.waiting import PATIENCE
from tests.unit.models.kit import VENDORS, Make, ask, asks, says

from clicket.models.clients import Clients, _held


class Elsewhere:
    """The provider in its own event loop, so that the tests' loops may end."""

    def __init__(self) -> None:
        self.provider: Provider = None  # type: ignore[assignment]
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    async def _serve(self) -> None:
        async with serving() as self.provider:
            self.provider.keeps_alive = True
            self._ready.set()
            await self._over.wait()

    def __enter__(self) -> Provider:
        self._thread.start()
        self._ready.wait()
        return self.provider

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture
async def alive(provider: Provider) -> AsyncIterator[Provider]:
    provider.keeps_alive = True
    yield provider
    provider.keeps_alive = False


@VENDORS
async def test_one_connection_serves_many_requests(alive: Provider, make: Make) -> None:
    alive.answers = [says(make, "a")] * 4
    model = make(alive)
    for _ in range(3):
        await model.chat(asks())
    assert alive.connections == 1
    await model.close()
    await model.close()
    assert (await model.chat(asks())).text == "a"
    assert alive.connections == 2
    await model.close()


@VENDORS
def test_a_model_is_used_from_loop_after_loop_and_leaves_nothing_open(make: Make) -> None:
    with Elsewhere() as provider, warnings.catch_warnings():
        warnings.simplefilter("error")
        provider.answers = [says(make, "a")] * 8
        model = make(provider)

        async def main(given: Any) -> str:
            await given.chat(asks())
            return (await given.chat(asks())).text

        before = len(_held)
        for _ in range(2):
            assert asyncio.run(main(model)) == "a"
        assert asyncio.run(main(make(provider))) == "a"  # dropped before its loop ends
        assert provider.connections == 3
        threads = [threading.Thread(target=asyncio.run, args=(main(model),)) for _ in range(1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del model
        gc.collect()
        assert len(_held) == before


class Client:
    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def is_closed(self) -> bool:
        return self.closed.is_set()

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed.set()


async def test_a_model_that_is_dropped_closes_its_client_while_the_loop_goes_on() -> None:
    clients = Clients(Client)
    client = await clients.get()
    assert await clients.get() is client
    del clients
    await asyncio.wait_for(client.closed.wait(), PATIENCE)


def test_a_loop_that_ends_closes_its_client_first() -> None:
    clients = Clients(Client)
    first, second = asyncio.run(clients.get()), asyncio.run(clients.get())
    assert first is not second
    assert first.closed.is_set()
    assert second.closed.is_set()


@VENDORS
async def test_streams_side_by_side(alive: Provider, make: Make) -> None:
    alive.keeps_alive = False
    alive.answers = [says(make, "Hm.", ("c", "add", '{"a": 1}'))] * 20
    model = make(alive)
    replies = await asyncio.gather(*(ask(model, asks()) for _ in range(20)))
    assert len({repr(reply) for reply in replies}) == 1


@VENDORS
async def test_a_stream_that_is_cancelled_leaves_nothing_behind(provider: Provider, make: Make) -> None:
    """The agent stops a model in the middle of its stream."""
    provider.pauses = {"finish": asyncio.Event(), "message_delta": asyncio.Event()}
    provider.answers = [says(make, "Hm."), says(make, "Well.")]
    model, streaming = make(provider), asyncio.Event()
    task = asyncio.create_task(model.stream(asks(), lambda _delta: streaming.set()))
    await streaming.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for pause in provider.pauses.values():
        pause.set()
    assert (await ask(model, asks())).text == "Well."
