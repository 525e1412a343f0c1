"""The blocking client declares no more than the server's client can do."""

from __future__ import annotations

import pytest

from clicket.client import Client, SyncClient


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_it_lists_what_the_client_has() -> None:
    with SyncClient("http://127.0.0.1:1") as client:
        assert public(client) == public(Client("http://127.0.0.1:1"))
        assert all(hasattr(client, name) for name in public(client))


@pytest.mark.parametrize("name", ["acting_for", "add", "observers", "registry", "remove", "settings"])
def test_what_only_a_runtime_has_is_missing(name: str) -> None:
    client = SyncClient("http://127.0.0.1:1")
    assert not hasattr(client, name)
    with pytest.raises(AttributeError, match=name):
        getattr(client, name)


def test_a_client_reads_the_audit_log_and_does_not_write_it() -> None:
    with SyncClient("http://127.0.0.1:1") as client:
        assert public(client.audit) == {"list"}
