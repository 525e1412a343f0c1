"""`/.well-known/oauth-protected-resource` (RFC 9728): which authorization server issues tokens for this server, and with which scopes."""

from __future__ import annotations

import msgspec

from clicket.server.challenges import MCP, WELL_KNOWN, Challenges
from clicket.server.operations import Operation, ResponseSpec, tagged
from clicket.server.problems import Refused
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

__all__ = ["ProtectedResourceHandlers"]


class ProtectedResource(msgspec.Struct, frozen=True, kw_only=True):
    """`resource` is what clients ask the authorization server a token for (RFC 8707)."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: tuple[str, ...] = ("header",)
    resource_name: str = "clicket"


class ProtectedResourceHandlers:
    """`mcp`: is there a `/mcp`, which is a resource of its own?"""

    def __init__(self, challenges: Challenges, *, mcp: bool) -> None:
        self._challenges = challenges
        self._mcp = mcp

    async def whole(self, request: Request) -> Response:
        return self._described(request, "")

    async def of_mcp(self, request: Request) -> Response:
        if not self._mcp:
            raise Refused("not_found", "this server does not serve MCP. Install it with: pip install 'clicket[mcp]'.")
        return self._described(request, MCP)

    def _described(self, request: Request, path: str) -> Response:
        config = self._challenges.config
        if config is None:
            raise Refused(
                "not_found", "this server takes API keys only. The setting [oauth] adds an authorization server."
            )
        return json_response(
            ProtectedResource(
                resource=self._challenges.resource(request.scope, path),
                authorization_servers=[config.issuer],
                scopes_supported=list(config.scopes_map),
            )
        )

    def operations(self) -> tuple[Operation, ...]:
        responses = {200: ResponseSpec(description="The metadata.", schema=ProtectedResource)}
        return tagged(
            "console",
            Operation(
                route=f"GET {WELL_KNOWN}",
                description="Which authorization server issues access tokens for this server (RFC 9728).",
                handler=self.whole,
                public=True,
                responses=responses,
                problems=(404,),
            ),
            Operation(
                route=f"GET {WELL_KNOWN}{MCP}",
                description="The same for `/mcp`, which is a resource of its own.",
                handler=self.of_mcp,
                public=True,
                responses=responses,
                problems=(404,),
            ),
        )
