"""A real authorization server as a process of its own on loopback, as tests use it. Its program is `tests/kit/authorization_app.py`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import httpx2
from tests.kit.children import ROOT, environment
from tests.kit.forks import SERVER, forked
from tests.kit.waiting import PATIENCE

__all__ = ["CLIENT", "REDIRECT", "RESOURCE_CLIENT", "AuthorizationServer"]

CLIENT = ("clicket-test", "the-client-secret-of-clicket-test")
"""A client that is known from the beginning; `control(callback=…)` adds an address that people are sent back to."""
RESOURCE_CLIENT = ("resource-server", "secret-of-the-resource-server")
"""May introspect and revoke tokens."""
REDIRECT = "http://127.0.0.1:9/callback"
"""Nothing listens there: tests read the address that the browser is sent to."""
_FORKED = forked("tests.kit.authorization_app", "mcp.server.mcpserver", *SERVER)


class AuthorizationServer:
    """`user` agrees to everything at once; without one, people log in with a form that asks for a name. `signed`: access tokens are JWTs
    (RFC 9068), else random. `services`: behind it are `/api/whoami` and the MCP tool `whoami` at `/mcp`, which say whose token came."""

    def __init__(self, *, user: str = "ann", signed: bool = False, services: bool = True) -> None:
        flags = [name for name, is_set in (("--signed", signed), ("--services", services)) if is_set]
        self.process = subprocess.Popen(
            [sys.executable, *_FORKED, "-m", "tests.kit.authorization_app", user, *flags],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.http = httpx2.Client(base_url=self.url, timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def control(self, **how: Any) -> None:
        """`user` (None: declines), `lifetime` (seconds of tokens), `refuse_refresh`, `delay` (seconds before a token response), `iss`,
        `forget` (all access tokens), `callback` (a redirect URI that the known client may use)."""
        assert self.http.post("/control", json=how).status_code == 200

    def stats(self) -> dict[str, Any]:
        """How many codes and refresh tokens were used, and used again; clients registered; access tokens refused by the services."""
        found: dict[str, Any] = self.http.get("/stats").json()
        return found

    def asked(self) -> dict[str, int]:
        """How often each path was asked for."""
        counts: dict[str, int] = self.http.get("/counts").json()
        return counts

    # For servers that send people here.

    def provider(self, name: str = "bank", **more: Any) -> dict[str, Any]:
        """As in `[[providers]]`, with every address written out."""
        return {
            "name": name, "kind": "oauth", "authorize_url": f"{self.url}/authorize", "token_url": f"{self.url}/token",
            "client_id": CLIENT[0], "client_secret": CLIENT[1], "client_auth": "post", "scopes": ("read",), "allow_private": True,
            **more,
        }  # fmt: skip

    # For servers that take its tokens.

    def settings(self, audience: str, **more: Any) -> dict[str, Any]:
        """`[oauth]` of a server that takes its tokens."""
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
