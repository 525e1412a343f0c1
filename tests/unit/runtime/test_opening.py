"""Opening a runtime while its store is unreachable: it waits, logs the reason, and gives up in time."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from clicket import tool
from clicket.errors import StoreUnavailable
from clicket.ports import Owner
from clicket.runtime.compose import open_store
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.stores.liveness import this_process
from clicket.stores.memory import MemoryStore


class Restarting(MemoryStore):
    """A server that is unreachable for the first requests."""

    def __init__(self, away: int, *, transient: bool = True) -> None:
        super().__init__()
        self.away = away
        self.transient = transient
        self.asked = 0

    def _answer(self) -> None:
        self.asked += 1
        if self.asked <= self.away:
            raise StoreUnavailable(
                "redis://db: connection refused. Start it.", transient=self.transient, url="redis://db"
            )

    async def open(self, owner: Owner) -> None:
        self._answer()
        await super().open(owner)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.runtime.compose._WAIT_FIRST", 0.0)


@tool
async def echo(text: str) -> str:
    """Gives back what it gets."""
    return text


def runtime(store: Any, **settings: Any) -> Runtime:
    return Runtime(store=store, settings=Settings(**settings))


async def test_opening_waits_and_says_once_for_what(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    store = Restarting(away=20)
    async with runtime(store):
        assert store.asked == 21
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "waiting for the store, at most 10 s (setting open_timeout): redis://db: connection refused. Start it."
    ]


async def test_it_gives_up_and_says_that_it_waited() -> None:
    store = Restarting(away=10**9)
    with pytest.raises(
        StoreUnavailable, match=r"connection refused.*clicket waited 0\.01 s for it \(setting open_timeout\)"
    ) as caught:
        await runtime(store, open_timeout=0.01).open()
    assert caught.value.details == {"url": "redis://db"}
    assert store.asked > 1


@pytest.mark.parametrize(("transient", "timeout"), [(False, 10.0), (True, 0)])
async def test_what_waiting_does_not_mend_is_an_error_at_once(transient: bool, timeout: float) -> None:
    store = Restarting(away=10**9, transient=transient)
    with pytest.raises(StoreUnavailable):
        await runtime(store, open_timeout=timeout).open()
    assert store.asked == 1


async def test_a_server_that_goes_away_again_while_the_runtime_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(Restarting):
        async def claim_orphans(self, *args: Any, **kwargs: Any) -> Any:
            self._answer()
            return await super().claim_orphans(*args, **kwargs)

    store = Later(away=0)
    opened = Runtime([echo], store=store, settings=Settings())
    monkeypatch.setattr(store, "open", MemoryStore.open.__get__(store))
    store.away = 3
    async with opened:
        assert store.asked == 4


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "postgresql://127.0.0.1:1/0"])
async def test_servers_that_are_not_there_may_come(url: str) -> None:
    store = open_store(Settings(store=url, store_timeout=0.05))
    with pytest.raises(StoreUnavailable) as caught:
        await store.open(this_process(1.0))
    assert caught.value.transient
