"""The client for programs without an event loop: the same names as `clicket.sync.Runtime`."""

from __future__ import annotations

from clicket.client.client import Client
from clicket.sync import Runtime

__all__ = ["SyncClient"]


class SyncClient(Runtime):
    """`with SyncClient("http://127.0.0.1:8000") as rt: result = rt.call("add", {"a": 1, "b": 2})`."""

    _name = "clicket.client.SyncClient"

    def __init__(self, url: str, *, key: str | None = None) -> None:
        self._face(Client(url, key=key))
        self.url: str = url
