"""One request with its redirects, and their result. A redirect is checked like a new request and carries no secrets.

Every failure leaves here as a clicket error that says whether trying again is safe. A POST or PATCH that may have taken
effect is not called transient, unless its author said that it can be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import msgspec

from clicket import system
from clicket.errors import ClicketError, InvalidInput, RetryableError, ToolUnavailable
from clicket.safety.guard import AddressRefused
from clicket.safety.transport import Broken, Unsent
from clicket.system.bridge import ThreadPool
from clicket.tools.request import Prepared
from clicket.tools.response import OutcomeUnknown, RestError, decode, excerpt, read_body, read_some, retry_after
from clicket.tools.stream import CutStream, StreamReader

__all__ = ["Exchange", "Rules"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT = frozenset({429, 502, 503, 504})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "content-type", "idempotency-key", "user-agent"})
_PORTS = {"http": 80, "https": 443}
_BIG = 256 * 1024
"""Bytes. A larger body is decoded in a thread."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool's declaration says about each of its exchanges."""

    shown: str
    max_redirects: int
    max_response_size: int
    repeatable: bool
    host_argument: str | None
    renew: Callable[[bool], Awaitable[str]] | None = None
    """Gives another token after the service refused this one, if the request carries one. The flag: it said that the token is invalid."""


class Exchange:
    """Good for one request: `await Exchange(client, prepared, rules).output(alive)`."""

    __slots__ = ("_client", "_hop", "_hops", "_landed", "_renewed", "_rules", "_stream")

    def __init__(
        self, client: httpx2.AsyncClient, prepared: Prepared, rules: Rules, stream: StreamReader | None = None
    ) -> None:
        self._client = client
        self._hop = prepared
        self._hops = 0
        self._renewed = False
        self._landed = False  # did a request with an effect get through before a redirect turned it into a GET?
        self._rules = rules
        self._stream = stream

    async def output(self, alive: Callable[[], None]) -> Any:
        try:
            while True:
                response = await self._send()
                try:
                    alive()
                    if response.status_code in _REDIRECTS and "location" in response.headers:
                        await read_some(response)
                        self._hop = self._next_hop(response)
                        self._hops += 1
                        continue
                    if response.status_code == 401 and self._may_renew(response) and await self._renew(response):
                        continue
                    return await self._judge(response, alive)
                finally:
                    await response.aclose()
        except AddressRefused as error:
            raise self._not_allowed(error) from error
        except Unsent as error:
            raise self._unsent(error) from error
        except Broken as error:
            raise self._broken(error.message) from error
        except CutStream as error:
            raise self._broken(str(error)) from error
        except httpx2.DecodingError as error:
            raise RestError(f"{self._who}: the response cannot be unpacked: {error}") from error

    @property
    def _who(self) -> str:
        return f"{self._hop.method} {self._rules.shown}"

    @property
    def _risky(self) -> bool:
        return self._landed or (self._hop.method in ("POST", "PATCH") and not self._rules.repeatable)

    async def _send(self) -> httpx2.Response:
        hop = self._hop
        headers = [(name.encode(), value.encode()) for name, value in hop.headers.items()]
        try:
            request = self._client.build_request(hop.method, hop.url, headers=headers, content=hop.content)
        except httpx2.InvalidURL as error:
            raise AddressRefused(f"The URL of {self._who} cannot be read: {error}.") from error
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.InvalidURL, httpx2.RequestError) as error:
            # The transport has its own errors. What httpx2 itself refuses is a Location that it cannot read.
            raise RestError(f"{self._who} was redirected to something that is not a URL: {error}") from error

    def _may_renew(self, response: httpx2.Response) -> bool:
        """May the request be sent once more with another token? A Bearer challenge says that it was refused for its token, before
        anything was done; without one, only a request that may be repeated is."""
        if self._rules.renew is None or self._renewed or self._hops or self._landed:
            return False
        return not self._risky or _challenge(response).startswith("bearer")

    async def _renew(self, response: httpx2.Response) -> bool:
        """False: there is no other token."""
        assert self._rules.renew is not None
        self._renewed = True
        token = await self._rules.renew("invalid_token" in _challenge(response))
        headers = {**self._hop.headers, "authorization": f"Bearer {token}"}
        if headers == self._hop.headers:
            return False
        await read_some(response)
        self._hop = msgspec.structs.replace(self._hop, headers=headers)
        return True

    async def _judge(self, response: httpx2.Response, alive: Callable[[], None]) -> Any:
        status = response.status_code
        if 200 <= status < 300:
            kind = response.headers.get("content-type", "")
            if self._stream is not None and self._stream.reads(kind):
                return await self._stream.read(response)
            body = await read_body(response, self._rules.max_response_size, alive)
            return decode(kind, body) if len(body) <= _BIG else await _decoded_beside(kind, body)
        told = excerpt(await read_some(response))
        message = f"{self._who} answered {status} {response.reason_phrase}".rstrip() + (f": {told}" if told else ".")
        if self._landed:
            raise OutcomeUnknown(
                f"The request was taken, but its result is out of reach: {message}", status=status, body=told
            )
        if status in _TRANSIENT:
            error = RetryableError(message, retry_after=retry_after(response.headers.get("retry-after"), system.now()))
            error.details["status"] = status
            raise error
        raise RestError(message, status=status, body=told)

    def _next_hop(self, response: httpx2.Response) -> Prepared:
        hop = self._hop
        status = response.status_code
        here = response.request.url
        location = response.headers["location"]
        if self._hops >= self._rules.max_redirects:
            raise RestError(
                f"{self._who} was redirected more than {self._rules.max_redirects} times, last to {location[:200]!r}. "
                "Put the final address into the url, or raise max_redirects.",
                status=status,
            )
        try:
            there = here.join(location)
        except httpx2.InvalidURL as error:
            raise RestError(f"{self._who} was redirected to {location[:200]!r}: {error}", status=status) from error
        problem = _redirect_problem(here, there)
        if problem:
            raise RestError(f"{self._who} was redirected {problem}. This is not followed.", status=status)
        method, content = hop.method, hop.content
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            self._landed = self._landed or (method not in _SAFE and not self._rules.repeatable)
            method, content = "GET", None
        headers = dict(hop.headers)
        if content is None:
            headers.pop("content-type", None)
        if method in _SAFE:
            headers.pop("idempotency-key", None)
        if not _same_origin(here, there):
            if content is not None:
                raise RestError(
                    f"{self._who} was redirected to another origin ({there.host}), which would get the body. "
                    "Put the final address into the url.",
                    status=status,
                )
            headers = {name: value for name, value in headers.items() if name in _HARMLESS_HEADERS}
        return Prepared(method=method, url=str(there.copy_with(fragment=None)), headers=headers, content=content)

    def _not_allowed(self, error: AddressRefused) -> ClicketError:
        if self._hops:
            return ToolUnavailable(f"{self._rules.shown} redirects to a place that is not allowed. {error.message}")
        if self._rules.host_argument is not None:
            return InvalidInput([{"path": f"/{self._rules.host_argument}", "message": error.message}])
        return ToolUnavailable(error.message)

    def _unsent(self, error: Unsent) -> ClicketError:
        if self._landed:
            return OutcomeUnknown(f"{self._who}: {error.message}, after the request itself had been taken.")
        if error.details.get("certificate"):
            return RestError(f"{self._who}: {error.message}. Trust its issuer with ssl_context=… if it is yours.")
        if error.details.get("malformed"):
            return RestError(f"{self._who}: {error.message}.")
        return RetryableError(f"{self._who}: {error.message}.")

    def _broken(self, what: str) -> ClicketError:
        if self._risky:
            return OutcomeUnknown(
                f"{self._who}: {what}. The service may have acted on it; look there before trying again. "
                "If it honours Idempotency-Key, declare the tool with idempotent=True."
            )
        return RetryableError(f"{self._who}: {what}.")


def _challenge(response: httpx2.Response) -> str:
    found: str = response.headers.get("www-authenticate", "")
    return found.strip().lower()


async def _decoded_beside(kind: str, body: bytes) -> Any:
    thread_pool = ThreadPool(1, "clicket-rest")
    try:
        return await thread_pool.run(lambda: decode(kind, body))
    finally:
        thread_pool.close(0)


def _redirect_problem(here: httpx2.URL, there: httpx2.URL) -> str:
    if there.scheme not in ("http", "https") or not there.host:
        return f"to something that is not http(s) ({there.scheme or 'no'}:)"
    if there.userinfo:
        return f"to {there.host} with a user or password in the URL"
    if here.scheme == "https" and there.scheme == "http":
        return f"from https to plain http at {there.host}"
    return ""


def _same_origin(here: httpx2.URL, there: httpx2.URL) -> bool:
    ports = [url.port or _PORTS[url.scheme] for url in (here, there)]
    if here.host != there.host:
        return False
    upgraded = here.scheme == "http" and there.scheme == "https" and ports == [80, 443]
    return upgraded or (here.scheme == there.scheme and ports[0] == ports[1])
