"""An engine that adds page texts: the results of another engine, with the text of the page instead of the excerpt.

If a page cannot be read, the result keeps its excerpt, and the failure is counted and noted. Pages are fetched for one search,
few at a time and each once, as a browser does; `robots.txt`, which is for crawlers, is not consulted. Hosts in `skip` are never
fetched.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from clicket.errors import UsageError
from clicket.model.document import Document
from clicket.model.text.charset import decode
from clicket.safety.certificates import load_ssl_context
from clicket.safety.guard import AddressGuard, AddressRefused, Resolve
from clicket.search.engines.adapter import Answer, as_engine
from clicket.search.engines.document_pool import canonical_url
from clicket.search.extract.extracted_text import Unreadable
from clicket.search.extract.html import extract_html
from clicket.search.extract.pdf import extract_pdf
from clicket.search.web.page_fetch import Fetched, PageFailed, fetch
from clicket.system.bridge import run_in_thread

if TYPE_CHECKING:
    import httpcore2
    import httpx2

__all__ = ["Page", "Pages"]

_TIME_SHARE = 0.9  # of the time that is left, so that pages that were read in time are not lost
_MIN_TIME = 0.2  # seconds; with less time left, no fetch is started


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The main text of a page. `url` is the address after redirects."""

    url: str
    title: str
    text: str
    truncated: bool = False


class Pages:
    """`Pages(engine, top=5)`: the first `top` results of each search with the text of their pages.

    At most `max_size` bytes of a page are read, unpacked; a page has `timeout` seconds, and all of them end before the
    search's deadline. `allow_hosts` and `allow_private` open what is not on the public internet.
    """

    def __init__(
        self,
        engine: Any,
        *,
        top: int = 5,
        timeout: float = 8.0,
        max_size: int = 2 * 1024 * 1024,
        max_text: int = 100_000,
        max_concurrency: int = 5,
        max_redirects: int = 5,
        max_kept: int = 256,
        skip: Iterable[str] = (),
        allow_private: bool = False,
        allow_hosts: Iterable[str] = (),
        resolve: Resolve | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        for name, value in (("top", top), ("max_size", max_size), ("max_text", max_text), ("max_kept", max_kept)):
            if type(value) is not int or value < 1:
                raise UsageError(f"Pages: {name} must be a whole number of at least 1, not {value!r}.")
        self._engine = as_engine(engine)
        self.name: str = self._engine.name
        self.failures: int = 0
        """How many pages could not be read so far."""
        self._top = top
        self._timeout = timeout
        self._max_size = max_size
        self._max_text = max_text
        self._max_concurrency, self._max_redirects, self._max_kept = max_concurrency, max_redirects, max_kept
        self._skip = tuple(host.lower().strip(".") for host in skip)
        try:
            self._guard = AddressGuard(allow_private=allow_private, allow_hosts=allow_hosts, resolve=resolve)
        except AddressRefused as error:
            raise UsageError(f"Pages: allow_hosts takes host names or addresses. {error.message}") from None
        self._network, self._ssl_context = network, ssl_context
        self._cached: dict[str, Page | PageFailed] = {}
        self._fetching: dict[str, asyncio.Future[None]] = {}

    def __repr__(self) -> str:
        return f"<pages of {self.name}>"

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        return (await self.ask(query, k=k, deadline=deadline)).documents

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer:
        """The other engine's answer, with pages; raises what that engine raises. Failed pages are in the notes."""
        loop = asyncio.get_running_loop()
        ends_at = None if deadline is None else loop.time() + deadline
        answer = await self._engine.ask(query, k=k, deadline=deadline)
        wanted = [document for document in answer.documents if document.url and not self._skipped(document.url)]
        wanted = wanted[: self._top]
        if not wanted:
            return answer
        limit = self._timeout if ends_at is None else min(self._timeout, (ends_at - loop.time()) * _TIME_SHARE)
        found = await self._pages([document.url for document in wanted], limit)
        pages = {document.id: page for document, page in zip(wanted, found, strict=True)}
        documents = tuple(_with_page(document, pages.get(document.id), self._max_text) for document in answer.documents)
        return Answer(documents=documents, notes=(*answer.notes, *self._failure_notes(wanted, found)))

    async def read(self, url: str) -> Page:
        """One page; raises `PageFailed`."""
        (page,) = await self._pages([url], self._timeout)
        if isinstance(page, PageFailed):
            raise page
        return page

    def _skipped(self, url: str) -> bool:
        host = (urlsplit(url).hostname or "").lower()
        return any(host == name or host.endswith(f".{name}") for name in self._skip)

    def _failure_notes(self, wanted: Sequence[Document], found: Sequence[Page | PageFailed]) -> list[str]:
        failed = [(one.url, page) for one, page in zip(wanted, found, strict=True) if isinstance(page, PageFailed)]
        if not failed:
            return []
        url, first = failed[0]
        host = urlsplit(url).hostname
        return [f"{self.name}: {len(failed)} of {len(wanted)} pages could not be read ({host}: {first.message[:200]})"]

    async def _pages(self, urls: Sequence[str], limit: float) -> Sequence[Page | PageFailed]:
        """Fetch all pages concurrently, within `limit` seconds. The result has the order of `urls`."""
        if limit < _MIN_TIME:
            return [PageFailed("no time was left for it") for _ in urls]
        gate = asyncio.Semaphore(self._max_concurrency)
        ends_at = asyncio.get_running_loop().time() + limit
        client = await self._client()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._page(client, gate, url, ends_at)) for url in urls]
        finally:
            await client.aclose()
        return [task.result() for task in tasks]

    async def _page(
        self, client: httpx2.AsyncClient, gate: asyncio.Semaphore, url: str, ends_at: float
    ) -> Page | PageFailed:
        """The page from the cache, from another search that is fetching it, or fetched."""
        loop = asyncio.get_running_loop()
        key = canonical_url(url)
        while key not in self._cached and key in self._fetching:
            done, _ = await asyncio.wait([self._fetching[key]], timeout=max(0.0, ends_at - loop.time()))
            if not done:
                return PageFailed("another search is still waiting for it", timeout=True)
        if key in self._cached:
            return self._cached[key]
        mine = self._fetching[key] = loop.create_future()
        try:
            page: Page | PageFailed
            try:
                async with asyncio.timeout_at(ends_at), gate:
                    page = await self._fetch_page(client, url, ends_at - loop.time())
            except PageFailed as error:
                page = error
            except TimeoutError:
                page = PageFailed("there was not enough time for it", timeout=True)
            except Exception as error:  # no page may end the search
                page = PageFailed(f"it cannot be read ({type(error).__name__})")
            if isinstance(page, PageFailed):
                self.failures += 1
            if isinstance(page, Page) or not page.details.get("timeout"):  # a later search may have more time for it
                self._cache(key, page)
            return page
        finally:
            del self._fetching[key]
            mine.set_result(None)

    def _cache(self, key: str, page: Page | PageFailed) -> None:
        while len(self._cached) >= self._max_kept:
            del self._cached[next(iter(self._cached))]
        self._cached[key] = page

    async def _fetch_page(self, client: httpx2.AsyncClient, url: str, limit: float) -> Page:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + limit
        got = await fetch(client, url, max_size=self._max_size, timeout=limit, max_redirects=self._max_redirects)
        left = max(ends_at - loop.time(), _MIN_TIME)
        page: Page = await run_in_thread(lambda: _extracted(got, left))
        if not page.text.strip():
            raise PageFailed("there is no text on it")
        return page

    async def _client(self) -> httpx2.AsyncClient:
        context = self._ssl_context or await load_ssl_context()
        from clicket.safety.transport import open_client  # here, because it imports httpx2

        return open_client(self._guard, context, self._network)


def _extracted(got: Fetched, seconds: float) -> Page:
    if got.kind == "application/pdf":
        return _from_pdf(got, seconds)
    if got.kind in ("text/plain", "text/markdown"):
        text = decode(got.body, got.charset).replace("\x00", "")
        return Page(url=got.url, title="", text=text.strip(), truncated=got.truncated)
    read = extract_html(got.body, charset=got.charset)
    text = read.text
    if read.title and text.startswith(f"{read.title}\n"):  # the title is shown separately, and is not a sentence
        text = text[len(read.title) :].lstrip()
    return Page(url=got.url, title=read.title, text=text, truncated=got.truncated or read.truncated)


def _from_pdf(got: Fetched, seconds: float) -> Page:
    if got.truncated:
        raise PageFailed(f"it is a PDF file of more than {len(got.body):,} bytes, and part of one cannot be read")
    try:
        read = extract_pdf(got.body, seconds=seconds)
    except Unreadable as error:
        raise PageFailed(f"it is a PDF file, and {error.reason}", timeout=error.again) from None
    return Page(url=got.url, title=read.title, text=read.text, truncated=read.truncated)


def _with_page(document: Document, page: Page | PageFailed | None, max_text: int) -> Document:
    """The document with the text of its page, unless the page is shorter than the excerpt, as a login page is."""
    if not isinstance(page, Page) or len(page.text) < len(document.text):
        return document
    title = document.title or page.title
    return msgspec.structs.replace(document, title=title, text=page.text[:max_text], spans=())
