"""A search service by declaration: its request, and where in its JSON the results are. Each query is a call of a runtime, with its
retries, timeouts, breaker and figures: a private runtime, or the one that is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import msgspec

from clicket.errors import ClicketError, UsageError
from clicket.model import ToolResult
from clicket.model.document import Document
from clicket.model.ports import Clock
from clicket.runtime.runtime import Runtime
from clicket.safety.vault import guard_logs, hide_always
from clicket.search.engines.adapter import Answer, EngineFailed
from clicket.search.web.engine_errors import USUAL_HINTS, engine_error
from clicket.search.web.json_path import JsonPath
from clicket.search.web.private_runtime import PrivateRuntime
from clicket.search.web.rate import Rate
from clicket.search.web.result_fields import Fields
from clicket.search.web.search_request import RequestTemplate, SearchTool

__all__ = ["JsonEngine"]

_THREAD = "web-search"


class JsonEngine:
    """A search service that answers with JSON.

    `{query}`, `{k}` and `{key}` in `params`, `headers` and `body` are filled in. `results` is the path to the list of results,
    `fields` says where in each of them `title`, `url`, `text`, `score` and `id` are; see `clicket.search.web.json_path`. With `runtime`
    every query is a call of that runtime; the tool is named `search_NAME`. `rate` is written like "10/s".
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        method: str = "GET",
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        key: str = "",
        results: str = "results",
        fields: Mapping[str, str] | None = None,
        html: bool = False,
        complaint: str | None = "error|message|detail|errors",
        empty: str | None = None,
        doubt: str | None = None,
        max_k: int = 100,
        max_query: int = 2_000,
        max_words: int = 1_000,
        rate: str | float | None = None,
        timeout: float = 10.0,
        max_retries: int = 2,
        retry_delay: float = 0.5,
        failure_threshold: int = 5,
        cooldown: float = 60.0,
        max_concurrency: int = 5,
        hints: Mapping[int, str] | None = None,
        runtime: Runtime | None = None,
        thread: str = _THREAD,
        allow_private: bool = False,
        allow_hosts: Iterable[str] = (),
        clock: Clock | None = None,
        **connection: Any,
    ) -> None:
        self.name = name
        host = urlsplit(url).hostname or ""
        if not host:
            raise UsageError(
                f"engine {name!r}: the url must start with http:// or https:// and name a host, not {url!r}."
            )
        _mask(key)
        self._rate = None if rate is None else Rate(rate, clock=clock)
        self._hints = {**USUAL_HINTS, **(hints or {})}
        self._thread = thread
        template = RequestTemplate(
            url=url,
            method=method,
            params=params or {},
            headers=headers or {},
            body=body,
            results=JsonPath(results),
            fields=Fields(fields, html=html),
            complaint=None if complaint is None else JsonPath(complaint),
            empty=None if empty is None else JsonPath(empty),
            doubt=None if doubt is None else JsonPath(doubt),
            max_k=max_k,
            max_query=max_query,
            max_words=max_words,
        )
        self._tool = SearchTool(
            f"search_{name}",
            name,
            template,
            key=key,
            rate=self._rate,
            max_wait=timeout,
            # The named host may be private; hosts that it redirects to may not.
            rest={"allow_private": allow_private, "allow_hosts": [host, *allow_hosts], **connection},
            timeout=timeout,
            max_retries=max_retries,
            retry_delay=retry_delay,
            failure_threshold=failure_threshold,
            cooldown=cooldown,
            max_concurrency=max_concurrency,
            tags=["search"],
        )
        self._runtime = runtime
        if runtime is not None:
            runtime.add(self._tool)
        self._private_runtime = PrivateRuntime(self._tool, clock=clock)
        self._kept_open = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<search engine {self.name}>"

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        """At most `k` documents. Raises `EngineFailed` when the service gave no usable answer."""
        if self._rate is not None:
            wait = self._rate.wait()
            if deadline is not None and wait >= deadline:
                raise EngineFailed(
                    f"{self.name}: its rate limit would make this query wait {wait:.1f} s, and only {deadline:.1f} s are left. "
                    "Send fewer queries at once, or raise rate=….",
                    engine=self.name,
                )
            waited = await self._rate.take()
            deadline = None if deadline is None else max(deadline - waited, 0.001)
        try:
            result = await self._call(query, k, deadline)
        except UsageError:
            raise
        except ClicketError as error:  # a full queue, or an unavailable store
            raise EngineFailed(f"{self.name}: {error.message}", engine=self.name, reason=error.code) from error
        if not result.success:
            raise engine_error(self.name, result, self._hints)
        return [msgspec.convert(entry, Document) for entry in result.output]

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer:
        """The same, in the form that a deep search takes."""
        return Answer(documents=tuple(await self.search(query, k=k, deadline=deadline)))

    async def __aenter__(self) -> Self:
        """Optional: keeps connections open from one search to the next. Without it, every search opens its own."""
        await self._kept_open.enter_async_context(self._open())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._kept_open.aclose()

    async def _call(self, query: str, k: int, deadline: float | None) -> ToolResult:
        async with self._open() as runtime:
            return await runtime.call(self._tool.name, {"query": query, "k": k}, thread=self._thread, deadline=deadline)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Runtime]:
        if self._runtime is not None:
            yield self._runtime
        else:
            async with self._private_runtime.open(self._thread) as runtime:
                yield runtime


def _mask(key: str) -> None:
    """Mask the key in records and in all logs, those of the HTTP client too."""
    if key:
        hide_always([key, quote(key, safe="")])
        guard_logs()
