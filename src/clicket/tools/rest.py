"""An HTTP operation as a tool, from a small declaration. It has one pooled client, which connects to checked addresses only."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import msgspec

from clicket import system
from clicket.errors import InvalidInput, UsageError, did_you_mean
from clicket.safety.guard import AddressGuard, AddressRefused, Resolve
from clicket.tools.client_pool import ClientPool
from clicket.tools.context import ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.openapi import read_operations
from clicket.tools.options import Options, make_options
from clicket.tools.request import BodyKind, Prepared, UrlTemplate, check_headers, declare, header_safe, prepare
from clicket.tools.response import OutcomeUnknown, RestError
from clicket.tools.stream import StreamMapping, StreamReader, mapping_of

if TYPE_CHECKING:
    import httpcore2

__all__ = ["Connection", "OutcomeUnknown", "RestError", "RestTool", "StreamMapping"]

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_READING = ("GET", "HEAD", "OPTIONS")


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a REST tool's client. `open`: there is one; the first request opens it."""

    open: bool
    request_count: int
    last_used_at: float | None


class RestTool(ToolDefaults):
    """One HTTP operation as a tool.

    `parameters` maps each argument to its JSON Schema, which may also say `in` ("path", "query", "header" or "body"),
    `name` (its name on the wire), `style` and `explode` (as OpenAPI means them) and `whole` (the argument is the body).
    `{name}` in the url is a path argument; `"{url}"` alone lets the caller name the URL. `stream` says what the records of an NDJSON or
    server-sent response mean: `{"output": "/text", "step": "/done", "result": "/result"}` (`StreamMapping`). `options` are as for `@tool`;
    with `credentials="github"` each request carries the caller's token for that provider.
    """

    is_async = True

    def __init__(
        self,
        name: str,
        method: str,
        url: str,
        *,
        description: str = "",
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        required: Collection[str] = (),
        headers: Mapping[str, str] | None = None,
        body: BodyKind = "json",
        allow_private: bool = False,
        allow_hosts: Iterable[str] = (),
        max_redirects: int = 3,
        max_response_size: int = 16 * 1024 * 1024,
        stream: StreamMapping | Mapping[str, Any] | None = None,
        definitions: Mapping[str, Any] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
        **options: Any,
    ) -> None:
        where = f"REST tool {name!r}"
        self.name = name
        self.description = description
        self._method = _checked_method(where, method)
        self._template = UrlTemplate(where, url)
        self._headers = check_headers(where, headers or {})
        self._body = body
        self._parameters, properties = declare(where, self._method, self._template, parameters or {}, body)
        self._required = self._checked_required(where, required)
        self._guard = _make_guard(where, allow_private, allow_hosts, resolve)
        self._max_redirects = _whole_number(where, "max_redirects", max_redirects, 0)
        self._max_response_size = _whole_number(where, "max_response_size", max_response_size, 1)
        self._stream = mapping_of(where, stream)
        self._pool = ClientPool(self._guard, ssl_context, network)
        self.options: Options = make_options(where, {"read_only": self._method in _READING, **options})
        if self.options.isolation not in ("auto", "inline"):
            raise UsageError(f"{where}: a REST tool runs on the event loop; leave isolation out.")
        self._provider = _checked_provider(
            where, self.options.credentials, self._template, self._headers, allow_private
        )
        self.input_schema: Mapping[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": self._required,
            "additionalProperties": False,
            **({"$defs": dict(definitions)} if definitions else {}),
        }
        self._request_count = 0
        self._last_used_at: float | None = None

    def __repr__(self) -> str:
        return f"RestTool({self.name!r}, {self._method} {self._template.shown})"

    @classmethod
    def from_openapi(
        cls,
        document: Mapping[str, Any] | str,
        *,
        base_url: str | None = None,
        operations: Iterable[str] | None = None,
        **options: Any,
    ) -> list[Self]:
        """One tool for each operation of an OpenAPI 3 document (mapping or JSON text), or for those in `operations`.

        `options` go to every tool: what `RestTool` takes (`headers`, `allow_hosts`, …) and the options of `@tool`.
        """
        return [
            cls(
                operation.name,
                operation.method,
                operation.url,
                description=operation.description,
                parameters=operation.parameters,
                required=operation.required,
                body=operation.body,
                definitions=operation.definitions,
                **options,
            )
            for operation in read_operations(document, base_url=base_url, only=operations)
        ]

    @property
    def connection(self) -> Connection:
        return Connection(open=self._pool.is_open, request_count=self._request_count, last_used_at=self._last_used_at)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Refuse what must not be sent: values that would change another part of the request, and forbidden addresses as hosts."""
        prepared = self.prepare(arguments)
        if self._template.host_arguments:
            host = urlsplit(prepared.url).hostname or ""
            try:
                self._guard.check_literal(host)
            except AddressRefused as error:
                raise InvalidInput([{"path": f"/{self._host_argument}", "message": error.message}]) from error
        return arguments

    async def run(self, bound: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Send the request and read its response. Cancelling closes the connection."""
        prepared = self.prepare(bound)
        if self._method not in _READING:
            prepared.headers.setdefault("idempotency-key", _header_key(ctx.idempotency_key))
        if self._provider is not None:
            prepared.headers["authorization"] = f"Bearer {ctx.credential(self._provider)}"
        client = await self._pool.client()
        from clicket.tools.exchange import Exchange, Rules  # here, because it imports httpx2

        rules = Rules(
            shown=self._shown(prepared.url),
            max_redirects=self._max_redirects,
            max_response_size=self._max_response_size,
            repeatable=self.options.repeatable,
            host_argument=self._host_argument,
            renew=None if self._provider is None else partial(self._renewed, ctx, self._provider),
        )
        self._request_count += 1
        self._last_used_at = system.now()
        reader = None if self._stream is None else StreamReader(self._stream, ctx, self._max_response_size)
        return await Exchange(client, prepared, rules, reader).output(ctx.heartbeat)

    @staticmethod
    async def _renewed(ctx: ToolContext, provider: str, refused: bool) -> str:
        return await ctx.renew_credential(provider, refused=refused)

    async def close(self) -> None:
        """Close the client of the running loop, not those of other loops. A later `run` opens a new one."""
        await self._pool.close()

    @property
    def _host_argument(self) -> str | None:
        return min(self._template.host_arguments, default=None)

    def _shown(self, url: str) -> str:
        """The URL as messages show it: without its query, which may hold a key."""
        if self._template.whole is None:
            return self._template.shown
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}"

    def prepare(self, arguments: Mapping[str, Any]) -> Prepared:
        return prepare(self._method, self._template, self._parameters, self._headers, self._body, arguments)

    def _checked_required(self, where: str, required: Collection[str]) -> list[str]:
        if isinstance(required, str):
            raise UsageError(f"{where}: required takes a list of names, not one string.")
        known = {p.argument: p for p in self._parameters}
        for name in required:
            if name not in known:
                raise UsageError(
                    f"{where}: required names {name!r}, which is not a parameter.{did_you_mean(name, known)}"
                )
        return [
            name for name, p in known.items() if name in required or (p.place == "path" and p.default is msgspec.UNSET)
        ]


def _checked_method(where: str, method: str) -> str:
    upper = method.upper() if isinstance(method, str) else ""
    if upper not in _METHODS:
        raise UsageError(
            f"{where}: unknown method {method!r}.{did_you_mean(upper, _METHODS)} Known: {', '.join(_METHODS)}."
        )
    return upper


def _checked_provider(
    where: str, names: tuple[str, ...], template: UrlTemplate, headers: Mapping[str, str], allow_private: bool
) -> str | None:
    """The provider whose token every request carries."""
    if not names:
        return None
    if len(names) > 1:
        raise UsageError(f"{where}: a request carries one credential, and credentials names {len(names)}.")
    if template.host_arguments:
        raise UsageError(
            f"{where}: the caller names the host, which would get the credential. Write the host into the url."
        )
    if template.shown.startswith("http://") and not allow_private:
        raise UsageError(f"{where}: a credential is sent over https://, or with allow_private=True.")
    if any(name.lower() == "authorization" for name in headers):
        raise UsageError(f"{where}: the credential is sent as the header authorization, which headers has, too.")
    return names[0]


def _whole_number(where: str, key: str, value: Any, least: int) -> int:
    if type(value) is not int or value < least:
        raise UsageError(f"{where}: {key} must be a whole number of at least {least}, not {value!r}.")
    return value


def _make_guard(where: str, allow_private: bool, allow_hosts: Iterable[str], resolve: Resolve | None) -> AddressGuard:
    if isinstance(allow_hosts, str):
        raise UsageError(f"{where}: allow_hosts takes a list of host names, not one string.")
    try:
        return AddressGuard(allow_private=allow_private, allow_hosts=allow_hosts, resolve=resolve)
    except AddressRefused as error:
        raise UsageError(
            f"{where}: allow_hosts takes host names or addresses, without port or scheme. {error}"
        ) from error


def _header_key(key: str) -> str:
    """The idempotency key as a header value. It comes from a caller's id, which may be any text; other than ASCII is hashed."""
    return (
        key
        if key.isascii() and header_safe(key) and key == key.strip()
        else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    )
