"""The setting `notices`: which bus, and the errors for an unusable one."""

from __future__ import annotations

import sys

import pytest

from clicket import Settings
from clicket.errors import UsageError
from clicket.runtime.compose import open_carrier, open_store


async def test_the_bus_is_chosen_by_its_url() -> None:
    assert open_carrier(Settings()) is None
    assert open_carrier(Settings.load(environ={"CLICKET_NOTICES": "store"})) is None
    for url in ("nats://127.0.0.1:4222", "redis://127.0.0.1:6379"):
        bus = open_carrier(Settings(notices=url))
        assert bus is not None
        assert bus.name.startswith(url)


@pytest.mark.parametrize("url", ["kafka://there", "nat://127.0.0.1", "stor", ""])
def test_what_is_no_bus_is_refused_with_what_would_be(url: str) -> None:
    with pytest.raises(UsageError, match="nats://host:4222"):
        open_carrier(Settings(notices=url))


@pytest.mark.parametrize("store", ["memory://", "sqlite:///a.db"])
def test_a_store_of_one_machine_has_no_use_for_a_bus(store: str) -> None:
    with pytest.raises(UsageError, match="notices"):
        open_store(Settings(store=store, notices="nats://127.0.0.1:4222"))


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "clicket.stores.bus.nats", raising=False)
    with pytest.raises(UsageError, match=r"clicket\[nats\]"):
        open_carrier(Settings(notices="nats://127.0.0.1:4222"))


async def test_a_password_of_the_bus_is_not_shown() -> None:
    settings = Settings(store="postgresql://db/app", notices="nats://ann:hush@127.0.0.1:4222")
    assert "hush" not in repr(settings)
    bus = open_carrier(settings)
    assert bus is not None
    assert "hush" not in bus.name
