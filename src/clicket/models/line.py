"""The line to one model, whoever speaks on it: one place makes clients, asks, steps down from what is refused, and translates failures.

A vendor's `Wire` says how a request is written and an answer read. What an address refused once is not sent to it again.
"""

from __future__ import annotations

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
from clicket.models.asked import Prices, checked, trust
from clicket.models.clients import Clients
from clicket.models.events import read_events
from clicket.models.failing import Place, ToolsRefused, midway, no_answer, translated
from clicket.models.pieces import Answer, Tell, silent
from clicket.models.schema_tools import SchemaTools
from clicket.models.transcript import Names, uses_tools

__all__ = ["Line", "Reader", "ToolMode", "Vendor", "Ways", "Wire"]

ToolMode = Literal["auto", "native", "schema"]


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is that of its package and of our extra. `needs_key`: the SDK looks nowhere else for one."""

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


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """What an address is known to take. Everything is tried first."""

    form: int = 0
    """Of the vendor's ways to ask for a schema, the strictest first."""
    limit: str = "max_tokens"
    limit_may_differ: bool = True
    """Has only one name of the limit been tried?"""
    usage: bool = True
    """May a stream be asked for its figures?"""
    choice: bool = True
    """May it be said whether tools are to be used?"""
    tools: bool = True


class Reader(Protocol):
    """Reads an answer: `whole`, or event by event. `reply` raises when the answer is none, or broke off."""

    def whole(self, answer: Any) -> None: ...

    def feed(self, event: Any) -> None: ...

    def reply(self, prices: Prices) -> ChatReply: ...


class Wire(Protocol):
    def body(self, request: ChatRequest, ways: Ways, names: Names) -> dict[str, Any]: ...

    async def send(self, client: Any, body: dict[str, Any], ways: Ways, *, streamed: bool) -> Any: ...

    def other(self, request: ChatRequest, ways: Ways, error: Any) -> Ways | None:
        """What to try after a refusal; None when the refusal has other reasons, or nothing is left."""
        ...

    def reader(self, request: ChatRequest, ways: Ways, names: Names, answer: Answer, place: Place) -> Reader: ...


class Line:
    """`client` is one of the SDK's that its owner closes; without it one is opened for each loop, and closed with it."""

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
        checked(vendor.name, model, timeout, max_tokens, tools)
        self.sdk = vendor.sdk()
        self.address = base_url or os.environ.get(vendor.address_env) or None
        key = api_key or os.environ.get(vendor.key_env) or None
        if key is None and vendor.needs_key and client is None:
            if self.address is None:
                raise UsageError(f"{vendor.model} needs a key: set {vendor.key_env}, or give api_key=.")
            key = "none"  # servers of one's own often want none, the SDK always does
        self.place = Place(vendor.name, model, vendor.key_env, key, self.address)
        self._prices = Prices(prices)
        self._mode: ToolMode = tools
        self._client = None if client is None else client.with_options(timeout=timeout, max_retries=0)
        made_with = {"base_url": self.address, "timeout": timeout, "max_retries": 0}
        # Without a key given here an SDK may look in its usual places, of which the environment is only the first.
        made_with |= {"api_key": key} if vendor.needs_key or api_key is not None else {}
        self._clients = Clients(_maker(self.sdk, vendor.client, made_with))
        self._ways = Ways()

    def prefer(self, **ways: Any) -> None:
        """What is tried first at this address."""
        self._ways = msgspec.structs.replace(self._ways, **ways)

    async def close(self) -> None:
        await self._clients.close()

    async def serve(self, wire: Wire, request: ChatRequest, tell: Tell | None) -> ChatReply:
        """One answer; told in pieces when somebody listens. A model without tools is asked for them by a schema."""
        if not uses_tools(request) or (self._mode != "schema" and self._ways.tools):
            try:
                return await self._ask(wire, request, tell)
            except ToolsRefused:
                pass
        plain = SchemaTools(_Plain(self, wire))
        reply = await (plain.chat(request) if tell is None else plain.stream(request, tell))
        self.prefer(tools=False)  # only now: it was the tools indeed
        return reply

    async def _ask(self, wire: Wire, request: ChatRequest, tell: Tell | None) -> ChatReply:
        names, ways = Names(request), self._ways
        client = await self._opened()
        while True:
            failed: ClicketError
            try:
                got = await wire.send(client, wire.body(request, ways, names), ways, streamed=tell is not None)
            except self.sdk.APIStatusError as raised:
                other = wire.other(request, ways, raised)
                if other is not None and other.tools == ways.tools:
                    ways = other
                    continue
                failed = translated(self.sdk, raised, self.place)
                if other is not None and self._mode == "auto":
                    failed = ToolsRefused(failed.message)
            except Exception as raised:
                failed = translated(self.sdk, raised, self.place)
            else:
                break
            # Raised here and not above: the SDK's error holds the request, and with it the key.
            raise failed
        self._ways = ways
        answer = Answer(names, tell or silent)
        reader = wire.reader(request, ways, names, answer, self.place)
        if tell is None:
            self._read(reader, got)
        else:
            await self._follow(reader, got, answer)
        return reader.reply(self._prices)

    async def _opened(self) -> Any:
        if self._client is not None:
            return self._client
        try:
            return await self._clients.get()
        except Exception as raised:
            failed = translated(self.sdk, raised, self.place)
        raise failed

    def _read(self, reader: Reader, got: Any) -> None:
        wrong = field(got, "error")
        if wrong:  # some gateways say with 200 that nothing went well
            raise midway({"error": wrong if isinstance(wrong, dict) else str(wrong)}, self.place)
        try:
            reader.whole(got)
        except ClicketError:
            raise
        except Exception:  # whatever a server may send in place of an answer
            raise no_answer(self.place) from None

    async def _follow(self, reader: Reader, stream: Any, answer: Answer) -> None:
        wrong: list[ClicketError] = []

        def take(name: str, data: str) -> bool:
            if data.startswith("[DONE]"):
                return False
            event = json.loads(data)
            if name == "error" or field(event, "error"):
                wrong.append(midway(event if isinstance(event, dict) else {"error": data}, self.place))
                return False
            reader.feed(event)
            return not answer.full

        try:
            if "json" in stream.response.headers.get("content-type", ""):
                # A server that does not stream has answered all the same.
                self._read(reader, json.loads(await stream.response.aread()))
            else:
                await read_events(stream.response, take)
        except Exception as raised:
            wrong.append(translated(self.sdk, raised, self.place, begun=True))
        finally:
            with contextlib.suppress(Exception):
                await stream.close()
        if wrong:
            raise wrong[0]


class _Plain:
    """The model asked without its tools."""

    def __init__(self, line: Line, wire: Wire) -> None:
        self.name = str(line.place)
        self._line = line
        self._wire = wire

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._line._ask(self._wire, request, None)

    async def stream(self, request: ChatRequest, tell: Tell) -> ChatReply:
        return await self._line._ask(self._wire, request, tell)


def _maker(sdk: Any, name: str, made_with: dict[str, Any]) -> Callable[[], Any]:
    """Without the model in it: clients are to outlive no model, and a model is not to hold itself."""

    def make() -> Any:
        return getattr(sdk, name)(**made_with, http_client=sdk.DefaultAsyncHttpxClient(verify=trust()))

    return make
