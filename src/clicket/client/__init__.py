"""The client of a server: `Client` has the methods of `clicket.Runtime`, `SyncClient` those of `clicket.sync.Runtime`.

client        Client
cache         Cache: cached results of the server's store
sync          SyncClient and SyncAgent, the blocking API
handle        CallHandle: wait for one call, follow its events
approvals     decisions about calls that wait for approval
external_calls  ends calls from outside, with a token
agent         RemoteAgent: turns with an agent of the server
hub           ThreadHub: which tools a thread may use
schedules     Schedules: calls that are made again and again
remote_tools  RemoteTools: the tools of another server, registered with a runtime here
credentials   credentials of this key for services outside
memory        what agents remember about this key
spend         what was spent on the server, and what is left of its budgets
audit, notices, workers  the audit log; what webhook endpoints got; the workers over the server's store
evals         evaluations in the server's store: their runs and reports
unknown_outcomes  unknown outcomes of the server's calls, and settling one
undo          undo a call, or the calls of a turn
subscription  Subscription: the events of all calls
files         uploads, and messages whose files are uploaded first
request_body  a call as the body of a request
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
