"""Access tokens in place of API keys. The issuer here is a key and a page; in real life it is your authorization server.

It needs `pip install 'clicket[server,oauth]'`, which includes clicket[server].
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from clicket import Runtime, tool
from clicket.server import serving

KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC = {**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "1", "alg": "ES256"}
AUDIENCE = "https://tools.example"


class Issuer(BaseHTTPRequestHandler):
    """The two pages of an authorization server that a resource server reads."""

    def do_GET(self) -> None:
        url = f"http://127.0.0.1:{self.server.server_port}"
        metadata = {"issuer": url, "jwks_uri": f"{url}/keys"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"keys": [PUBLIC]} if self.path == "/keys" else metadata).encode())

    def log_message(self, *_: object) -> None: ...


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(issuer: str) -> None:
    oauth = {
        "issuer": issuer,
        "audience": AUDIENCE,
        "scopes_map": {"tools.read": "read", "tools.use": ["read", "call"]},
    }

    def token(subject: str, scope: str, audience: str = AUDIENCE) -> dict[str, str]:
        claims = {"iss": issuer, "sub": subject, "aud": audience, "exp": time.time() + 60, "scope": scope}
        return {"authorization": "Bearer " + jwt.encode(claims, KEY, "ES256", {"kid": "1"})}

    runtime = Runtime([add], store="memory://", oauth=oauth)
    async with serving(runtime, port=0) as server, httpx2.AsyncClient(base_url=server.url) as http:
        body = {"tool": "add", "arguments": {"a": 1, "b": 2}, "id": "one", "wait": True}
        refused = await http.post("/calls", json=body)
        print(refused.status_code, refused.headers["www-authenticate"])
        print((await http.get("/.well-known/oauth-protected-resource")).json())
        print((await http.post("/calls", json=body, headers=token("ann", "tools.use"))).json()["output"])
        for who, scope, audience in (
            ("ann", "tools.read", AUDIENCE),
            ("ann", "tools.use", "https://another.example"),
            ("bob", "tools.use", AUDIENCE),
        ):
            answer = await http.post("/calls/one/again", headers=token(who, scope, audience))
            print(answer.status_code, answer.json()["detail"])


if __name__ == "__main__":
    page = HTTPServer(("127.0.0.1", 0), Issuer)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    asyncio.run(main(f"http://127.0.0.1:{page.server_port}"))
    page.shutdown()
    page.server_close()
