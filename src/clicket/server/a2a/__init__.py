"""A2A 1.0 over the server's agents: `POST /a2a/{agent}` (JSON-RPC) and the agents' cards.

handlers     the routes, and one method for each operation of the protocol
rpc          JSON-RPC: requests, results, errors with the protocol's codes
card         what an agent says of itself
messages     a client's messages: text, and answers to questions
tasks        turns as tasks
task_stream  the events of a task
"""

from __future__ import annotations

from clicket.server.a2a.handlers import A2AHandlers

__all__ = ["A2AHandlers"]
