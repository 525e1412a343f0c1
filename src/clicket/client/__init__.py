"""A server's runtime as if it were here: `Client` for async programs, `SyncClient` for the others."""

from __future__ import annotations

from clicket.client.blocking import SyncClient
from clicket.client.client import Cache, Client
from clicket.client.handle import CallHandle
from clicket.client.hub import ThreadHub
from clicket.client.wire import ServerUnavailable

__all__ = ["Cache", "CallHandle", "Client", "ServerUnavailable", "SyncClient", "ThreadHub"]
