"""The AI SDK's UI message stream over the server's agents, for `useChat`: `POST /ai-sdk/{agent}` and
`GET /ai-sdk/{agent}/{threadId}/stream`.

handlers     the routes: which turn a request begins, continues or follows
chat_input   what a client sends, checked
translator   events of a turn as chunks of a message
"""

from __future__ import annotations

from clicket.server.ai_sdk.handlers import AiSdkHandlers

__all__ = ["AiSdkHandlers"]
