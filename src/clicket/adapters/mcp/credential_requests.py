"""The question of a call that waits for a credential: a link that the client opens in the user's browser (URL elicitation).

The client learns the link and nothing else; the secret goes from the browser to the server, past the client and its model.
"""

from __future__ import annotations

from typing import Any

from clicket.adapters.mcp.request_context import RequestContext
from clicket.errors import UsageError
from clicket.model import Record

__all__ = ["credential_requests", "waits_for_credential"]


def waits_for_credential(record: Record) -> bool:
    return record.waiting_for == "credential" and record.credential is not None


async def credential_requests(request: RequestContext, record: Record) -> dict[str, Any]:
    """Input requests with a link for each missing credential. Empty: this client opens no links, or the server has none."""
    elicitation = request.capabilities.elicitation
    if record.credential is None or elicitation is None or elicitation.url is None:
        return {}
    if record.caller != (request.runtime.caller or ""):
        return {}  # a link connects an account for the caller of the call, so no other key gets it
    asked: dict[str, Any] = {}
    for provider in record.credential["providers"]:
        try:
            link = await request.runtime.credentials.link(provider)
        except UsageError:
            return {}
        params = {
            "mode": "url",
            "message": f"Tool {record.tool!r} needs your account at {provider!r}. Open the link to connect it.",
            "url": link.url,
        }
        if not request.modern:  # the field was removed after 2025-11-25
            params["elicitationId"] = f"{record.id}.{provider}"
        asked[f"credential.{provider}"] = {"method": "elicitation/create", "params": params}
    return asked
