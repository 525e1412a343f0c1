"""The card of an agent: what it can do, where it is reached, and how a client authenticates."""

from __future__ import annotations

from typing import Any

from clicket.agents import Agent
from clicket.model.version import version

__all__ = ["PROTOCOL_VERSION", "card_of"]

PROTOCOL_VERSION = "1.0"
_TEXT = ["text/plain", "application/json"]
_FILES = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]


def card_of(agent: Agent, url: str, *, needs_key: bool) -> dict[str, Any]:
    """`url`: where the agent's operations are."""
    conversation = {
        "id": "conversation",
        "name": "Conversation",
        "description": f"Answers messages, and calls tools where it needs them: up to {agent.limits.max_steps} steps a task.",
        "tags": ["agent"],
    }
    card: dict[str, Any] = {
        "name": agent.name,
        "description": f"The agent {agent.name} of a clicket server. Its tasks are durable: they go on when the client leaves, and after "
        "a restart of the server.",
        "version": version(),
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": [*_TEXT, *_FILES],
        "defaultOutputModes": _TEXT,
        "skills": [conversation],
    }
    if needs_key:
        card["securitySchemes"] = {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "An API key of the server."}},
            "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
        }
        card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}, {"schemes": {"apiKey": {"list": []}}}]
    return card
