"""A deep search over a simulated web on loopback: a search service, linked pages, and two steps to the answer."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import Any

from tests.mcp.kit import serving as mcp_serving
from tests.unit.search.web.kit import Request, Web, answer, page, serving

from clicket.mcp import McpServer
from clicket.runtime.runtime import Runtime
from clicket.search import Mixed, deep_search
from clicket.testing import memory_runtime
from clicket.tools import tool
from clicket.web import Pages, SearXNG, ToolEngine

QUESTION = "In which town was the architect of the Varnholm Lighthouse born?"
PAGES = {
    "Varnholm Lighthouse": "The Varnholm Lighthouse is a lighthouse on the island of Varnholm. It was lit in 1887 and stands 41 "
    "metres tall. For years nobody kept its lamp. Its architect was Ilsabet Marek, who also built the harbour office.",
    "Ilsabet Marek": "Ilsabet Marek was an engineer of the coast. She drew bridges, towers and one theatre. "
    "Marek was born in Tollmere in 1849 as the daughter of a ropemaker, and studied in the capital.",
    "Tollmere": "Tollmere is a market town on the river Oun. It is known for its ropes and for its cheese fair in May.",
    "Varnholm": "Varnholm is an island with four villages. Its ferry leaves twice a day, and its birds are counted each spring.",
    "Osgar Lindt": "Osgar Lindt was an architect of railway stations. He was born in Hallenby and died in the same house.",
    "Lighthouse": "A lighthouse is a tower with a lamp at its top that guides ships. Many were built of granite.",
    "Cheese fair": "A cheese fair is a market at which cheese is sold, judged and eaten, most often in spring.",
}  # fmt: skip


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


class FakeWeb:
    """A search service that indexes titles and beginnings, as real ones do, and the pages."""

    def __init__(self) -> None:
        self.web: Web | None = None

    def __call__(self, request: Request) -> bytes:
        return self.found(request) if request.path == "/search" else self.shown(request)

    def address(self, title: str) -> str:
        assert self.web is not None
        return f"{self.web.url}/wiki/{title.replace(' ', '_')}"

    def found(self, request: Request) -> bytes:
        asked = set(words(request.params["q"])) - set("in which was the of a an is it".split())
        scores = {
            title: sum(2 * (w in words(title)) + (w in words(text)) for w in asked) for title, text in PAGES.items()
        }
        best = sorted((title for title in PAGES if scores[title]), key=lambda title: (-scores[title], title))[:3]
        results = [{"title": title, "url": self.address(title), "content": PAGES[title][:60]} for title in best]
        return answer({"query": request.params["q"], "results": results, "unresponsive_engines": []})

    def shown(self, request: Request) -> bytes:
        title = request.path.removeprefix("/wiki/").replace("_", " ")
        if title not in PAGES:
            return page("gone", "404 Not Found")
        text = PAGES[title]
        for other in PAGES:
            if other != title:
                text = text.replace(other, f'<a href="{self.address(other)}">{other}</a>', 1)
        menu = "<nav><ul><li><a href='/'>Main page</a><li><a href='/about'>About this web</a></ul></nav>"
        return page(f"<html><title>{title} - A Web</title>{menu}<main><h1>{title}</h1><p>{text}</p></main></html>")


async def fake_web(stack: AsyncExitStack) -> tuple[FakeWeb, Web]:
    fake = FakeWeb()
    fake.web = await stack.enter_async_context(serving(fake))
    return fake, fake.web


async def test_two_steps_over_pages_of_the_web() -> None:
    async with AsyncExitStack() as stack:
        _, web = await fake_web(stack)
        engine = Pages(SearXNG(web.url), top=3, allow_hosts=["127.0.0.1"])
        result = await deep_search(QUESTION, engine=engine, max_loop=3)
        fetched = [request.path for request in web.seen if request.path != "/search"]
        asked = [request.params["q"] for request in web.seen if request.path == "/search"]

    assert "Tollmere" in result.answer
    assert "About this web" not in result.answer
    documents = {document.id: document for document in result.documents}
    assert result.citations
    assert all(citation.holds(documents[citation.doc]) for citation in result.citations)
    cited = {documents[citation.doc].title for citation in result.citations}
    assert "Ilsabet Marek" in cited
    assert documents[next(iter(documents))].url.startswith(web.url)
    assert len(fetched) == len(set(fetched))  # each page once, however often it was found
    assert len(asked) == len({query.casefold() for query in asked})


async def test_the_same_web_gives_the_same_bytes() -> None:
    async with AsyncExitStack() as stack:
        _, web = await fake_web(stack)
        results = [
            (await deep_search(QUESTION, engine=Pages(SearXNG(web.url), allow_hosts=["127.0.0.1"]))).to_json()
            for _ in range(2)
        ]
    assert results[0] == results[1]


async def test_a_web_that_half_works_still_answers_and_says_so() -> None:
    async with AsyncExitStack() as stack:
        fake, web = await fake_web(stack)
        broken = await stack.enter_async_context(serving(lambda _: page("<h1>Maintenance</h1>", "503 Down")))
        web.handle = lambda request: page("no", "500 Oops") if request.path.endswith("/Varnholm") else fake(request)
        options: dict[str, Any] = {"max_retries": 0, "failure_threshold": 2}
        mixed = Mixed([SearXNG(web.url), SearXNG(broken.url, name="broken", **options)])
        result = await deep_search(QUESTION, engine=Pages(mixed, allow_hosts=["127.0.0.1"]))
        assert len(broken.seen) <= 10
    assert "Tollmere" in result.answer
    assert any("broken" in note for note in result.notes)


async def test_a_search_tool_of_an_mcp_server_is_an_engine() -> None:
    @tool(read_only=True)
    async def web_search(query: str, count: int = 5) -> dict[str, Any]:
        """Searches."""
        asked = set(words(query))
        best = [title for title, text in PAGES.items() if asked & set(words(title))][:count]
        return {
            "results": [
                {"title": title, "url": f"https://a.example/{title}", "content": PAGES[title]} for title in best
            ]
        }

    async with Runtime([web_search], store="memory://") as far, mcp_serving(far) as url, memory_runtime() as runtime:
        server = McpServer("far", url=url, prefix="far_")
        await server.join(runtime)
        engine = ToolEngine(runtime, "far_web_search", k_argument="count", name="far")
        found = await engine.search("Tollmere", k=3)
        calls = (await runtime.history(tool="far_web_search")).items
        await server.close()
    assert [one.title for one in found] == ["Tollmere"]
    assert found[0].text == PAGES["Tollmere"]
    assert len(calls) == 1
