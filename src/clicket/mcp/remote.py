"""Another MCP server, whose tools become tools of a runtime. Its process, if we start it, ends with the runtime."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

import mcp_types as types
from mcp.shared.exceptions import MCPError

from clicket.errors import ClicketError, UsageError, did_you_mean
from clicket.mcp.imported import ImportedTool
from clicket.mcp.lineage import came_from, mark_of
from clicket.mcp.link import Link, Unreachable
from clicket.mcp.wires import over_http, over_stdio
from clicket.runtime import Runtime

__all__ = ["McpServer", "declared_servers", "join_declared", "mcp_tools"]

logger = logging.getLogger("clicket.mcp")

_MAX_PAGES = 1_000
_KNOWN = ("url", "headers", "command", "args", "env", "cwd", "prefix", "connect_timeout", "trust_hints", "options")


class McpServer:
    """`McpServer("files", command=["files-server", "--root", "."])`, or `McpServer("search", url="https://…/mcp")`.

    `await server.join(runtime)` registers its tools and keeps them fresh; `await server.tools()` gives them to whoever wants to
    register them. The command is a list, or a program beside its `args`. `prefix` is put before the tools' names. `headers` go
    with every request over HTTP, `env` is what the process gets beside the few variables that are safe to inherit. `options` are
    those of `@tool`, for each of them; `read_only` and `idempotent` follow the server's hints, unless `trust_hints` is False.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        command: str | Sequence[str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        prefix: str = "",
        connect_timeout: float = 30.0,
        trust_hints: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if (url is None) == (command is None):
            raise UsageError(f"MCP server {name!r}: give it a url or a command, and not both.")
        words = _words(name, command, args)
        if url is not None and urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"MCP server {name!r}: its url must start with http:// or https://.")
        self.name = name
        self._mark = mark_of([words, cwd])
        self._opener = (
            over_http(url, headers or {}) if url is not None else over_stdio(words, env or {}, cwd, lambda: self._mark)
        )
        self._prefix = prefix
        self._timeout = connect_timeout
        self._trust = trust_hints
        self._options = dict(options or {})
        self._tools: dict[str, ImportedTool] = {}
        self._runtimes: list[Runtime] = []
        self._link_: Link | None = None
        self._news = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"  # neither headers nor environment

    @property
    def _link(self) -> Link:
        if self._link_ is None:
            self._link_ = Link(self.name, self._opener, timeout=self._timeout, changed=self._news.set)
        return self._link_

    async def tools(self) -> list[ImportedTool]:
        """Connect if need be, and list what the server offers now."""
        client = await self._link.client()
        told: list[types.Tool] = []
        cursor: str | None = None
        try:
            for _ in range(_MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                told += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
        except MCPError as error:
            self._link.lose(client)
            raise Unreachable(f"MCP server {self.name!r} did not list its tools: {error.message}") from None
        return self._learn(told)

    def _learn(self, told: Sequence[types.Tool]) -> list[ImportedTool]:
        offered = {each.name for each in told}
        for name, tool in self._tools.items():
            tool.offered = name in offered
        for each in told:
            known = self._tools.get(each.name)
            if known is not None:
                known.learn(each, self._options, trust_hints=self._trust)
            else:
                self._tools[each.name] = ImportedTool(
                    self._link, each, prefix=self._prefix, options=self._options, trust_hints=self._trust
                )
        return [self._tools[each.name] for each in told]

    async def join(self, runtime: Runtime) -> list[ImportedTool]:
        """Register the server's tools with an open runtime, and keep up with what it offers. Closes with the runtime."""
        tools = self._register(runtime, await self.tools())
        self._runtimes.append(runtime)
        runtime.on_close(self.close)
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_fresh(), name=f"mcp {self.name} tools")
        return tools

    def _register(self, runtime: Runtime, tools: list[ImportedTool]) -> list[ImportedTool]:
        added = []
        for tool in tools:
            try:
                runtime.add(tool)
                added.append(tool)
            except ClicketError as error:  # one schema that cannot be used must not cost the other tools
                logger.warning("tool %s of MCP server %s is left out: %s", tool.remote_name, self.name, error)
        return added

    async def _keep_fresh(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                tools = await self.tools()
            except ClicketError as error:
                logger.warning("the tools of MCP server %s could not be listed again: %s", self.name, error)
                continue
            for runtime in self._runtimes:
                self._withdraw(runtime)
                self._register(runtime, tools)

    def _withdraw(self, runtime: Runtime) -> None:
        """What the server offers no more is taken out, unless somebody has put a tool of that name in its place."""
        for tool in self._tools.values():
            if not tool.offered and runtime.registry.get(tool.name) is tool:
                runtime.remove(tool.name)

    async def close(self) -> None:
        """End the connection; a process that was started for it is stopped."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        if self._link_ is not None:
            await self._link_.close()
            self._link_ = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _words(name: str, command: str | Sequence[str] | None, args: Sequence[str]) -> list[str]:
    """The program and its arguments: one list, or the shape that MCP clients have in their settings."""
    if command is None:
        if args:
            raise UsageError(f"MCP server {name!r}: args belong to a command, and there is none.")
        return []
    if isinstance(args, str) or not all(isinstance(word, str) for word in args):
        raise UsageError(f"MCP server {name!r}: args is a list of texts.")
    if isinstance(command, str):
        if not args and len(command.split()) > 1 and not os.path.exists(command):
            raise UsageError(f"MCP server {name!r}: command is a list, or one program: its arguments go into args.")
        command = [command]
    if not all(isinstance(word, str) for word in command) or not any(command[:1]):
        raise UsageError(f"MCP server {name!r}: command is a list of texts: the program, then its arguments.")
    return [*command, *args]


async def mcp_tools(*servers: McpServer) -> list[ImportedTool]:
    """The tools of several servers."""
    return [tool for server in servers for tool in await server.tools()]


# Servers that the settings declare.


def declared_servers(declared: Mapping[str, Any]) -> list[McpServer]:
    """Servers as `[mcp.servers.NAME]` of `clicket.toml` names them. `${NAME}` in a header or variable is the environment's."""
    servers = declared.get("servers", {})
    if not isinstance(servers, Mapping):
        raise UsageError("[mcp] servers must be tables: [mcp.servers.NAME] with url = … or command = […].")
    return [_declared(name, values) for name, values in servers.items()]


def _declared(name: str, values: Any) -> McpServer:
    if not isinstance(values, Mapping):
        raise UsageError(f"[mcp.servers.{name}] must be a table with url = … or command = […].")
    for key in values:
        if key not in _KNOWN:
            raise UsageError(
                f"[mcp.servers.{name}]: unknown key {key!r}.{did_you_mean(key, _KNOWN)} Known: {', '.join(_KNOWN)}."
            )
    given = dict(values)
    for key in ("headers", "env"):
        if key in given:
            if not isinstance(given[key], Mapping):
                raise UsageError(f"[mcp.servers.{name}]: {key} must be a table of names and texts.")
            given[key] = {each: _expanded(name, str(value)) for each, value in dict(given[key]).items()}
    try:
        return McpServer(name, **given)
    except TypeError as error:
        raise UsageError(f"[mcp.servers.{name}]: {error}.") from None


def _expanded(name: str, text: str) -> str:
    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise UsageError(f"[mcp.servers.{name}]: the environment variable {match[1]} is not set.")
        return found

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


async def join_declared(runtime: Runtime) -> list[McpServer]:
    """Register the tools of every declared server with an open runtime. One that cannot be reached costs its tools, no more.

    A process that was started because of this very declaration does not follow it again.
    """
    declared = getattr(runtime.settings, "mcp", {})
    servers, mark = declared_servers(declared), mark_of(declared)
    if servers and came_from(mark):
        logger.warning(
            "This process was started for one of the servers in [mcp.servers], and has the same settings: their tools are "
            "missing here, or they would start each other without end. To have them, start it with another cwd."
        )
        return []
    for server in servers:
        server._mark = mark
        try:
            await server.join(runtime)
        except Unreachable as error:
            logger.warning("%s Its tools are missing.", error.message)
    return servers
