"""Which routes need no key is read from the table of operations; a request to one of them has no scope and acts for no caller."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios.server_kit import key_for, served

from clicket.server import health
from clicket.server.authentication import UNAUTHENTICATED
from clicket.server.keys import SCOPES
from clicket.server.operations import Operation, PublicPaths, ResponseSpec
from clicket.server.request import Request
from clicket.server.responses import Response, json_response

PUBLIC = {
    "GET /", "GET /console/app.css", "GET /console/app.js", "GET /console/icon.svg", "GET /healthz", "GET /readyz",
    "GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource/mcp",
    "GET /approvals/{token}", "POST /approvals/{token}",
    "GET /connect/start/{token}", "POST /connect/start/{token}", "GET /connect/callback",
    "POST /external/{token}/complete", "POST /external/{token}/fail", "POST /external/{token}/output",
    "POST /external/{token}/heartbeat",
}  # fmt: skip


async def no_handler(request: Request) -> Any:
    raise AssertionError


def operation(route: str, **more: Any) -> Operation:
    return Operation(route=route, description="", handler=no_handler, **more)


def test_an_operation_is_public_or_names_its_scopes() -> None:
    assert operation("GET /a", public=True).public
    assert operation("GET /a", scopes=("read",)).scopes
    for neither_or_both in ({}, {"public": True, "scopes": ("read",)}):
        with pytest.raises(ValueError, match="GET /a: an operation either is public or names the scopes"):
            operation("GET /a", **neither_or_both)


async def test_every_operation_of_the_server_is_public_or_needs_a_scope() -> None:
    async with served() as it:
        table = it.parts.operations
        assert {each.route for each in table if each.public} == PUBLIC
        assert all(set(each.scopes) <= set(SCOPES) and each.scopes for each in table if not each.public)


@pytest.mark.parametrize(
    ("path", "is_public"),
    [
        ("/healthz", True), ("/healthz/", False), ("/HEALTHZ", False), ("/links/abc", True), ("/links/", False), ("/links", False),
        ("/links/abc/more", False), ("/links/abc/secret", False), ("/links/a/b.c", True), ("/links/a/bxc", False), ("/calls", False),
        ("", False), ("links/abc", False), ("//links/abc", False),
    ],
)  # fmt: skip
def test_paths_are_compared_whole(path: str, is_public: bool) -> None:
    table = [
        operation("GET /healthz", public=True), operation("GET /links/{token}", public=True),
        operation("POST /links/{token}/b.c", public=True),
        operation("GET /links/{token}/secret", scopes=("read",)), operation("GET /calls", scopes=("read",)),
    ]  # fmt: skip
    assert (path in PublicPaths(table)) is is_public


def test_a_path_is_public_for_all_methods_or_none() -> None:
    with pytest.raises(ValueError, match="POST /a: its path is public for another method"):
        PublicPaths([operation("GET /a", public=True), operation("POST /a", scopes=("call",))])


async def test_a_path_that_is_not_in_the_table_needs_a_key_before_it_is_not_found() -> None:
    async with served() as it:
        key = await key_for(it, "ann", "read")
        for path in (
            "/nowhere",
            "/approvals",
            "/connect/else",
            "/external/x",
            "/console/other.js",
            "/healthz/x",
            "/%2e%2e/x",
        ):
            assert (await it.get(path)).status_code == 401, path
            assert (await it.get(path, headers=key)).status_code == 404, path
        for headers in ({}, key):
            assert (await it.post("/healthz", headers=headers)).status_code == 405


async def test_a_handler_of_a_public_route_has_no_scope_and_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The route answers without a key because the table says so; a handler that needs more than that is refused."""
    real = health.HealthHandlers.operations

    async def scopes(request: Request) -> Response:
        principal = request.principal
        return json_response([[scope for scope in SCOPES if principal.may(scope)], principal.is_admin, principal.id])

    async def calls(request: Request) -> Response:
        own = getattr(request.principal, request.path("whose"))
        return json_response([record.id for record in (await own.history()).items])

    def with_more(handlers: Any) -> Any:
        answers = {200: ResponseSpec(description="Yes.", schema=dict)}
        more = [
            Operation(route=route, description="", handler=handler, public=True, responses=answers)
            for route, handler in (("GET /test/scopes", scopes), ("GET /test/calls/{whose}", calls))
        ]
        return (*real(handlers), *more)

    monkeypatch.setattr(health.HealthHandlers, "operations", with_more)
    async with served() as it:
        await it.runtime.call("add", {"a": 1, "b": 2}, id="secret-call")
        for headers in ({}, await key_for(it, "ann", "admin"), {"authorization": "Bearer nonsense"}):
            assert (await it.get("/test/scopes", headers=headers)).json() == [[], False, ""]
            for whose in ("own", "sees"):
                answer = await it.get(f"/test/calls/{whose}", headers=headers)
                assert answer.status_code == 401
                assert "secret-call" not in answer.text
    assert UNAUTHENTICATED.approver.names, "it is not the program itself"
