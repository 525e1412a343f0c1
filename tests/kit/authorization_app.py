"""The program of `tests/kit/authorization_server.py`, made of Authlib: authorization code with PKCE, refresh tokens that rotate, client
credentials, dynamic registration (RFC 7591), metadata (RFC 8414), signed tokens (RFC 9068), introspection (RFC 7662), revocation (RFC
7009), resource indicators (RFC 8707) and the issuer in its answers (RFC 9207).

The authorization server shares no code with clicket or MCP's SDK: tokens are signed by joserfc and read by PyJWT. As strict servers do,
it revokes everything of a person if a refresh token or a code is used twice. `POST /keys` adds a key, which signs from then on; `DELETE
/keys` takes all others away. `POST /control` changes how it behaves, `GET /stats` and `GET /counts` say what it saw.

The services behind it (`--services`) are a plain route and an MCP server, which is the SDK's.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # plain HTTP, on loopback

import uvicorn
from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    ClientMixin,
    OAuth2Error,
    OAuth2Request,
    TokenMixin,
    grants,
)
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload, JsonRequest
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc.jwk import ECKey, KeySet, RSAKey
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.kit.authorization_server import CLIENT, RESOURCE_CLIENT

METHODS = ("client_secret_basic", "client_secret_post", "none")
FORM = "<form method=post>Name: <input name=user> <button>Log in and allow</button></form>"


class Client(ClientMixin):
    def __init__(self, id: str, secret: str, metadata: dict[str, Any]) -> None:
        self.id, self.secret, self.metadata = id, secret, metadata

    def get_client_id(self) -> str:
        return self.id

    def get_default_redirect_uri(self) -> Any:
        return self.metadata["redirect_uris"][0]

    def get_allowed_scope(self, scope: Any) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.metadata.get("redirect_uris", [])

    def check_client_secret(self, client_secret: str) -> bool:
        return secrets.compare_digest(self.secret, client_secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        wanted = self.metadata.get("token_endpoint_auth_method", "client_secret_basic")
        return method == wanted or endpoint != "token"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


class User:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_user_id(self) -> str:
        return self.name


class Token(TokenMixin):
    """An access token or a refresh token."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)
        self.revoked = False

    def get_scope(self) -> str:
        return str(self.scope)

    def is_expired(self) -> bool:
        return bool(time.time() >= self.ends)

    def is_revoked(self) -> bool:
        return self.revoked

    def check_client(self, client: Any) -> bool:
        return True


class State:
    """What the server knows, and how it behaves now."""

    def __init__(self, issuer: str, user: str) -> None:
        self.issuer = issuer
        self.how: dict[str, Any] = {
            "user": user, "lifetime": 3600.0, "refuse_refresh": False, "delay": 0.0, "iss": issuer,
        }  # fmt: skip
        self.seen = dict.fromkeys(
            ("codes", "code_replays", "refreshes", "refresh_replays", "registered", "tokens_refused"), 0
        )
        self.counts: dict[str, int] = {}
        both = ["authorization_code", "refresh_token"]
        known = {"redirect_uris": [], "token_endpoint_auth_method": "client_secret_post", "grant_types": both}
        basic = {"grant_types": ["client_credentials"], "token_endpoint_auth_method": "client_secret_basic"}
        self.clients = {CLIENT[0]: Client(*CLIENT, known), RESOURCE_CLIENT[0]: Client(*RESOURCE_CLIENT, basic)}
        self.codes: dict[str, Any] = {}
        self.used: dict[str, str] = {}
        """Codes and refresh tokens that were used, and whose they were."""
        self.tokens: dict[str, Token] = {}
        self.refreshes: dict[str, Token] = {}
        self.keys: list[Any] = [RSAKey.generate_key(2048, {"kid": "rsa-1", "use": "sig", "alg": "RS256"}, private=True)]
        self.metadata = {
            "issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register", "introspection_endpoint": f"{issuer}/introspect",
            "revocation_endpoint": f"{issuer}/revoke", "jwks_uri": f"{issuer}/jwks", "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": list(METHODS),
            "authorization_response_iss_parameter_supported": True,
        }  # fmt: skip

    def revoke_all(self, user: str) -> None:
        for kept in (self.refreshes, self.tokens):
            for key in [key for key, each in kept.items() if each.subject == user]:
                del kept[key]

    def valid(self, text: str) -> Token | None:
        """An access token that a service takes."""
        found = self.tokens.get(text)
        if found is None or found.is_revoked() or found.is_expired():
            self.seen["tokens_refused"] += 1
            return None
        return found


def server_over(state: State, *, signed: bool) -> Any:  # noqa: C901  # Authlib wants a class for each part
    class Server(AuthorizationServer):
        resource = ""

        def query_client(self, client_id: str) -> Any:
            return state.clients.get(client_id)

        def save_token(self, token: dict[str, Any], request: Any) -> None:
            subject = request.user.name if request.user else request.client.id
            values = {
                "client_id": request.client.id, "scope": token.get("scope", ""), "subject": subject, "resource": self.resource,
            }  # fmt: skip
            state.tokens[token["access_token"]] = Token(**values, ends=time.time() + state.how["lifetime"])
            if "refresh_token" in token:
                made = Token(**values, ends=float("inf"), text=token["refresh_token"])
                state.refreshes[made.text] = made

        def create_oauth2_request(self, request: Any) -> Any:
            return request

        def create_json_request(self, request: Any) -> Any:
            return request

        def handle_response(self, status: int, body: Any, headers: Any) -> Response:
            made = dict(headers)
            return JSONResponse(body, status, made) if isinstance(body, dict) else Response(body, status, made)

        def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None: ...

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS

        def save_authorization_code(self, code: str, request: Any) -> None:
            given = request.payload.data
            state.codes[code] = SimpleNamespace(
                code=code, client_id=request.client.id, user=request.user, resource=given.get("resource", ""),
                get_redirect_uri=lambda: given.get("redirect_uri"), get_scope=lambda: request.scope,
                code_challenge=given.get("code_challenge"), code_challenge_method=given.get("code_challenge_method"),
            )  # fmt: skip

        def query_authorization_code(self, code: str, client: Any) -> Any:
            if code in state.used:
                state.seen["code_replays"] += 1
                state.revoke_all(state.used[code])
            found = state.codes.get(code)
            if (
                found is None or found.client_id != client.id or found.resource != server.resource
            ):  # RFC 8707, section 2.2
                return None
            return found

        def delete_authorization_code(self, authorization_code: Any) -> None:
            state.seen["codes"] += 1
            state.used[authorization_code.code] = authorization_code.user.name
            del state.codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Any) -> Any:
            return authorization_code.user

    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token: str) -> Any:
            if refresh_token in state.used:
                state.seen["refresh_replays"] += 1
                state.revoke_all(state.used[refresh_token])
            found = None if state.how["refuse_refresh"] else state.refreshes.get(refresh_token)
            if found is not None:
                server.resource = found.resource
            return found

        def authenticate_user(self, refresh_token: Any) -> Any:
            return User(refresh_token.subject)

        def revoke_old_credential(self, refresh_token: Any) -> None:
            state.seen["refreshes"] += 1
            state.used[refresh_token.text] = refresh_token.subject
            del state.refreshes[refresh_token.text]

    class Signed(JWTBearerTokenGenerator):
        def get_jwks(self) -> Any:
            self.alg = state.keys[-1].as_dict()["alg"]
            return state.keys[-1]

        def get_audiences(self, client: Any, user: Any, scope: str) -> str:
            return server.resource or client.get_client_id()

        def access_token_generator(self, *args: Any, **kwargs: Any) -> Any:
            self.get_jwks()
            return super().access_token_generator(*args, **kwargs)

    class Registration(ClientRegistrationEndpoint):
        def authenticate_token(self, request: Any) -> Any:
            return True

        def get_server_metadata(self) -> dict[str, Any]:
            return state.metadata

        def save_client(self, client_info: dict[str, Any], client_metadata: dict[str, Any], request: Any) -> Any:
            state.seen["registered"] += 1
            made = Client(client_info["client_id"], client_info["client_secret"], client_metadata)
            return state.clients.setdefault(made.id, made)

    class Introspect(IntrospectionEndpoint):
        def query_token(self, token_string: str, token_type_hint: str) -> Any:
            return state.tokens.get(token_string)

        def check_permission(self, token: Any, client: Any, request: Any) -> bool:
            return bool(client.id == RESOURCE_CLIENT[0])

        def introspect_token(self, token: Any) -> dict[str, Any]:
            return {
                "active": True, "iss": state.issuer, "sub": token.subject, "aud": token.resource, "scope": token.scope,
                "client_id": token.client_id, "token_type": "Bearer", "exp": int(token.ends),
            }  # fmt: skip

    class Revoke(RevocationEndpoint):
        def query_token(self, token_string: str, token_type_hint: Any) -> Any:
            return state.tokens.get(token_string)

        def revoke_token(self, token: Any, request: Any) -> None:
            token.revoked = True

    def lifetime(client: Any, grant_type: str) -> int:
        return max(int(state.how["lifetime"]), 1)

    def access(*_: Any, **__: Any) -> str:
        return f"access-{secrets.token_urlsafe(24)}"

    def refresh(*_: Any, **__: Any) -> str:
        return f"refresh-{secrets.token_urlsafe(24)}"

    server = Server()
    server.register_grant(CodeGrant, [CodeChallenge(required=True)])
    server.register_grant(RefreshGrant)
    server.register_grant(grants.ClientCredentialsGrant)
    plain = BearerTokenGenerator(access, refresh_token_generator=refresh, expires_generator=lifetime)
    jwts = Signed(state.issuer, refresh_token_generator=refresh, expires_generator=lifetime)
    server.register_token_generator("default", jwts if signed else plain)
    for each in (Registration, Introspect, Revoke):
        server.register_endpoint(each)
    return server


class Form(OAuth2Request):
    """A request whose query and form are both known."""

    def __init__(self, method: str, uri: str, headers: Any, query: dict[str, str], form: dict[str, str]) -> None:
        super().__init__(method, uri, headers=headers)
        self._query, self._form = query, form
        self.payload = BasicOAuth2Payload({**query, **form})

    @property
    def args(self) -> dict[str, str]:
        return self._query

    @property
    def form(self) -> dict[str, str]:
        return self._form


class Routes:
    def __init__(self, state: State, server: Any) -> None:
        self._state = state
        self._server = server

    async def _form(self, request: Any) -> Form:
        counts, path = self._state.counts, request.url.path
        counts[path] = counts.get(path, 0) + 1
        form = {name: str(value) for name, value in (await request.form()).items()} if request.method == "POST" else {}
        return Form(request.method, str(request.url), request.headers, dict(request.query_params), form)

    async def authorize(self, request: Any) -> Response:
        asked, user = await self._form(request), self._state.how["user"]
        try:
            grant = self._server.get_consent_grant(asked)
        except OAuth2Error as error:
            return JSONResponse(dict(error.get_body()), error.status_code)
        if user == "":
            if request.method == "GET":
                return HTMLResponse(FORM)
            user = asked.form["user"]
        agreed = None if user is None else User(user)
        answer = self._server.create_authorization_response(asked, grant_user=agreed, grant=grant)
        issuer = urlencode({"iss": self._state.how["iss"]})
        return RedirectResponse(f"{answer.headers['location']}&{issuer}", 302)

    async def token(self, request: Any) -> Any:
        asked = await self._form(request)
        self._server.resource = asked.form.get("resource", "")
        answer = self._server.create_token_response(asked)  # without a pause: the resource is that of this request
        if answer.status_code == 200:
            await asyncio.sleep(self._state.how["delay"])
        return answer

    async def register(self, request: Any) -> Any:
        asked = JsonRequest(request.method, str(request.url), request.headers)
        asked.payload = SimpleNamespace(data=await request.json())
        return self._server.create_endpoint_response("client_registration", asked)

    async def introspect(self, request: Any) -> Any:
        return self._server.create_endpoint_response("introspection", await self._form(request))

    async def revoke(self, request: Any) -> Any:
        return self._server.create_endpoint_response("revocation", await self._form(request))

    async def jwks(self, request: Any) -> Response:
        await self._form(request)
        return JSONResponse(KeySet(self._state.keys).as_dict(private=False))

    async def metadata(self, request: Any) -> Response:
        await self._form(request)
        return JSONResponse(self._state.metadata)

    async def keys(self, request: Any) -> Response:
        keys = self._state.keys
        if request.method == "POST":
            more = {"kid": f"ec-{len(keys) + 1}", "use": "sig", "alg": "ES256"}
            keys.append(ECKey.generate_key("P-256", more, private=True))
        else:
            del keys[:-1]
        return JSONResponse([key.kid for key in keys])

    async def counts(self, request: Any) -> Response:
        return JSONResponse(self._state.counts)

    async def stats(self, request: Any) -> Response:
        return JSONResponse(self._state.seen)

    async def control(self, request: Any) -> Response:
        given = await request.json()
        if given.pop("forget", False):
            self._state.tokens.clear()
        if (callback := given.pop("callback", None)) is not None:
            self._state.clients[CLIENT[0]].metadata["redirect_uris"].append(callback)
        self._state.how.update(given)
        return JSONResponse({})

    async def whoami(self, request: Any) -> Response:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        found = self._state.valid(text) if scheme.lower() == "bearer" else None
        if found is None:
            quiet = request.query_params.get("quiet")
            challenge = {} if quiet else {"www-authenticate": 'Bearer error="invalid_token"'}
            return JSONResponse({"error": "unauthorized"}, 401, headers=challenge)
        return JSONResponse({"user": found.subject, "echo": text, "method": request.method})

    def listed(self) -> list[Route]:
        both = ["GET", "POST"]
        return [
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/authorize", self.authorize, methods=both),
            Route("/token", self.token, methods=["POST"]),
            Route("/register", self.register, methods=["POST"]),
            Route("/introspect", self.introspect, methods=["POST"]),
            Route("/revoke", self.revoke, methods=["POST"]),
            Route("/jwks", self.jwks),
            Route("/keys", self.keys, methods=["POST", "DELETE"]),
            Route("/counts", self.counts),
            Route("/stats", self.stats),
            Route("/control", self.control, methods=["POST"]),
            Route("/api/whoami", self.whoami, methods=both),
        ]


def mcp_service(state: State) -> Any:
    """An MCP server whose tool says whose token came with the request."""
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.mcpserver import MCPServer

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            found = state.valid(token)
            if found is None:
                return None
            return AccessToken(
                token=token, client_id=found.client_id, scopes=found.scope.split(), subject=found.subject,
                resource=found.resource or None, expires_at=int(found.ends) + 1,
            )  # fmt: skip

    given = {
        "issuer_url": state.issuer,
        "resource_server_url": f"{state.issuer}/mcp",
        "validate_token_resource": False,
    }
    server = MCPServer("bank", token_verifier=Verifier(), auth=AuthSettings.model_validate(given))

    @server.tool()
    async def whoami(pause: float = 0.0) -> dict[str, Any]:
        """Whose token came with the request."""
        token = get_access_token()
        await asyncio.sleep(pause)
        after = get_access_token()
        assert token is not None and after is not None  # noqa: PT018  # the middleware lets no other through
        return {"user": token.subject, "after": after.subject, "token": token.token}

    return server.streamable_http_app()


def main(user: str, *, signed: bool, services: bool) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        state = State(f"http://127.0.0.1:{port}", user)
        routes = Routes(state, server_over(state, signed=signed)).listed()
        app = mcp_service(state) if services else Starlette()
        app.router.routes[:0] = routes
        sock.listen(64)
        print(port, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)).run(sockets=[sock])


if __name__ == "__main__":
    main(sys.argv[1], signed="--signed" in sys.argv, services="--services" in sys.argv)
