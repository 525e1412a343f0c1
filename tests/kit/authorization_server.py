"""A real authorization server, and two services behind it, in a process of its own on loopback: `python -m tests.kit.authorization_server`.

It is the MCP SDK's: authorization codes with PKCE, refresh tokens that rotate, dynamic registration, metadata. The `user` of the
moment agrees at once. `/api/whoami` and the MCP tool `whoami` at `/mcp` say whose token came. `POST /control` changes how it behaves,
`GET /stats` says what it saw. As strict servers do, it revokes everything if a refresh token or a code is used twice.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
import time
from typing import Any, Self

import httpx2
from tests.kit.children import ROOT, environment

__all__ = ["CLIENT", "AuthorizationServer"]

CLIENT = ("clicket-test", "the-client-secret-of-clicket-test")


class AuthorizationServer:
    """The parent's half."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.authorization_server"],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self._http = httpx2.Client(base_url=self.url, timeout=30)

    def provider(self, name: str = "bank", **more: Any) -> dict[str, Any]:
        """As in `[[providers]]`, with every address written out."""
        return {
            "name": name, "kind": "oauth", "authorize_url": f"{self.url}/authorize", "token_url": f"{self.url}/token",
            "client_id": CLIENT[0], "client_secret": CLIENT[1], "client_auth": "post", "scopes": ("read",), "allow_private": True,
            **more,
        }  # fmt: skip

    def control(self, **how: Any) -> None:
        """`user`, `lifetime` (seconds of tokens), `refuse_refresh`, `delay` (seconds before a token response), `iss`, `forget` (all access
        tokens), `callback` (a redirect URI that the known client may use)."""
        assert self._http.post("/control", json=how).status_code == 200

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get("/stats").json()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _app(base: str) -> Any:  # noqa: C901  # one server, in one place
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import (
        AccessToken,
        AuthorizationCode,
        AuthorizationParams,
        RefreshToken,
        TokenError,
        construct_redirect_uri,
    )
    from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
    from mcp.server.mcpserver import MCPServer
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
    from pydantic import AnyUrl
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    how: dict[str, Any] = {"user": "ann", "lifetime": 3600.0, "refuse_refresh": False, "delay": 0.0, "iss": base}
    seen: dict[str, int] = dict.fromkeys(
        ("codes", "code_replays", "refreshes", "refresh_replays", "registered", "tokens_refused"), 0
    )
    clients = {
        CLIENT[0]: OAuthClientInformationFull(
            client_id=CLIENT[0], client_secret=CLIENT[1], redirect_uris=[AnyUrl("http://127.0.0.1/none")],
            token_endpoint_auth_method="client_secret_post", scope="read write",
            grant_types=["authorization_code", "refresh_token"],
        )
    }  # fmt: skip
    codes: dict[str, AuthorizationCode] = {}
    used: dict[str, str] = {}
    refreshes: dict[str, RefreshToken] = {}
    tokens: dict[str, AccessToken] = {}

    def revoke_all(user: str | None) -> None:
        for kept in (refreshes, tokens):
            for key in [key for key, each in kept.items() if each.subject == user]:
                del kept[key]

    def issue(
        client: OAuthClientInformationFull, scopes: list[str], user: str | None, resource: str | None
    ) -> OAuthToken:
        assert client.client_id is not None
        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        ends = time.time() + how["lifetime"]
        tokens[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, subject=user, resource=resource,
            expires_at=int(ends) + 1, claims={"ends": ends},
        )  # fmt: skip
        refreshes[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, subject=user, resource=resource
        )
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=max(int(how["lifetime"]), 1), scope=" ".join(scopes)
        )

    class Provider:
        async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
            return clients.get(client_id)

        async def register_client(self, client_info: OAuthClientInformationFull) -> None:
            assert client_info.client_id is not None
            seen["registered"] += 1
            clients[client_info.client_id] = client_info

        async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
            assert client.client_id is not None
            code = f"code-{secrets.token_urlsafe(24)}"
            codes[code] = AuthorizationCode(
                code=code, scopes=params.scopes or ["read"], expires_at=time.time() + 60, client_id=client.client_id,
                code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
                redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, subject=how["user"],
            )  # fmt: skip
            if how["user"] is None:
                return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
            return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=how["iss"])

        async def load_authorization_code(
            self, client: OAuthClientInformationFull, authorization_code: str
        ) -> AuthorizationCode | None:
            if authorization_code in used:
                seen["code_replays"] += 1
                revoke_all(used[authorization_code])
            return codes.get(authorization_code)

        async def exchange_authorization_code(
            self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
        ) -> OAuthToken:
            seen["codes"] += 1
            del codes[authorization_code.code]
            used[authorization_code.code] = authorization_code.subject or ""
            made = issue(client, authorization_code.scopes, authorization_code.subject, authorization_code.resource)
            await asyncio.sleep(how["delay"])
            return made

        async def load_refresh_token(
            self, client: OAuthClientInformationFull, refresh_token: str
        ) -> RefreshToken | None:
            if refresh_token in used:
                seen["refresh_replays"] += 1
                revoke_all(used[refresh_token])
            return refreshes.get(refresh_token)

        async def exchange_refresh_token(
            self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
        ) -> OAuthToken:
            if how["refuse_refresh"]:
                raise TokenError("invalid_grant", "no more")
            seen["refreshes"] += 1
            del refreshes[refresh_token.token]
            used[refresh_token.token] = refresh_token.subject or ""
            made = issue(client, refresh_token.scopes, refresh_token.subject, refresh_token.resource)
            await asyncio.sleep(how["delay"])
            return made

        async def load_access_token(self, token: str) -> AccessToken | None:
            found = tokens.get(token)
            if found is None or (found.claims or {})["ends"] <= time.time():
                seen["tokens_refused"] += 1
                return None
            return found

        async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
            revoke_all(token.subject)

        async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
            raise TokenError("unsupported_grant_type")

    provider = Provider()
    server = MCPServer(
        "bank",
        auth_server_provider=provider,  # type: ignore[arg-type]  # its type parameters are the SDK's own classes
        auth=AuthSettings.model_validate(
            {
                "issuer_url": base,
                "resource_server_url": f"{base}/mcp",
                "validate_token_resource": False,
                "client_registration_options": ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
            }
        ),
    )

    @server.tool()
    async def whoami(pause: float = 0.0) -> dict[str, Any]:
        """Whose token came with the request."""
        token = get_access_token()
        await asyncio.sleep(pause)
        after = get_access_token()
        assert token is not None and after is not None  # noqa: PT018  # the middleware lets no other through
        return {"user": token.subject, "after": after.subject, "token": token.token}

    @server.custom_route("/api/whoami", methods=["GET", "POST"])
    async def api(request: Request) -> Response:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        found = await provider.load_access_token(text) if scheme.lower() == "bearer" else None
        if found is None:
            quiet = request.query_params.get("quiet")
            challenge = {} if quiet else {"www-authenticate": 'Bearer error="invalid_token"'}
            return JSONResponse({"error": "unauthorized"}, 401, headers=challenge)
        return JSONResponse({"user": found.subject, "echo": text, "method": request.method})

    @server.custom_route("/control", methods=["POST"])
    async def control(request: Request) -> Response:
        given = await request.json()
        if given.pop("forget", False):
            tokens.clear()
        if (callback := given.pop("callback", None)) is not None:
            known = clients[CLIENT[0]]
            clients[CLIENT[0]] = known.model_copy(
                update={"redirect_uris": [*(known.redirect_uris or []), AnyUrl(callback)]}
            )
        how.update(given)
        return JSONResponse({})

    @server.custom_route("/stats", methods=["GET"])
    async def stats(request: Request) -> Response:
        return JSONResponse(seen)

    return server.streamable_http_app()


def main() -> None:
    import uvicorn

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        app = _app(f"http://127.0.0.1:{port}")
        sock.listen(64)
        print(port, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)).run(sockets=[sock])


if __name__ == "__main__":
    main()
