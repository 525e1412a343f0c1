"""A simulated web on loopback: a server that answers by a function, and search services with their protocols."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

KEY = "BSAkey-0123456789abcdef-secret"


class Request:
    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        self.body = body
        parts = urlsplit(self.target)
        self.path = parts.path
        self.params = dict(parse_qsl(parts.query, keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = bytes | AsyncIterator[bytes]


def answer(body: Any = b"", status: str = "200 OK", **headers: str) -> bytes:
    if not isinstance(body, bytes | str):
        headers.setdefault("content_type", "application/json")
        body = json.dumps(body)
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(raw)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def page(body: str | bytes, status: str = "200 OK", **headers: str) -> bytes:
    return answer(body, status, **{"content_type": "text/html; charset=utf-8", **headers})


def head(**headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def packed(body: bytes) -> bytes:
    return answer(gzip.compress(body), content_type="text/html", content_encoding="gzip")


class Web:
    """`seen` is every request; `sent` counts the sent bytes."""

    def __init__(self, handle: Callable[[Request], Answer]) -> None:
        self.handle = handle
        self.seen: list[Request] = []
        self.sent = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                length = next(
                    (int(x[15:]) for x in lines.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0
                )
                request = Request(lines, await reader.readexactly(length))
                self.seen.append(request)
                answered = self.handle(request)
                if isinstance(answered, bytes):
                    writer.write(answered)
                    await writer.drain()
                    continue
                async for part in answered:
                    writer.write(part)
                    await writer.drain()
                    self.sent += len(part)
                return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def serving(handle: Callable[[Request], Answer]) -> AsyncIterator[Web]:
    web = Web(handle)
    served: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.ensure_future(web.serve(reader, writer)))

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    web.port = listener.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        listener.close()
        for _ in range(10):
            await asyncio.sleep(0)
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)


# --- the services -----------------------------------------------------------------------------------------------------

FOUND = [
    {"title": f"Page {n}", "url": f"https://site{n}.example/p?utm_source=x&id={n}", "text": f"Words of page {n}."}
    for n in range(1, 31)
]


def searxng(request: Request) -> bytes:
    if request.method != "GET" or request.path != "/search":
        return page("<h1>Page not found</h1>", "404 NOT FOUND")
    if request.params.get("format") != "json":
        return page("<html>results</html>")
    if not request.params.get("q"):
        return answer({"error": "No query"}, "400 BAD REQUEST")
    results = [
        {
            "url": each["url"],
            "title": each["title"],
            "content": each["text"],
            "publishedDate": None,
            "thumbnail": "",
            "engine": "duckduckgo",
            "template": "default.html",
            "parsed_url": ["https", "site", "/p", "", "", ""],
            "engines": ["duckduckgo", "brave"],
            "positions": [n, n],
            "score": 4.0 / n,
            "category": "general",
        }
        for n, each in enumerate(FOUND, 1)
    ]
    return answer(
        {
            "query": request.params["q"],
            "number_of_results": 0,
            "results": results,
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [["google", "timeout"]],
        }
    )


def tavily(request: Request) -> bytes:
    if request.method != "POST" or request.path != "/search":
        return answer({"detail": "Not Found"}, "404 Not Found")
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return answer({"detail": {"error": "Unauthorized: missing or invalid API key."}}, "401 Unauthorized")
    if not request.headers["content-type"].startswith("application/json"):
        return answer({"detail": {"error": "Unsupported"}}, "415 Unsupported Media Type")
    given = request.json
    if not isinstance(given.get("max_results"), int) or not 0 <= given["max_results"] <= 20:
        return answer({"detail": {"error": "Invalid max_results"}}, "400 Bad Request")
    if len(given["query"]) > 400:
        return answer(
            {"detail": {"error": "Query is too long. Max query length is 400 characters."}}, "400 Bad Request"
        )
    if given.get("search_depth", "basic") not in ("basic", "advanced", "fast", "ultra-fast"):
        return answer({"detail": {"error": "Invalid search depth."}}, "400 Bad Request")
    results = [
        {
            "url": each["url"],
            "title": each["title"],
            "content": each["text"],
            "score": 1.0 - n / 100,
            "raw_content": f"All of {each['text']}" if given.get("include_raw_content") else None,
            "favicon": "https://site/favicon.ico",
        }
        for n, each in enumerate(FOUND[: given["max_results"]])
    ]
    return answer(
        {
            "query": given["query"],
            "follow_up_questions": None,
            "answer": None,
            "images": [],
            "results": results,
            "response_time": 1.09,
            "request_id": "123e4567-e89b-12d3-a456-426614174111",
        }
    )


def brave(request: Request) -> bytes:
    def refused(status: str, code: str, detail: str) -> bytes:
        error = {"id": "f0", "status": int(status[:3]), "code": code, "detail": detail, "meta": {}}
        return answer({"type": "ErrorResponse", "error": error, "time": 1_700_000_000}, status)

    if request.method != "GET" or request.path != "/res/v1/web/search":
        return refused("404 Not Found", "NOT_FOUND", "no such resource")
    if request.headers.get("x-subscription-token") != KEY:
        return refused("422 Unprocessable Entity", "SUBSCRIPTION_TOKEN_INVALID", "The provided token is invalid.")
    if request.headers.get("accept") != "application/json" or "gzip" not in request.headers.get("accept-encoding", ""):
        return refused("406 Not Acceptable", "NOT_ACCEPTABLE", "Accept")
    if not 1 <= int(request.params.get("count", "20")) <= 20 or not fits(request.params["q"]):
        return refused("422 Unprocessable Entity", "VALIDATION", "Unable to validate request parameter(s)")
    results = [
        {
            "title": each["title"].replace("Page", "<strong>Page</strong>"),
            "url": each["url"],
            "is_source_local": False,
            "is_source_both": False,
            "description": each["text"] + " It&#x27;s <strong>marked</strong> &amp; cut",
            "page_age": "2024-01-01T00:00:00",
            "profile": {"name": "Site", "url": each["url"], "long_name": "site.example", "img": "https://i"},
            "language": "en",
            "family_friendly": True,
            "type": "search_result",
            "subtype": "generic",
            "meta_url": {"scheme": "https", "netloc": "site.example", "hostname": "site.example", "path": "› p"},
            **({"extra_snippets": ["One more.", "And another."]} if request.params.get("extra_snippets") else {}),
        }
        for each in FOUND[: int(request.params.get("count", "20"))]
    ]
    shown = {"query": {"original": request.params["q"], "more_results_available": True}, "mixed": {"type": "mixed"}}
    if request.params["q"] == "nothing":
        return answer({**shown, "type": "search"})
    web = {"type": "search", "results": results, "family_friendly": True}
    raw = gzip.compress(json.dumps({**shown, "type": "search", "web": web}).encode())
    return answer(raw, content_type="application/json", content_encoding="gzip", x_ratelimit_limit="1, 15000")


def fits(query: str) -> bool:
    return 1 <= len(query) <= 400 and len(query.split()) <= 50


def serper(request: Request) -> bytes:
    if request.method != "POST" or request.path != "/search":
        return answer({"message": "Not Found", "statusCode": 404}, "404 Not Found")
    if request.headers.get("x-api-key") != KEY:
        return answer({"message": "Unauthorized.", "statusCode": 403}, "403 Forbidden")
    if not request.json.get("q"):
        return answer({"message": "Missing query parameter", "statusCode": 400}, "400 Bad Request")
    organic = [
        {"title": each["title"], "link": each["url"], "snippet": each["text"], "date": "Jan 1, 2024", "position": n}
        for n, each in enumerate(FOUND[: request.json.get("num", 10)], 1)
    ]
    del organic[1]["snippet"]  # Google has results without one
    return answer(
        {
            "searchParameters": {"q": request.json["q"], "type": "search", "engine": "google"},
            "knowledgeGraph": {"title": "Page", "type": "Thing"},
            "organic": organic,
            "peopleAlsoAsk": [],
            "relatedSearches": [],
            "credits": 1,
        }
    )


def bing(request: Request) -> bytes:
    if request.method != "GET" or request.path != "/v7.0/search":
        return answer({"error": {"code": "404", "message": "Resource not found"}}, "404 Resource Not Found")
    if request.headers.get("ocp-apim-subscription-key") != KEY:
        message = "Access denied due to invalid subscription key or wrong API endpoint."
        return answer({"error": {"code": "401", "message": message}}, "401 PermissionDenied")
    if not request.params.get("q") or int(request.params.get("count", "10")) > 50:
        errors = [{"code": "InvalidRequest", "subCode": "ParameterMissing", "message": "Required", "parameter": "q"}]
        return answer({"_type": "ErrorResponse", "errors": errors}, "400 Bad Request")
    if request.params["q"] == "nothing":
        return answer({"_type": "SearchResponse", "queryContext": {"originalQuery": "nothing"}, "rankingResponse": {}})
    value = [
        {
            "id": f"https://api.bing.microsoft.com/api/v7/#WebPages.{n}",
            "name": each["title"],
            "url": each["url"],
            "isFamilyFriendly": True,
            "displayUrl": "https://site.example",
            "snippet": each["text"],
            "dateLastCrawled": "2024-01-01T00:00:00.0000000Z",
            "language": "en",
            "isNavigational": False,
        }
        for n, each in enumerate(FOUND[: int(request.params.get("count", "10"))])
    ]
    pages = {"webSearchUrl": "https://www.bing.com/search?q=x", "totalEstimatedMatches": 100, "value": value}
    return answer({"_type": "SearchResponse", "queryContext": {"originalQuery": "x"}, "webPages": pages})


SERVICES: Mapping[str, Callable[[Request], bytes]] = {
    "searxng": searxng,
    "tavily": tavily,
    "brave": brave,
    "serper": serper,
    "bing": bing,
}
