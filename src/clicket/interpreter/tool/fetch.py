"""`fetch` of a program: one HTTP request to a declared host, made by the host process. The sandbox itself has no network.

Names must lead to public addresses, as for REST tools; a private address must be declared as an address. Redirects are not followed:
the program sees them, and a request to the new place is checked again.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from clicket.errors import ClicketError, InvalidInput, RetryableError, UsageError
from clicket.safety.guard import AddressGuard, AddressRefused, Resolve, numeric_host
from clicket.tools import Options, ToolContext, Traits, make_options
from clicket.tools.client_pool import ClientPool
from clicket.tools.defaults import ToolDefaults
from clicket.tools.request import check_headers
from clicket.tools.response import OutcomeUnknown, RestError, read_body

__all__ = ["Egress", "FetchTool", "HostNotDeclared"]

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_READING = ("GET", "HEAD", "OPTIONS")
_PORTS = {"http": 80, "https": 443}
_BELOW = re.compile(r"\*(\.[a-z0-9-]{1,63}){2,10}")
_MAX_RESPONSE = 4 * 1024 * 1024
_MAX_HEADERS = 100
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "minLength": 1, "maxLength": 8192},
        "method": {"type": "string", "enum": list(_METHODS), "default": "GET"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 50},
        "body": {"type": "string"},
        "json": {},
    },
    "required": ["url"],
    "additionalProperties": False,
}


class HostNotDeclared(ClicketError):
    """The program asked for a host that the option `egress` does not name; nothing was connected to."""

    code = "permission_denied"
    blames_tool = False


class Egress(msgspec.Struct, frozen=True, kw_only=True):
    """One declared origin. `*.example.com` stands for every name below example.com."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Egress:
        """`api.example.com`, `*.example.com`, `http://10.0.0.5:8080`. Without a scheme it is https."""
        try:
            parts = urlsplit(text if "://" in text else f"https://{text}")
            host = (parts.hostname or "").removesuffix(".")
            port = parts.port
            if "*" not in host:
                numeric_host(host)
        except (ValueError, AddressRefused) as error:
            raise UsageError(f"egress: {text!r} is not a host: {error}") from None
        if parts.scheme not in _PORTS or parts.path not in ("", "/") or parts.query or "@" in parts.netloc:
            raise UsageError(
                f"egress: {text!r} is not a host. Write 'api.example.com', or 'http://api.example.com:8080'."
            )
        if "*" in host and not _BELOW.fullmatch(host):
            raise UsageError(f"egress: {text!r}: a star stands for the names below a domain, as in '*.example.com'.")
        return cls(scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme])

    @property
    def text(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    def covers(self, url: SplitResult) -> bool:
        host = (url.hostname or "").removesuffix(".")
        same = host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host
        return same and url.scheme == self.scheme and (url.port or _PORTS[self.scheme]) == self.port


class FetchTool(ToolDefaults):
    """A part of a code interpreter: only its programs use it. Its calls are judged, limited and recorded as those of every tool."""

    is_async = True
    input_schema: Mapping[str, Any] = _SCHEMA

    def __init__(
        self, name: str, egress: Sequence[Egress], *, part_of: str = "", resolve: Resolve | None = None
    ) -> None:
        self.name: str = name
        self.traits: Traits = Traits(listed=False, part_of=part_of)
        self.description: str = f"One HTTP request of a program to {', '.join(each.text for each in egress)}."
        self.options: Options = make_options(f"tool {name!r}", {"max_retries": 0, "max_result_size": _MAX_RESPONSE})
        self._egress = tuple(egress)
        private = [each.host for each in egress if not each.host.startswith("*.") and numeric_host(each.host)]
        self._pool = ClientPool(AddressGuard(allow_hosts=private, resolve=resolve))

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if "json" in arguments and "body" in arguments:
            raise InvalidInput([{"path": "/body", "message": "give body or json, not both"}])
        try:
            check_headers("fetch", arguments.get("headers") or {})
        except UsageError as error:
            raise InvalidInput([{"path": "/headers", "message": error.message}]) from None
        return arguments

    async def run(self, bound: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        url = self._checked(bound["url"])
        method = bound.get("method", "GET")
        headers = check_headers("fetch", bound.get("headers") or {})
        content = bound["body"].encode() if "body" in bound else None
        if "json" in bound:
            content = msgspec.json.encode(bound["json"])
            headers.setdefault("content-type", "application/json")
        if method not in _READING:
            headers.setdefault("idempotency-key", ctx.idempotency_key)
        client = await self._pool.client()
        import httpx2

        from clicket.safety.transport import Broken, Unsent

        try:
            request = client.build_request(method, url, headers=headers, content=content)
            self._checked(str(request.url))  # as the client understands it
            response = await client.send(request, stream=True)
            try:
                body = await read_body(response, _MAX_RESPONSE, ctx.heartbeat)
            finally:
                await response.aclose()
        except AddressRefused as error:
            raise HostNotDeclared(error.message) from error
        except Unsent as error:
            raise RetryableError(f"{method} {_shown(url)}: {error.message}.") from error
        except Broken as error:
            if method in _READING:
                raise RetryableError(f"{method} {_shown(url)}: {error.message}.") from error
            raise OutcomeUnknown(
                f"{method} {_shown(url)}: {error.message}. The service may have acted on it."
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise RestError(f"{method} {_shown(url)}: {error}") from error
        shown = list(response.headers.items())[:_MAX_HEADERS]
        return {"status": response.status_code, "url": url, "headers": _clean(shown), **_content(body)}

    async def close(self) -> None:
        await self._pool.close()

    def _checked(self, url: str) -> str:
        """The URL without its fragment, if a declared origin covers it."""
        if any(each <= " " or each in "\\\x7f" for each in url):
            raise HostNotDeclared("a URL has no spaces, backslashes or control characters.")
        try:
            parts = urlsplit(url)
            covered = any(each.covers(parts) for each in self._egress)
        except ValueError as error:
            raise HostNotDeclared(f"{url[:200]!r} is not a URL: {error}") from None
        if "@" in parts.netloc or not covered:
            raise HostNotDeclared(
                f"{_shown(url)!r} is not among the hosts that this program may reach: "
                f"{', '.join(each.text for each in self._egress)}. The option egress of the code interpreter names them."
            )
        return url.partition("#")[0]


def _shown(url: str) -> str:
    """Without its path and query, which may hold a key."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}"[:200]
    except ValueError:
        return url[:50]


def _clean(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {
        name.lower(): value.encode("utf-8", "replace").decode()
        for name, value in headers
        if name.lower() != "set-cookie"
    }


def _content(body: bytes) -> dict[str, str]:
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode("ascii")}
