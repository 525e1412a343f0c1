"""`GET /`: a static page for browsers. It needs no key, loads nothing and runs no script."""

from __future__ import annotations

from clicket.server.operations import Operation, ResponseSpec
from clicket.server.request import Request
from clicket.server.responses import Response

__all__ = ["OPERATIONS"]

_PAGE = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>clicket</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}code{background:#8882}</style>
<h1>clicket</h1>
<p>This server runs tool calls as durable, observable state machines.</p>
<ul>
<li><a href="/openapi.json">/openapi.json</a> describes every route (OpenAPI 3.1)
<li><a href="/tools">/tools</a> lists what can be called
<li><a href="/calls">/calls</a> lists what was called
<li><a href="/healthz">/healthz</a> and <a href="/readyz">/readyz</a> are for probes, <a href="/metrics">/metrics</a> for Prometheus
</ul>
<p>Where keys are set, send one with each request: <code>Authorization: Bearer ck_&hellip;</code></p>
</html>
"""
_POLICY = b"default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _policy() -> bytes:
    from base64 import b64encode
    from hashlib import sha256

    style = _PAGE.partition(b"<style>")[2].partition(b"</style>")[0]
    return _POLICY % b64encode(sha256(style).digest())


async def page(request: Request) -> Response:
    return Response(200, _PAGE, b"text/html; charset=utf-8", policy=_policy())


OPERATIONS = (
    Operation(
        route="GET /",
        description="A page with links.",
        handler=page,
        public=True,
        responses={200: ResponseSpec(description="The page.", media_type="text/html")},
        tag="health",
    ),
)
