"""MCP Apps (`io.modelcontextprotocol/ui`): results and approvals as pages, for hosts that show them.

A client that declares the extension gets a page with every tool (`_meta.ui.resourceUri`), into which the host puts the tool's result. It
can also read what waits for a person, and single calls, as pages. Other clients see none of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import mcp_types as types
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.shared.exceptions import MCPError

from clicket.adapters.mcp.app_pages import approvals_page, call_page, result_page
from clicket.adapters.mcp.request_context import AccessFor, RequestContext, SdkContext, read_context
from clicket.errors import NotFound, UsageError

__all__ = ["APPS", "AppResources", "tool_meta"]

APPS = EXTENSION_ID
_RESULT = "ui://clicket/result.html"
_APPROVALS = "ui://clicket/approvals.html"
_CALL = "ui://clicket/calls/"
_MAX_LISTED = 50
_META: dict[str, Any] = {"ui": {"csp": {}, "prefersBorder": True}}
"""No other origin is needed for anything."""
Handler = Callable[[SdkContext, Any], Awaitable[Any]]


def tool_meta(ctx: SdkContext) -> dict[str, Any] | None:
    """`_meta` of every tool, for a client that shows pages."""
    return {"ui": {"resourceUri": _RESULT}} if client_supports_apps(ctx) else None


class AppResources:
    """The handlers of `resources/list`, `resources/templates/list` and `resources/read`. `others`: the program's own handlers."""

    def __init__(self, access_for: AccessFor, others: dict[str, Handler]) -> None:
        self._access_for = access_for
        self._others = others

    async def resources(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        other = self._others.get("resources/list")
        found: types.ListResourcesResult = (
            types.ListResourcesResult(resources=[]) if other is None else await other(ctx, params)
        )
        if not client_supports_apps(ctx) or (params is not None and params.cursor is not None):
            return found
        pages = [_resource(_RESULT, "The result of a tool"), _resource(_APPROVALS, "Calls that wait for a person")]
        return found.model_copy(update={"resources": [*pages, *found.resources]})

    async def templates(
        self, ctx: SdkContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        other = self._others.get("resources/templates/list")
        found: types.ListResourceTemplatesResult = (
            types.ListResourceTemplatesResult(resource_templates=[]) if other is None else await other(ctx, params)
        )
        if not client_supports_apps(ctx) or (params is not None and params.cursor is not None):
            return found
        page = types.ResourceTemplate(
            name="A call", uri_template=f"{_CALL}{{id}}", mime_type=APP_MIME_TYPE, _meta=_META
        )
        return found.model_copy(update={"resource_templates": [page, *found.resource_templates]})

    async def read(self, ctx: SdkContext, params: types.ReadResourceRequestParams) -> Any:
        uri = params.uri
        other = self._others.get("resources/read")
        if uri == _RESULT:
            return _page(uri, result_page())
        if uri == _APPROVALS:
            request = self._reader(ctx)
            waiting = await request.runtime.history(waiting_for="approval", limit=_MAX_LISTED)
            return _page(uri, approvals_page(waiting.items))
        if uri.startswith(_CALL):
            return _page(uri, await self._call(self._reader(ctx), unquote(uri.removeprefix(_CALL))))
        if other is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no resource {uri[:200]!r}.")
        return await other(ctx, params)

    def _reader(self, ctx: SdkContext) -> RequestContext:
        request = read_context(ctx, self._access_for)
        if not request.may_read:
            raise MCPError(types.INVALID_PARAMS, "This key lacks the scope read. Use one that has it.")
        return request

    async def _call(self, request: RequestContext, id: str) -> str:
        """A call of the request's key. One of another key is not found."""
        try:
            record = await request.runtime.get(id)
        except (NotFound, UsageError):
            raise MCPError(types.INVALID_PARAMS, f"There is no call {id[:200]!r} of this key.") from None
        return call_page(record)


def _resource(uri: str, title: str) -> types.Resource:
    return types.Resource(uri=uri, name=uri, title=title, mime_type=APP_MIME_TYPE, _meta=_META)


def _page(uri: str, html: str) -> types.ReadResourceResult:
    page = types.TextResourceContents(uri=uri, mime_type=APP_MIME_TYPE, text=html, _meta=_META)
    return types.ReadResourceResult(contents=[page])
