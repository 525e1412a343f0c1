"""A real authorization server as a process of its own, made of Authlib: authorization code with PKCE, client credentials, dynamic
registration (RFC 7591), metadata (RFC 8414), signed tokens (RFC 9068), introspection (RFC 7662), revocation (RFC 7009) and resource
indicators (RFC 8707).

It shares no code with clicket or MCP's SDK: tokens are signed by joserfc and read by PyJWT. `python -m tests.oauth_server PORT` runs it;
`--opaque` issues random tokens in place of signed ones. A person logs in with a form that asks for a name. `POST /keys` adds a key,
which signs from then on; `DELETE /keys` takes all others away.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from tests.kit.waiting import eventually_sync
from tests.redis_server import free_port

__all__ = ["REDIRECT", "OAuthServer", "oauth_server"]

ROOT = Path(__file__).resolve().parents[1]
REDIRECT = "http://127.0.0.1:9/callback"
"""Nothing listens there: tests read the address that the browser is sent to."""
RESOURCE_CLIENT = ("resource-server", "secret-of-the-resource-server")


class OAuthServer:
    """The server, as its tests use it."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process
        self.http = httpx2.Client(base_url=url)

    def settings(self, audience: str, **more: Any) -> dict[str, Any]:
        """`[oauth]` of a server that takes this one's tokens."""
        id, secret = RESOURCE_CLIENT
        opaque = {"introspection": True, "client_id": id, "client_secret": secret} if more.pop("opaque", False) else {}
        return {"issuer": self.url, "audience": audience, **opaque, **more}

    def register(self, *grants: str) -> tuple[str, str]:
        """A new client: its id and its secret."""
        body = {
            "client_name": "test",
            "grant_types": list(grants),
            "redirect_uris": [REDIRECT],
            "response_types": ["code"],
        }
        answer = self.http.post("/register", json=body)
        assert answer.status_code == 201, answer.text
        made = answer.json()
        return made["client_id"], made["client_secret"]

    def token(self, resource: str, scope: str, user: str = "") -> str:
        """An access token for a client of its own, or for a person who logs in."""
        client = self.register("client_credentials", "authorization_code")
        form = {"resource": resource, "scope": scope, "grant_type": "client_credentials"}
        if user:
            query = {"response_type": "code", "client_id": client[0], "redirect_uri": REDIRECT, "scope": scope}
            query |= {"resource": resource, "code_challenge": "x" * 43, "code_challenge_method": "plain"}
            found = parse_qs(urlsplit(self.log_in("/authorize?" + str(httpx2.QueryParams(query)), user)).query)
            form |= {"grant_type": "authorization_code", "code": found["code"][0], "redirect_uri": REDIRECT}
            form["code_verifier"] = "x" * 43
        answer = self.http.post("/token", data=form, auth=client)
        assert answer.status_code == 200, answer.text
        found_token: str = answer.json()["access_token"]
        return found_token

    def log_in(self, url: str, user: str) -> str:
        """What a person does in the browser; returns the address that the browser is sent to at the end."""
        page = self.http.get(url)
        assert page.status_code == 200, page.text
        assert "<form" in page.text
        answer = self.http.post(url, data={"user": user})
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])

    def revoke(self, token: str) -> None:
        assert self.http.post("/revoke", data={"token": token}, auth=RESOURCE_CLIENT).status_code == 200

    def asked(self) -> dict[str, int]:
        """How often each path was asked for."""
        counts: dict[str, int] = self.http.get("/counts").json()
        return counts


@contextmanager
def oauth_server(folder: Path, *options: str) -> Iterator[OAuthServer]:
    port = free_port()
    command = [sys.executable, "-m", "tests.oauth_server", str(port), *options]
    environment = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}  # plain HTTP, on loopback
    with (folder / "oauth.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    made = OAuthServer(f"http://127.0.0.1:{port}", process)
    try:

        def answers() -> bool:
            assert process.poll() is None, (folder / "oauth.log").read_text()
            with suppress(httpx2.TransportError):
                return made.http.get("/counts").status_code == 200
            return False

        eventually_sync(answers, timeout=60)
        yield made
    finally:
        made.http.close()
        process.terminate()
        process.wait(30)


def main(port: int, opaque: bool) -> None:  # noqa: C901  # one closure for the whole state of the server
    """The program. It imports Authlib here, so that tests need not."""
    import uvicorn
    from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request, TokenMixin, grants
    from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload, JsonRequest
    from authlib.oauth2.rfc6750 import BearerTokenGenerator
    from authlib.oauth2.rfc7009 import RevocationEndpoint
    from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
    from authlib.oauth2.rfc7636 import CodeChallenge
    from authlib.oauth2.rfc7662 import IntrospectionEndpoint
    from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
    from joserfc.jwk import ECKey, KeySet, RSAKey
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    issuer = f"http://127.0.0.1:{port}"
    clients: dict[str, Any] = {}
    codes: dict[str, Any] = {}
    tokens: dict[str, Any] = {}
    counts: dict[str, int] = {}
    keys: list[Any] = [RSAKey.generate_key(2048, {"kid": "rsa-1", "use": "sig", "alg": "RS256"}, private=True)]

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
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)
            self.revoked = False

        def is_expired(self) -> bool:
            return bool(time.time() >= self.expires_at)

        def is_revoked(self) -> bool:
            return self.revoked

        def check_client(self, client: Any) -> bool:
            return True

    class Server(AuthorizationServer):
        resource = ""

        def query_client(self, client_id: str) -> Any:
            return clients.get(client_id)

        def save_token(self, token: dict[str, Any], request: Any) -> None:
            subject = request.user.name if request.user else request.client.id
            tokens[token["access_token"]] = Token(
                client_id=request.client.id,
                scope=token.get("scope", ""),
                subject=subject,
                resource=self.resource,
                expires_at=time.time() + token["expires_in"],
            )

        def create_oauth2_request(self, request: Any) -> Any:
            return request

        def create_json_request(self, request: Any) -> Any:
            return request

        def handle_response(self, status: int, body: Any, headers: Any) -> Response:
            made = dict(headers)
            return JSONResponse(body, status, made) if isinstance(body, dict) else Response(body, status, made)

        def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None: ...

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

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post", "none")

        def save_authorization_code(self, code: str, request: Any) -> None:
            given = request.payload.data
            codes[code] = SimpleNamespace(
                code=code, client_id=request.client.id, user=request.user, resource=given.get("resource", ""),
                get_redirect_uri=lambda: given.get("redirect_uri"), get_scope=lambda: request.scope,
                code_challenge=given.get("code_challenge"), code_challenge_method=given.get("code_challenge_method"),
            )  # fmt: skip

        def query_authorization_code(self, code: str, client: Any) -> Any:
            found = codes.get(code)
            if (
                found is None or found.client_id != client.id or found.resource != server.resource
            ):  # RFC 8707, section 2.2
                return None
            return found

        def delete_authorization_code(self, authorization_code: Any) -> None:
            del codes[authorization_code.code]

        def authenticate_user(self, authorization_code: Any) -> Any:
            return authorization_code.user

    class Signed(JWTBearerTokenGenerator):
        def get_jwks(self) -> Any:
            self.alg = keys[-1].as_dict()["alg"]
            return keys[-1]

        def get_audiences(self, client: Any, user: Any, scope: str) -> str:
            return server.resource or client.get_client_id()

        def access_token_generator(self, *args: Any, **kwargs: Any) -> Any:
            self.get_jwks()
            return super().access_token_generator(*args, **kwargs)

    class Registration(ClientRegistrationEndpoint):
        def authenticate_token(self, request: Any) -> Any:
            return True

        def get_server_metadata(self) -> dict[str, Any]:
            return metadata

        def save_client(self, client_info: dict[str, Any], client_metadata: dict[str, Any], request: Any) -> Any:
            made = Client(client_info["client_id"], client_info["client_secret"], client_metadata)
            return clients.setdefault(made.id, made)

    class Introspect(IntrospectionEndpoint):
        def query_token(self, token_string: str, token_type_hint: str) -> Any:
            return tokens.get(token_string)

        def check_permission(self, token: Any, client: Any, request: Any) -> bool:
            return bool(client.id == RESOURCE_CLIENT[0])

        def introspect_token(self, token: Any) -> dict[str, Any]:
            return {
                "active": True, "iss": issuer, "sub": token.subject, "aud": token.resource, "scope": token.scope,
                "client_id": token.client_id, "token_type": "Bearer", "exp": int(token.expires_at),
            }  # fmt: skip

    class Revoke(RevocationEndpoint):
        def query_token(self, token_string: str, token_type_hint: Any) -> Any:
            return tokens.get(token_string)

        def revoke_token(self, token: Any, request: Any) -> None:
            token.revoked = True

    server = Server()
    server.register_grant(CodeGrant, [CodeChallenge(required=True)])
    server.register_grant(grants.ClientCredentialsGrant)
    random = BearerTokenGenerator(lambda **_: secrets.token_urlsafe(32), expires_generator=3600)
    server.register_token_generator("default", random if opaque else Signed(issuer, expires_generator=3600))
    for each in (Registration, Introspect, Revoke):
        server.register_endpoint(each)
    basic = {"grant_types": ["client_credentials"], "token_endpoint_auth_method": "client_secret_basic"}
    clients[RESOURCE_CLIENT[0]] = Client(*RESOURCE_CLIENT, basic)
    methods = ["client_secret_basic", "client_secret_post", "none"]
    metadata = {
        "issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register", "introspection_endpoint": f"{issuer}/introspect",
        "revocation_endpoint": f"{issuer}/revoke", "jwks_uri": f"{issuer}/jwks", "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "client_credentials"], "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
    }  # fmt: skip

    async def form_of(request: Any) -> Any:
        counts[request.url.path] = counts.get(request.url.path, 0) + 1
        form = {name: str(value) for name, value in (await request.form()).items()} if request.method == "POST" else {}
        return Form(request.method, str(request.url), request.headers, dict(request.query_params), form)

    async def authorize(request: Any) -> Response:
        asked = await form_of(request)
        grant = server.get_consent_grant(asked)
        if request.method == "GET":
            return HTMLResponse("<form method=post>Name: <input name=user> <button>Log in and allow</button></form>")
        return server.create_authorization_response(asked, grant_user=User(asked.form["user"]), grant=grant)  # type: ignore[no-any-return]

    async def token(request: Any) -> Any:
        asked = await form_of(request)
        server.resource = asked.form.get("resource", "")
        return server.create_token_response(asked)

    async def register(request: Any) -> Any:
        asked = JsonRequest(request.method, str(request.url), request.headers)
        asked.payload = SimpleNamespace(data=await request.json())
        return server.create_endpoint_response("client_registration", asked)

    async def introspect(request: Any) -> Any:
        return server.create_endpoint_response("introspection", await form_of(request))

    async def revoke(request: Any) -> Any:
        return server.create_endpoint_response("revocation", await form_of(request))

    async def jwks(request: Any) -> Response:
        await form_of(request)
        return JSONResponse(KeySet(keys).as_dict(private=False))

    async def described(request: Any) -> Response:
        await form_of(request)
        return JSONResponse(metadata)

    async def counted(request: Any) -> Response:
        return JSONResponse(counts)

    async def rotate(request: Any) -> Response:
        if request.method == "POST":
            more = {"kid": f"ec-{len(keys) + 1}", "use": "sig", "alg": "ES256"}
            keys.append(ECKey.generate_key("P-256", more, private=True))
        else:
            del keys[:-1]
        return JSONResponse([key.kid for key in keys])

    routes = [
        Route("/.well-known/oauth-authorization-server", described),
        Route("/authorize", authorize, methods=["GET", "POST"]),
        Route("/token", token, methods=["POST"]),
        Route("/register", register, methods=["POST"]),
        Route("/introspect", introspect, methods=["POST"]),
        Route("/revoke", revoke, methods=["POST"]),
        Route("/jwks", jwks),
        Route("/keys", rotate, methods=["POST", "DELETE"]),
        Route("/counts", counted),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning", lifespan="off")


if __name__ == "__main__":
    main(int(sys.argv[1]), "--opaque" in sys.argv)
