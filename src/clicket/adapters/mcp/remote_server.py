"""Another MCP server, whose tools are registered with a runtime. A process that was started for it ends with the runtime."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from clicket import system
from clicket.adapters.mcp.caller_connections import Bearer, CallerConnections
from clicket.adapters.mcp.client_tasks import cancel_task
from clicket.adapters.mcp.connection import Connection, Unreachable
from clicket.adapters.mcp.imported_tool import ImportedTool
from clicket.adapters.mcp.parked_tasks import ParkedTasks
from clicket.adapters.mcp.process_ancestry import declaration_id, is_descended_from
from clicket.adapters.mcp.remote_requests import RemoteRequests, Sampler
from clicket.adapters.mcp.tool_list import read_tool_list, warn_of_left_out
from clicket.adapters.mcp.transports import over_http, over_stdio
from clicket.errors import ClicketError, UsageError
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings.tables import McpServerTable, given_of
from clicket.tools.check import bound_schema

__all__ = ["McpServer", "declared_servers", "join_declared", "mcp_tools"]

logger = logging.getLogger("clicket.mcp")

_MIN_PAUSE = 0.5
_PAUSE_FACTOR = 20.0
"""After the list was read again, the next change waits this many times as long as that took, and `_MIN_PAUSE` at least."""
_BATCH = 20
"""Tools that are registered before other tasks of the event loop run."""
_MAX_LISTING = 10.0
"""The list may take this many times as long as the connection."""
_MODES = {"auto": "auto", "2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
"""Protocol versions, and the SDK's names for them."""
_CANCEL_TIMEOUT = 10.0


class McpServer:
    """`McpServer("files", command=["files-server", "--root", "."])`, or `McpServer("search", url="https://…/mcp")`.

    `await server.join(runtime)` registers its tools and keeps them up to date; `await server.tools()` only returns them. The command
    is a list, or a program with its `args`. `prefix` is put before the tools' names. `headers` are sent with every HTTP request;
    `credentials="github"` sends the token of each call's caller for that provider, over a session of its own. `env` is added to the few
    variables that are safe to inherit. `options` are those of `@tool`, for each of the tools; `read_only` and `idempotent` follow the
    server's hints, unless `trust_hints` is False. Of a server that offers more than `max_tools`, the first ones are taken. Changes of its
    list are read at most every half second, and less often when reading the list takes long. `protocol` is `auto`,
    `2025-11-25` or `2026-07-28`.

    The server's questions to the user wait like approvals, each for `question_timeout` seconds; `questions=False` declines them.
    `roots` are folders that it may know of. `sampling` is an async function that gets the server's request for a model's reply, and
    returns a `CreateMessageResult` of the SDK. Without them the client declares neither capability.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        credentials: str | None = None,
        command: str | Sequence[str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        prefix: str = "",
        connect_timeout: float = 30.0,
        trust_hints: bool = True,
        options: Mapping[str, Any] | None = None,
        max_tools: int = 1_000,
        protocol: str = "auto",
        questions: bool = True,
        question_timeout: float | None = 3_600.0,
        roots: Sequence[str] = (),
        sampling: Sampler | None = None,
    ) -> None:
        if type(max_tools) is not int or max_tools < 1:
            raise UsageError(f"MCP server {name!r}: max_tools must be a whole number from 1, not {max_tools!r}.")
        if (url is None) == (command is None):
            raise UsageError(f"MCP server {name!r}: give it a url or a command, and not both.")
        command_line = _command_line(name, command, args)
        if url is not None and urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"MCP server {name!r}: its url must start with http:// or https://.")
        _check_credentials(name, url, credentials, headers or {})
        if protocol not in _MODES:
            raise UsageError(f"MCP server {name!r}: protocol is one of {', '.join(_MODES)}, not {protocol!r}.")
        if isinstance(roots, str) or not all(isinstance(root, str) for root in roots):
            raise UsageError(f"MCP server {name!r}: roots is a list of folders.")
        if type(questions) is not bool:
            raise UsageError(f"MCP server {name!r}: questions is true or false, not {questions!r}.")
        self.name = name
        self._requests = RemoteRequests(
            name, questions=questions, question_timeout=question_timeout, sampling=sampling, roots=roots
        )
        self._parked = ParkedTasks(self._cancel_task)
        self._mode = _MODES[protocol]
        self.declaration = declaration_id([command_line, cwd])
        """Identifies what this server was declared by, for the processes that it starts."""
        self._credentials = credentials
        self._bearer = None if credentials is None else Bearer(credentials)
        self._opener = (
            over_http(url, headers or {}, self._client_options, self._bearer)
            if url is not None
            else over_stdio(command_line, env or {}, cwd, lambda: self.declaration, self._client_options)
        )
        self._list_changed = asyncio.Event()
        self._prefix = prefix
        self._timeout = connect_timeout
        self._list_timeout = _MAX_LISTING * connect_timeout
        self._trust = trust_hints
        self._options = dict(options or {})
        self._connections: CallerConnections | None = None
        if credentials is not None and url is not None:
            own = self._options.get("credentials", ())
            self._options["credentials"] = [credentials, *([own] if isinstance(own, str) else own)]
            self._connections = CallerConnections(
                name,
                credentials,
                lambda bearer: over_http(url, headers or {}, self._client_options, bearer, list_first=True),
                timeout=connect_timeout,
                changed=self._list_changed.set,
            )
        self._max_tools = max_tools
        self._tools: dict[str, ImportedTool] = {}
        self._changed: set[str] = set()
        self._forgotten: list[ImportedTool] = []
        self._runtimes: list[Runtime] = []
        self._opened: Connection | None = None
        self._refresher: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"  # neither headers nor environment

    @property
    def known_tools(self) -> list[ImportedTool]:
        """The tools that the server offered when its list was read last, and some that it offered before."""
        return list(self._tools.values())

    @property
    def _connection(self) -> Connection:
        if self._opened is None:
            self._opened = Connection(self.name, self._opener, timeout=self._timeout, changed=self._list_changed.set)
        return self._opened

    async def tools(self) -> list[ImportedTool]:
        """Connect if need be, and list the tools that the server offers now."""
        await self._take_own_token()
        client = await self._connection.client()
        try:
            async with asyncio.timeout(self._list_timeout):
                definitions = await read_tool_list(client, self.name, self._max_tools)
        except MCPError as error:
            self._connection.lose(client)
            raise Unreachable(f"MCP server {self.name!r} did not list its tools: {error.message}") from None
        except TimeoutError:
            self._connection.lose(client)
            raise Unreachable(
                f"MCP server {self.name!r} did not list its tools within {self._list_timeout:g} s."
            ) from None
        return await self._update(definitions)

    async def _take_own_token(self) -> None:
        """The list is read with the program's own credential, if it has one; some servers show it to every client."""
        if self._bearer is None or self._credentials is None or not self._runtimes:
            return
        try:
            self._bearer.token = await self._runtimes[-1].credentials.token(self._credentials)
        except ClicketError as error:
            self._bearer.token = ""
            logger.info(
                "MCP server %s: the program itself has no credential for %s that works, so its tools are listed without one: %s",
                self.name,
                self._credentials,
                error,
            )

    async def _update(self, definitions: Sequence[types.Tool]) -> list[ImportedTool]:
        offered = {each.name for each in definitions}
        for name, tool in self._tools.items():
            tool.offered = name in offered
        self._changed = set()
        for number, each in enumerate(definitions):
            if number % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
            known = self._tools.get(each.name)
            if known is None:
                self._tools[each.name] = ImportedTool(
                    self._connection,
                    self._requests,
                    self._parked,
                    each,
                    prefix=self._prefix,
                    options=self._options,
                    trust_hints=self._trust,
                    connections=self._connections,
                )
            elif not known.update(each, self._options, trust_hints=self._trust):
                continue
            self._changed.add(each.name)
        tools = [self._tools[each.name] for each in definitions]
        if len(self._tools) > 2 * self._max_tools:  # a server that renames its tools must not use up memory
            self._forgotten += [tool for tool in self._tools.values() if not tool.offered]
            self._tools = {name: tool for name, tool in self._tools.items() if tool.offered}
        return tools

    def _client_options(self) -> dict[str, Any]:
        return {"mode": self._mode, **self._requests.client_options()}

    async def _cancel_task(self, runtime: Runtime, id: str) -> None:
        """Cancel a task that no call follows any more. The runtime acts for the task's caller. If the server cannot be reached, or the
        caller has no token for it any more, the task ends by its time to live."""
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT), self._connection_of(runtime) as connection:
                await cancel_task(await connection.client(), id)
        except (MCPError, ClicketError, ValidationError, RuntimeError, TimeoutError) as error:
            logger.info("task %.100r of MCP server %s could not be cancelled: %s", id, self.name, error)

    @asynccontextmanager
    async def _connection_of(self, runtime: Runtime) -> AsyncIterator[Connection]:
        """The connection of the caller for whom the runtime acts, if the server knows callers by their tokens."""
        if self._connections is None or self._credentials is None:
            yield self._connection
        else:
            token = await runtime.credentials.token(self._credentials)
            async with self._connections.lent(runtime.caller or "", token) as used:
                yield used.connection

    async def join(self, runtime: Runtime) -> list[ImportedTool]:
        """Register the server's tools with an open runtime, and follow changes of its list. Closes with the runtime."""
        self._runtimes.append(runtime)
        try:
            tools = await self._register(runtime, await self.tools())
        except BaseException:
            self._runtimes.remove(runtime)
            raise
        self._parked.watch(runtime)
        runtime.on_close(self.close)
        if self._refresher is None:
            self._refresher = asyncio.create_task(self._refresh_on_changes(), name=f"mcp {self.name} tools")
        return tools

    async def _register(self, runtime: Runtime, tools: list[ImportedTool]) -> list[ImportedTool]:
        """Register new and changed tools. Returns the tools that the runtime has."""
        added: list[ImportedTool] = []
        left_out: list[str] = []
        for tool in tools:
            if tool.remote_name not in self._changed and runtime.registry.get(tool.name) is tool:
                added.append(tool)
                continue
            if len(added) % _BATCH == _BATCH - 1:
                await asyncio.sleep(0)
            try:
                if tool.output_schema is not None:
                    bound_schema(tool.output_schema, f"tool {tool.name!r}: its output schema")
                runtime.add(tool)
                added.append(tool)
            except ClicketError as error:  # one unusable schema must not cost the other tools
                left_out.append(f"{tool.remote_name}: {error}")
        warn_of_left_out(self.name, left_out, "it cannot be registered")
        return added

    async def _refresh_on_changes(self) -> None:
        while True:
            await self._list_changed.wait()
            self._list_changed.clear()
            began = system.monotonic()
            await self._refresh()
            # Changes during the pause are read at once, so that a server cannot keep this process busy with them.
            await asyncio.sleep(max(_MIN_PAUSE, _PAUSE_FACTOR * (system.monotonic() - began)))

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
        """Remove tools that the server no longer offers, unless another tool of that name was registered since."""
        for tool in (*self._tools.values(), *self._forgotten):
            if not tool.offered and runtime.registry.get(tool.name) is tool:
                runtime.remove(tool.name)

    async def close(self) -> None:
        """End the connection; a process that was started for it is stopped."""
        self._parked.close()
        refresher, self._refresher = self._refresher, None
        if refresher is not None:
            refresher.cancel()
            await asyncio.wait([refresher])
        if self._opened is not None:
            await self._opened.close()
            self._opened = None
        if self._connections is not None:
            await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _check_credentials(name: str, url: str | None, provider: str | None, headers: Mapping[str, str]) -> None:
    if provider is None:
        return
    if url is None:
        raise UsageError(f"MCP server {name!r}: credentials are for servers with a url; a command gets its own in env.")
    if not isinstance(provider, str):
        raise UsageError(f"MCP server {name!r}: credentials names one provider, like 'github'.")
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise UsageError(f"MCP server {name!r}: a credential is sent over https:// only.")
    if any(each.lower() == "authorization" for each in headers):
        raise UsageError(
            f"MCP server {name!r}: the credential is sent as the header authorization, which headers has, too."
        )


def _command_line(name: str, command: str | Sequence[str] | None, args: Sequence[str]) -> list[str]:
    """The program and its arguments: one list, or `command` and `args` as in the settings of MCP clients."""
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


def declared_servers(declared: Mapping[str, McpServerTable]) -> list[McpServer]:
    """The servers of `[mcp.servers.NAME]` in `clicket.toml`. `${NAME}` in a header or variable is read from the environment."""
    return [_server_of(name, given_of(table)) for name, table in declared.items()]


def _server_of(name: str, given: dict[str, Any]) -> McpServer:
    for key in given.keys() & {"headers", "env"}:
        given[key] = {each: _expanded(name, str(value)) for each, value in given[key].items()}
    return McpServer(name, **given)


def _expanded(name: str, text: str) -> str:
    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise UsageError(f"[mcp.servers.{name}]: the environment variable {match[1]} is not set.")
        return found

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


async def join_declared(runtime: Runtime) -> list[McpServer]:
    """Register the tools of every declared server with an open runtime. A server that cannot be reached is logged and left out.

    A process that was started because of the same declaration starts none of its servers.
    """
    servers = declared_servers(runtime.settings.mcp)
    declaration = declaration_id(runtime.settings.values.get("mcp", {}))
    if servers and is_descended_from(declaration):
        logger.warning(
            "This process was started for one of the servers in [mcp.servers], and has the same settings: their tools are "
            "missing here, or they would start each other without end. To have them, start it with another cwd."
        )
        return []
    for server in servers:
        server.declaration = declaration
        try:
            await server.join(runtime)
        except Unreachable as error:
            logger.warning("%s Its tools are missing.", error.message)
    return servers
