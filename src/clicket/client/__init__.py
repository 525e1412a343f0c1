"""The client of a server: `Client` has the methods of `clicket.Runtime`, `SyncClient` those of `clicket.sync.Runtime`.

client        Client
cache         Cache: cached results of the server's store
sync          SyncClient and SyncAgent, the blocking API
handle        CallHandle: wait for one call, follow its events
agent         RemoteAgent: turns with an agent of the server
hub           ThreadHub: which tools a thread may use
schedules     Schedules: calls that are made again and again
remote_tools  RemoteTools: the tools of another server, registered with a runtime here
unknown_outcomes  unknown outcomes of the server's calls, and settling one
subscription  Subscription: the events of all calls
connection    HTTP requests, errors, server-sent events and reconnection, for all of the above
"""

from __future__ import annotations

from clicket.client.agent import AgentInfo, RemoteAgent
from clicket.client.cache import Cache
from clicket.client.client import Client
from clicket.client.connection import ServerUnavailable
from clicket.client.handle import CallHandle
from clicket.client.hub import ThreadHub
from clicket.client.remote_tools import RemoteTool, RemoteToolError, RemoteTools
from clicket.client.subscription import Subscription
from clicket.client.sync import SyncClient
from clicket.client.sync_agent import SyncAgent

__all__ = [
    "AgentInfo",
    "Cache",
    "CallHandle",
    "Client",
    "RemoteAgent",
    "RemoteTool",
    "RemoteToolError",
    "RemoteTools",
    "ServerUnavailable",
    "Subscription",
    "SyncAgent",
    "SyncClient",
    "ThreadHub",
]
