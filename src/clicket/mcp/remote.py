"""Another MCP server, whose tools become tools of a runtime. Its process, if we start it, ends with the runtime."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
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
_MAX_DEFINITION = 256 * 1024
"""Bytes of one tool's description and schemas, as JSON."""
_MAX_WARNINGS = 10
"""Tools that are left out and named in the log, each time that the list is read."""
_LEAST_PAUSE = 0.5
_PAUSE_FACTOR = 20.0
"""After the list was read again, the next change waits this many times as long as that took, and `_LEAST_PAUSE` at least."""
_BATCH = 20
"""Tools that are registered before other tasks of the event loop run."""
_KNOWN = (
    *(
        "url",
        "headers",
        "command",
        "args",
        "env",
        "cwd",
        "prefix",
        "connect_timeout",
        "trust_hints",
        "options",
        "max_tools",
    ),
)


class McpServer:
    """`McpServer("files", command=["files-server", "--root", "."])`, or `McpServer("search", url="https://…/mcp")`.

    `await server.join(runtime)` registers its tools and keeps them fresh; `await server.tools()` gives them to whoever wants to
    register them. The command is a list, or a program beside its `args`. `prefix` is put before the tools' names. `headers` go
    with every request over HTTP, `env` is what the process gets beside the few variables that are safe to inherit. `options` are
    those of `@tool`, for each of them; `read_only` and `idempotent` follow the server's hints, unless `trust_hints` is False.
    Of a server that offers more than `max_tools`, the first ones are taken. Changes of its list are followed, but not more often
    than every half second, and the more seldom the longer it takes.
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
        max_tools: int = 1_000,
    ) -> None:
        if type(max_tools) is not int or max_tools < 1:
            raise UsageError(f"MCP server {name!r}: max_tools must be a whole number from 1, not {max_tools!r}.")
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
        self._max_tools = max_tools
        self._tools: dict[str, ImportedTool] = {}
        self._changed: set[str] = set()
        self._forgotten: list[ImportedTool] = []
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
                if cursor is None or len(told) > self._max_tools:
                    break
        except MCPError as error:
            self._link.lose(client)
            raise Unreachable(f"MCP server {self.name!r} did not list its tools: {error.message}") from None
        return await self._learn(self._within_limits(told))

    def _within_limits(self, told: Sequence[types.Tool]) -> list[types.Tool]:
        """The first tools, each name once, without those whose definitions are too big."""
        unique = list({each.name: each for each in reversed(told)}.values())[::-1]
        kept = [each for each in unique[: self._max_tools] if _size(each) <= _MAX_DEFINITION]
        if len(unique) > self._max_tools:
            logger.warning(
                "MCP server %s offers more than %d tools; the others are left out. max_tools=… raises the limit.",
                self.name,
                self._max_tools,
            )
        self._warn_of_left_out(
            [each.name for each in unique[: self._max_tools] if _size(each) > _MAX_DEFINITION],
            f"its definition is larger than {_MAX_DEFINITION} bytes",
        )
        return kept

    async def _learn(self, told: Sequence[types.Tool]) -> list[ImportedTool]:
        offered = {each.name for each in told}
        for name, tool in self._tools.items():
            tool.offered = name in offered
        self._changed = set()
        for number, each in enumerate(told):
            if number % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
            known = self._tools.get(each.name)
            if known is None:
                self._tools[each.name] = ImportedTool(
                    self._link, each, prefix=self._prefix, options=self._options, trust_hints=self._trust
                )
            elif not known.learn(each, self._options, trust_hints=self._trust):
                continue
            self._changed.add(each.name)
        tools = [self._tools[each.name] for each in told]
        if len(self._tools) > 2 * self._max_tools:  # a server that renames its tools must not use up memory
            self._forgotten += [tool for tool in self._tools.values() if not tool.offered]
            self._tools = {name: tool for name, tool in self._tools.items() if tool.offered}
        return tools

    async def join(self, runtime: Runtime) -> list[ImportedTool]:
        """Register the server's tools with an open runtime, and keep up with what it offers. Closes with the runtime."""
        tools = await self._register(runtime, await self.tools())
        self._runtimes.append(runtime)
        runtime.on_close(self.close)
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_fresh(), name=f"mcp {self.name} tools")
        return tools

    async def _register(self, runtime: Runtime, tools: list[ImportedTool]) -> list[ImportedTool]:
        """Register what is new or changed; gives the tools that the runtime has."""
        added: list[ImportedTool] = []
        left_out: list[str] = []
        for tool in tools:
            if tool.remote_name not in self._changed and runtime.registry.get(tool.name) is tool:
                added.append(tool)
                continue
            if len(added) % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
            try:
                runtime.add(tool)
                added.append(tool)
            except ClicketError as error:  # one schema that cannot be used must not cost the other tools
                left_out.append(f"{tool.remote_name}: {error}")
        self._warn_of_left_out(left_out, "it cannot be registered")
        return added

    def _warn_of_left_out(self, names: Sequence[str], why: str) -> None:
        for name in names[:_MAX_WARNINGS]:
            logger.warning("tool %.1000r of MCP server %s is left out: %s", name, self.name, why)
        if len(names) > _MAX_WARNINGS:
            logger.warning("%d more tools of MCP server %s are left out.", len(names) - _MAX_WARNINGS, self.name)

    async def _keep_fresh(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            began = time.monotonic()
            await self._refresh()
            # Changes that come meanwhile are one change: a server cannot keep us busy with them.
            await asyncio.sleep(max(_LEAST_PAUSE, _PAUSE_FACTOR * (time.monotonic() - began)))

    async def _refresh(self) -> None:
        try:
            tools = await self.tools()
        except ClicketError as error:
            logger.warning("the tools of MCP server %s could not be listed again: %s", self.name, error)
            return
        for runtime in self._runtimes:
            self._withdraw(runtime)
            await self._register(runtime, tools)
        self._forgotten = []

    def _withdraw(self, runtime: Runtime) -> None:
        """What the server offers no more is taken out, unless somebody has put a tool of that name in its place."""
        for tool in (*self._tools.values(), *self._forgotten):
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


def _size(told: types.Tool) -> int:
    return len(told.model_dump_json())


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
