"""`/credentials`: credentials of callers for services outside, without their secrets. A key has its own; an admin sees and changes all."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clicket.model.credential import Credential, CredentialLink
from clicket.runtime.views.credentials import Credentials
from clicket.server.call_lookup import CALLER
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response, json_response

__all__ = ["CredentialHandlers"]


class CredentialRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token for a provider. `expires_at`: seconds since 1970, if it is known."""

    secret: Annotated[str, Meta(min_length=4, max_length=65_536, pattern=r"^[!-~]+$")]
    scopes: Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=100)] = []
    expires_at: Annotated[float, Meta(ge=0, le=1e11)] | None = None

    def __repr__(self) -> str:
        return "<credential>"


class CredentialList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Credential]


class CredentialHandlers:
    def __init__(self, body_reader: BodyReader) -> None:
        self._body_reader = body_reader

    async def listing(self, request: Request) -> Response:
        found = await request.principal.sees.credentials.list(caller=request.query("caller"))
        return json_response(CredentialList(items=list(found)))

    async def put(self, request: Request) -> Response:
        given = await self._body_reader.json(request, CredentialRequest)
        view, whose = _view(request)
        made = await view.put(
            request.path("provider"),
            given.secret,
            scopes=given.scopes,
            expires_at=given.expires_at,
            **whose,
            by=request.principal.name,
        )
        return json_response(made)

    async def revoke(self, request: Request) -> Response:
        view, whose = _view(request)
        return json_response(await view.revoke(request.path("provider"), **whose, by=request.principal.name))

    async def link(self, request: Request) -> Response:
        view, whose = _view(request)
        return json_response(await view.link(request.path("provider"), **whose))

    def operations(self) -> tuple[Operation, ...]:
        one = {200: ResponseSpec(description="The credential, without its secret.", schema=Credential)}
        return tagged(
            "credentials",
            Operation(
                route="GET /credentials",
                description="Credentials for services outside, without their secrets: of this key, or of all callers for an admin.",
                handler=self.listing,
                scopes=("read",),
                parameters=(CALLER,),
                responses={200: ResponseSpec(description="The credentials.", schema=CredentialList)},
            ),
            Operation(
                route="PUT /credentials/{provider}",
                description="Keep a token for a provider, encrypted, in place of the one before. Calls that wait for it go on. No route "
                "returns it.",
                handler=self.put,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=CredentialRequest),
                responses=one,
                problems=(422,),
            ),
            Operation(
                route="DELETE /credentials/{provider}",
                description="Delete the secret. Calls that run keep what they have; the next call waits.",
                handler=self.revoke,
                scopes=("call",),
                parameters=(CALLER,),
                responses=one,
                problems=(404,),
            ),
            Operation(
                route="POST /credentials/{provider}/link",
                description="A new link to a page on which a person connects an account for this key. It works once. Needs `public_url` in "
                "the server's settings.",
                handler=self.link,
                scopes=("call",),
                parameters=(CALLER,),
                responses={200: ResponseSpec(description="The link.", schema=CredentialLink)},
            ),
        )


def _view(request: Request) -> tuple[Credentials, dict[str, Any]]:
    """The credentials of the key itself; an admin may name another caller."""
    principal = request.principal
    caller = request.query("caller")
    if caller is None or caller == principal.id:
        return principal.own.credentials, {}
    return principal.sees.credentials, {"caller": caller}
