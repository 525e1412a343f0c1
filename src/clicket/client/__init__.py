"""A server's runtime as if it were here: `Client` for async programs, `SyncClient` for the others."""

from __future__ import annotations

from clicket.client.agent import AgentInfo, RemoteAgent
from clicket.client.blocking import SyncAgent, SyncClient
from clicket.client.client import Cache, Client
from clicket.client.handle import CallHandle
from clicket.client.hub import ThreadHub
from clicket.client.subscription import Subscription
from clicket.client.wire import ServerUnavailable

__all__ = [
    "AgentInfo",
    "Cache",
    "CallHandle",
    "Client",
    "RemoteAgent",
    "ServerUnavailable",
    "Subscription",
    "SyncAgent",
    "SyncClient",
    "ThreadHub",
]
