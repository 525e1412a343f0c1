"""An issuer of access tokens in the test's own process: it signs whatever it is told to, and its endpoints misbehave on demand.

For tests of what a resource server refuses. The honest, whole authorization server is `tests/kit/authorization_server.py`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.mcp.kit import listening

__all__ = ["AUDIENCE", "CLIENT", "MAP", "Issuer", "bearer", "issuing", "raw_token"]

AUDIENCE = "https://tools.example"
MAP = {"t.read": "read", "t.call": "call", "t.approve": "approve", "t.admin": "admin"}
CLIENT = ("clicket", "the-secret-of-clicket")
_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
"""One for all tests: making it takes as long as ten tests."""


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def raw_token(header: dict[str, Any], claims: Any, signature: bytes = b"x") -> str:
    """A token with any header, as no library would make it."""
    parts = [
        json.dumps(header).encode(),
        claims if isinstance(claims, bytes) else json.dumps(claims).encode(),
        signature,
    ]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


class Issuer:
    """`url` is its issuer identifier. `behave` replaces the answer of every endpoint: `it.behave = it.endless`."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, Any] = {"k1": _RSA}
        self.tokens: dict[str, dict[str, Any]] = {}
        """Opaque tokens, and what introspection says about them."""
        self.asked: list[str] = []
        self.bodies: list[dict[str, str]] = []
        self.behave: Callable[[], Response] | None = None
        self.more_keys: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {}

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"issuer": self.url, "audience": AUDIENCE, "scopes_map": MAP, **more}

    def introspected(self, **more: Any) -> dict[str, Any]:
        given = {"introspection": f"{self.url}/introspect", "client_id": CLIENT[0], "client_secret": CLIENT[1]}
        return self.settings(**given, **more)

    def claims(self, *scopes: str, **other: Any) -> dict[str, Any]:
        now = int(time.time())
        made = {"iss": self.url, "sub": "ann", "aud": AUDIENCE, "exp": now + 300, "iat": now, "client_id": "app"}
        made["scope"] = " ".join(f"t.{scope}" for scope in scopes)
        return {name: value for name, value in {**made, **other}.items() if value is not None}

    def sign(
        self, *scopes: str, kid: str = "k1", alg: str = "", headers: dict[str, Any] | None = None, **other: Any
    ) -> str:
        key = self.keys[kid]
        kind = alg or ("RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256")
        return jwt.encode(self.claims(*scopes, **other), key, kind, {"kid": kid, "typ": "at+jwt", **(headers or {})})

    def opaque(self, name: str, *scopes: str, **other: Any) -> str:
        self.tokens[name] = {"active": True, "token_type": "Bearer", **self.claims(*scopes, **other)}
        return name

    def add_key(self, kid: str) -> None:
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> list[dict[str, Any]]:
        made = []
        for kid, key in self.keys.items():
            kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
            made.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"})
        return [*made, *self.more_keys]

    # How endpoints may misbehave.

    def down(self) -> Response:
        return Response("no", 500)

    def huge(self) -> Response:
        return Response(json.dumps({"keys": self.jwks(), "active": True, "x": "x" * 1_000_000}))

    def endless(self) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield b" " * 10_000
                await asyncio.sleep(0)  # the client is in the same process

        return StreamingResponse(parts())

    def slow(self) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.02)

        return StreamingResponse(parts())

    def text(self) -> Response:
        return Response("<html>")

    def deep(self) -> Response:
        return Response("[" * 100_000)

    def packed(self) -> Response:
        return Response(b"\x1f\x8b\x08", headers={"content-encoding": "gzip"})

    def elsewhere(self) -> Response:
        return RedirectResponse(f"{self.url}/jwks")

    def app(self) -> Starlette:
        async def answer(request: Any) -> Response:
            path = request.url.path
            self.asked.append(path)
            if path == "/introspect":
                self.bodies.append({name: str(value) for name, value in (await request.form()).items()})
                expected = "Basic " + base64.b64encode(":".join(CLIENT).encode()).decode()
                if request.headers.get("authorization") != expected:
                    return Response("", 401)
            if self.behave is not None:
                return self.behave()
            if path == "/jwks":
                return JSONResponse({"keys": self.jwks()})
            if path == "/introspect":
                return JSONResponse(self.tokens.get(self.bodies[-1].get("token", ""), {"active": False}))
            if path == "/.well-known/openid-configuration":
                own = {"jwks_uri": f"{self.url}/jwks", "introspection_endpoint": f"{self.url}/introspect"}
                return JSONResponse({"issuer": self.url, **own, **self.metadata})
            return Response("", 404)

        return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    made = Issuer()
    async with listening(made.app()) as url:
        made.url = url
        yield made
