"""`Host` and `Origin`: the server on loopback refuses requests of foreign web pages."""

from __future__ import annotations

import pytest
from tests.scenarios.server_kit import Api, served

from clicket.server.host_check import HostCheck, is_loopback
from clicket.server.problems import Refused

METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")


async def status(it: Api, method: str, path: str, **headers: str) -> int:
    answer = await it.client.request(method, path, headers=headers)
    assert answer.status_code != 403 or method == "HEAD" or answer.json()["code"].startswith("foreign_")
    return int(answer.status_code)


async def test_a_foreign_host_is_refused_on_every_method_and_path() -> None:
    async with served() as it:
        paths = sorted({operation.path for operation in it.parts.operations} | {"/mcp", "/nowhere"})
        for path in paths:
            for method in METHODS:
                assert await status(it, method, path, host="evil.example") == 403, (method, path)
                assert await status(it, method, path, origin="http://evil.example") == 403, (method, path)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.2",
        "",
        "[::2]",
        "a@localhost",
        "localhost:80x",
        "[::1]evil.test",
        "[::1]evil.test:80",
        "[::1]:80x",
        "[::1]:",
        "[::1",
        "[localhost].evil.test",
    ],
)
async def test_foreign_hosts(host: str) -> None:
    async with served() as it:
        assert await status(it, "GET", "/healthz", host=host) == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1234", "127.0.0.1:9", "[::1]", "[::1]:80", "own.example", "other.example:443"]
)
async def test_own_hosts(host: str) -> None:
    async with served(options={"allowed_hosts": ("own.example", "Other.Example:443")}) as it:
        assert await status(it, "GET", "/healthz", host=host) == 200


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:{port}", 200),
        ("https://localhost:{port}", 200),
        ("http://localhost", 403),
        ("http://localhost:1", 403),
        ("null", 403),
        ("", 403),
        ("http://evil.example", 403),
        ("http://localhost:{port}.evil.example", 403),
        ("file://", 403),
        ("https://page.example", 200),
    ],
)
async def test_origins(origin: str, expected: int) -> None:
    async with served(options={"allowed_origins": ("https://page.example/",)}) as it:
        text = origin.format(port=it.served.port)
        answer = await it.get("/tools", headers={"host": f"localhost:{it.served.port}", "origin": text})
        assert answer.status_code == expected
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == ("https://page.example" if text == "https://page.example" else None)


async def test_no_cors_unless_it_is_configured() -> None:
    preflight = {"origin": "https://page.example", "access-control-request-method": "POST"}
    async with served() as it:
        answer = await it.options("/calls", headers=preflight)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
    async with served(options={"allowed_origins": ("https://page.example",)}) as it:
        answer = await it.options("/calls", headers=preflight)
        assert answer.status_code == 204
        assert "authorization" in answer.headers["access-control-allow-headers"]
        assert "*" not in answer.headers["access-control-allow-origin"]
        assert "access-control-allow-credentials" not in answer.headers
        asked = (
            "authorization, Mcp-Protocol-Version, mcp-session-id, Mcp-Param-City, a2a-version, x-other, mcp-param-a\tb"
        )
        answer = await it.options("/mcp", headers={**preflight, "access-control-request-headers": asked})
        allowed = set(answer.headers["access-control-allow-headers"].split(", "))
        assert {"authorization", "mcp-protocol-version", "mcp-session-id", "mcp-param-city", "a2a-version"} <= allowed
        assert not {"x-other", "*"} & allowed
        assert not [name for name in allowed if "\t" in name]
        answer = await it.post("/mcp", headers=preflight, content=b"{")
        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {"mcp-session-id", "www-authenticate", "retry-after", "location"} <= exposed


async def test_a_form_of_another_page_does_nothing() -> None:
    """What a browser sends without a preflight: a simple POST, with a body that looks like JSON."""
    async with served() as it:
        body = b'{"tool": "echo", "arguments": {"value": "="}}'
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"):
            for origin in ("http://evil.example", "null"):
                answer = await it.post("/calls", content=body, headers={"content-type": kind, "origin": origin})
                assert answer.status_code == 403
            assert (await it.post("/calls", content=body, headers={"content-type": kind})).status_code == 415
        assert (await it.get("/calls")).json()["items"] == []


async def test_two_hosts_are_none() -> None:
    hosts = HostCheck("127.0.0.1", (), ())
    for headers in ([], [(b"host", b"localhost"), (b"host", b"evil.example")]):
        with pytest.raises(Refused):
            hosts.check({"headers": headers, "server": ("127.0.0.1", 80)})
    with pytest.raises(Refused):
        twice = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"origin", b"http://evil.example")]
        hosts.check({"headers": twice, "server": ("127.0.0.1", 80)})


async def test_answers_carry_their_headers() -> None:
    async with served() as it:
        for path in ("/tools", "/nowhere", "/healthz", "/"):
            headers = (await it.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert "unsafe" not in headers["content-security-policy"]
            assert "server" not in headers


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("127.9.9.9", True), ("127.evil.a.b", False),
     ("0.0.0.0", False), ("10.0.0.1", False), ("", False)],
)  # fmt: skip
def test_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
