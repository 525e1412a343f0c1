"""The connection to one model: makes SDK clients, sends requests, falls back when a server refuses a feature, translates errors.

A `VendorApi` writes the request and reads the reply in a vendor's format. A feature that a server has refused once is not sent
to it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, Protocol

import msgspec

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatReply, ChatRequest
from clicket.model.foreign import field
from clicket.model.text.server_sent_events import EventParser
from clicket.models.clients import Clients
from clicket.models.error_translation import Endpoint, ToolsRefused, malformed_reply, stream_error, translate
from clicket.models.found_tools import without_deferred
from clicket.models.prices import Prices
from clicket.models.reply_builder import OnDelta, ReplyBuilder, ignore_delta
from clicket.models.schema_tools import SchemaTools
from clicket.models.transcript import Names, uses_tools
from clicket.safety.certificates import ssl_context

__all__ = ["Capabilities", "Connection", "Reader", "ToolMode", "Vendor", "VendorApi", "smaller_limit"]

ToolMode = Literal["auto", "native", "schema"]
_MAX_LINE = 32 * 1024 * 1024
_REST = 1.0
"""Seconds to read the unneeded rest of a stream: a connection that was read to its end can be reused."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: of the SDK's package and of our extra. `needs_key`: the SDK does not look for a key by itself."""

    name: str
    model: str
    client: str
    needs_key: bool

    @property
    def key_env(self) -> str:
        return f"{self.name.upper()}_API_KEY"

    @property
    def address_env(self) -> str:
        return f"{self.name.upper()}_BASE_URL"

    def sdk(self) -> Any:
        try:
            return import_module(self.name)
        except ImportError:
            raise UsageError(
                f"{self.model} needs the package '{self.name}'. Install it: pip install 'clicket[{self.name}]'."
            ) from None


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is known to accept. Every feature is tried until the server refuses it."""

    form: int = 0
    """Index of the way to ask for structured output; 0 is the vendor's strictest."""
    strict: bool = True
    """A schema may be sent as one to which the model is bound."""
    limit: str = "max_tokens"
    limit_may_differ: bool = True
    """The other name of the limit has not been tried."""
    usage: bool = True
    """A stream may be asked for its token usage."""
    choice: bool = True
    """`tool_choice` is accepted."""
    tools: bool = True
    reasoning: bool = True
    """The server takes back reasoning that only it can read."""
    cache: bool = True
    """The prompt may be marked for the vendor's cache."""
    defer: bool = True
    """Tools may be deferred (`ToolOffer.deferred`)."""
    files: bool = True
    """Images and files may be sent. One that is refused says nothing about others, so this holds for one request."""


class Reader(Protocol):
    """Reads a reply: `whole`, or event by event. `reply` raises if the reply is malformed or incomplete."""

    def whole(self, answer: Any) -> None: ...

    def feed(self, event: Any) -> None: ...

    def reply(self, prices: Prices) -> ChatReply: ...


class VendorApi(Protocol):
    def body(self, request: ChatRequest, caps: Capabilities, names: Names) -> dict[str, Any]: ...

    async def send(self, client: Any, body: dict[str, Any], caps: Capabilities, *, streamed: bool) -> Any: ...

    def after_refusal(self, request: ChatRequest, caps: Capabilities, error: Any) -> Capabilities | None:
        """What to try next; None if the error has another cause, or no alternative is left."""
        ...

    def reader(
        self, request: ChatRequest, caps: Capabilities, names: Names, answer: ReplyBuilder, endpoint: Endpoint
    ) -> Reader: ...


class Connection:
    """`client`: an SDK client that its owner closes. Without it, each event loop gets a client, which is closed with the loop."""

    def __init__(
        self,
        vendor: Vendor,
        model: str,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        max_tokens: int | None,
        prices: Mapping[str, float] | None,
        tools: ToolMode,
        client: Any,
    ) -> None:
        _check(vendor.name, model, timeout, max_tokens, tools)
        self.sdk = vendor.sdk()
        self.address = base_url or os.environ.get(vendor.address_env) or None
        key = api_key or os.environ.get(vendor.key_env) or None
        if key is None and vendor.needs_key and client is None:
            if self.address is None:
                raise UsageError(f"{vendor.model} needs a key: set {vendor.key_env}, or give api_key=.")
            key = "none"  # self-hosted servers often need no key, but the SDK requires one
        self.endpoint = Endpoint(vendor.name, model, vendor.key_env, key, self.address)
        self.prices = Prices(prices)
        self._mode: ToolMode = tools
        self._client = None if client is None else client.with_options(timeout=timeout, max_retries=0)
        made_with = {"base_url": self.address, "timeout": timeout, "max_retries": 0}
        # Without `api_key` the SDK looks for credentials itself: in the environment, then in its own files.
        made_with |= {"api_key": key} if vendor.needs_key or api_key is not None else {}
        self._clients = Clients(_maker(self.sdk, vendor.client, made_with))
        self._caps = Capabilities()

    def prefer(self, **caps: Any) -> None:
        """Set what is tried first with this server."""
        self._caps = msgspec.structs.replace(self._caps, **caps)

    async def close(self) -> None:
        await self._clients.close()

    async def ask(self, api: VendorApi, request: ChatRequest, tell: OnDelta | None) -> ChatReply:
        """One reply; streamed if `tell` is given. If the server refuses tools, tool calls are requested by structured output."""
        if not uses_tools(request) or (self._mode != "schema" and self._caps.tools):
            try:
                return await self._ask(api, request, tell)
            except ToolsRefused:
                pass
        plain, request = SchemaTools(_WithoutTools(self, api)), without_deferred(request)
        reply = await (plain.chat(request) if tell is None else plain.stream(request, tell))
        self.prefer(tools=False)  # only now is it certain that the tools were the reason
        return reply

    async def _ask(self, api: VendorApi, request: ChatRequest, tell: OnDelta | None) -> ChatReply:
        names = Names(request)
        caps = self._caps
        client = await self._opened()
        while True:
            failed: ClicketError
            try:
                got = await api.send(client, api.body(request, caps, names), caps, streamed=tell is not None)
            except self.sdk.APIStatusError as raised:
                fallback = api.after_refusal(request, caps, raised)
                if fallback is not None and fallback.tools == caps.tools:
                    caps = fallback
                    continue
                failed = translate(self.sdk, raised, self.endpoint)
                if fallback is not None and self._mode == "auto":
                    failed = ToolsRefused(failed.message)
            except Exception as raised:
                failed = translate(self.sdk, raised, self.endpoint)
            else:
                break
            # Raised here and not above: the SDK's error holds the request, and with it the key.
            raise failed
        self._caps = caps if caps.files else msgspec.structs.replace(caps, files=True)
        answer = ReplyBuilder(names, tell or ignore_delta)
        reader = api.reader(request, caps, names, answer, self.endpoint)
        if tell is None:
            self._read(reader, got)
        else:
            await self._follow(reader, got, answer)
        return reader.reply(self.prices)

    async def _opened(self) -> Any:
        if self._client is not None:
            return self._client
        try:
            return await self._clients.get()
        except Exception as raised:
            failed = translate(self.sdk, raised, self.endpoint)
        raise failed

    def _read(self, reader: Reader, got: Any) -> None:
        wrong = field(got, "error")
        if wrong:  # some gateways send an error with status 200
            told = {name: field(wrong, name) for name in ("type", "code", "message")}
            raise stream_error({"error": told if any(told.values()) else str(wrong)}, self.endpoint)
        try:
            reader.whole(got)
        except ClicketError:
            raise
        except Exception:  # a server may send anything
            raise malformed_reply(self.endpoint) from None

    async def _follow(self, reader: Reader, stream: Any, answer: ReplyBuilder) -> None:
        wrong: list[ClicketError] = []

        def take(name: str, data: str) -> bool:
            if data.startswith("[DONE]"):
                return False
            event = json.loads(data)
            if name == "error" or field(event, "error"):
                wrong.append(stream_error(event if isinstance(event, dict) else {"error": data}, self.endpoint))
                return False
            reader.feed(event)
            return not answer.full

        try:
            if "json" in stream.response.headers.get("content-type", ""):
                # A server without streaming sends the whole reply.
                self._read(reader, json.loads(await stream.response.aread()))
            else:
                await _read_events(stream.response, take)
        except Exception as raised:
            wrong.append(translate(self.sdk, raised, self.endpoint, begun=True))
        finally:
            with contextlib.suppress(Exception):
                await stream.close()
        if wrong:
            raise wrong[0]


async def _read_events(response: Any, take: Callable[[str, str], bool]) -> None:
    """Pass each event to `take` until it returns False. The SDKs open the stream; it is read here, because their readers stay half-open
    when a stream breaks off."""
    parser = EventParser(_MAX_LINE)
    parts = response.aiter_bytes()
    async for part in parts:
        if not all(take(event.type, event.data) for event in parser.feed(part) if event.data):
            break
    else:
        all(take(event.type, event.data) for event in parser.end() if event.data)
        return
    # Read on instead of closing, so that every reader between here and the socket ends in order.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REST):
            async for _ in parts:
                pass


class _WithoutTools:
    """The model without tools of its own, for `SchemaTools`."""

    def __init__(self, connection: Connection, api: VendorApi) -> None:
        self.name = str(connection.endpoint)
        self._connection = connection
        self._api = api

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._connection._ask(self._api, request, None)

    async def stream(self, request: ChatRequest, tell: OnDelta) -> ChatReply:
        return await self._connection._ask(self._api, request, tell)


def _maker(sdk: Any, name: str, made_with: dict[str, Any]) -> Callable[[], Any]:
    """Holds no reference to the model, so that a model which is dropped is freed, and its clients with it."""

    def make() -> Any:
        return getattr(sdk, name)(
            **made_with, http_client=sdk.DefaultAsyncHttpxClient(verify=ssl_context(trust_env=True))
        )

    return make


def smaller_limit(given: int | None, own: int | None) -> int | None:
    """The smaller of two limits, either of which may be missing."""
    return own if given is None else given if own is None else min(given, own)


def _check(vendor: str, model: str, timeout: float, max_tokens: int | None, tools: str) -> None:
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"a model of {vendor} needs its name, e.g. model_of('{vendor}:NAME')")
    if not timeout > 0:
        raise UsageError(f"timeout is the time limit of one answer in seconds, more than 0: {timeout!r}")
    if max_tokens is not None and max_tokens < 1:
        raise UsageError(f"max_tokens must be 1 or more: {max_tokens!r}")
    if tools not in ("auto", "native", "schema"):
        raise UsageError(
            f"tools must be 'auto', 'native' or 'schema', not {tools!r}: how the model is asked for tool calls."
        )
