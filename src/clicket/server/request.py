"""A request to one operation: path, query, headers, trace and the authenticated principal."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import quote, unquote

from clicket.server.authentication import Principal, principal_of
from clicket.server.parameters import Parameter, parse_query
from clicket.server.problems import Refused
from clicket.telemetry import within_trace

__all__ = ["Request", "in_trace", "route_path"]

_NO_TRACE = nullcontext()


def route_path(scope: Any) -> str:
    """The path below the one that the application is mounted at."""
    path: str = scope["path"]
    mounted_at = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(mounted_at) if mounted_at and path.startswith(f"{mounted_at}/") else path


def in_trace(headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[None]:
    """Calls that are made in this context belong to the trace that the headers name, if they name one."""
    names = (b"traceparent", b"tracestate")
    found = {name.decode(): value.decode("latin-1") for name, value in headers if name in names}
    return within_trace(found) if "traceparent" in found else _NO_TRACE


class Request:
    """`scope`, `receive` and `send` are ASGI's."""

    __slots__ = ("_parameters", "_query", "headers", "principal", "receive", "scope", "send")

    def __init__(self, parameters: tuple[Parameter, ...], scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.principal: Principal = principal_of(scope)
        self._parameters = parameters
        self._query: dict[str, Any] | None = None

    def header(self, name: bytes) -> str | None:
        """A header; raises `Refused` if it was sent more than once."""
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            raise Refused("usage", f"the header {name.decode()} was sent {len(found)} times. Send it once.")
        return found[0].decode("latin-1") if found else None

    def path(self, name: str) -> str:
        value: str = self.scope["path_params"][name]
        return unquote(value) if self.scope.get("clicket.quoted") else value

    def location(self, path: str) -> tuple[bytes, bytes]:
        """The header that says where the client finds what it made. `path` is quoted already."""
        return b"location", (quote(self.scope.get("root_path", "")) + path).encode("ascii")

    def query(self, name: str, default: Any = None) -> Any:
        return self._parsed_query().get(name, default)

    def named(self, prefix: str) -> dict[str, Any]:
        """The parameters whose names begin with `prefix`, by the rest of their names."""
        return {
            name.removeprefix(prefix): value for name, value in self._parsed_query().items() if name.startswith(prefix)
        }

    def check_query(self) -> None:
        """Refuse unknown and invalid parameters, also if the handler reads none."""
        self._parsed_query()

    def _parsed_query(self) -> dict[str, Any]:
        if self._query is None:
            self._query = parse_query(self.scope["query_string"], self._parameters)
        return self._query
