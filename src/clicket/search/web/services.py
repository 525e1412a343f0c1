"""The known search services, each as a declaration: its request, and where in its response the results are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clicket.errors import UsageError
from clicket.search.web.json_engine import JsonEngine

__all__ = ["Bing", "Brave", "SearXNG", "Serper", "Tavily"]


class SearXNG(JsonEngine):
    """A SearXNG instance, by the URL of its front page. Its settings must allow JSON. `params` are further parameters,
    such as `categories`, `engines`, `language`, `time_range` and `safesearch`."""

    def __init__(self, url: str, *, params: Mapping[str, Any] | None = None, **options: Any) -> None:
        base = url.rstrip("/").removesuffix("/search")
        given: dict[str, Any] = {
            "name": "searxng",
            "results": "results",
            "fields": {"title": "title", "url": "url", "text": "content", "score": "score"},
            "doubt": "unresponsive_engines",
            "hints": {
                403: "JSON is switched off there: its settings.yml needs `json` under `search: formats:`.",
                429: "Its limiter turned us away: lower rate=…, or let this address pass in its limiter.toml.",
            },
            **options,
        }
        super().__init__(url=f"{base}/search", params={"q": "{query}", "format": "json", **(params or {})}, **given)


class Tavily(JsonEngine):
    """Tavily. `params` are further fields of the request, such as `topic`, `days`, `include_domains` or `include_raw_content`,
    which returns whole pages instead of excerpts."""

    def __init__(
        self, key: str, *, depth: str = "basic", params: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        given: dict[str, Any] = {
            "name": "tavily",
            "url": "https://api.tavily.com/search",
            "results": "results",
            "fields": {"title": "title", "url": "url", "text": "raw_content|content", "score": "score"},
            "max_k": 20,
            "max_query": 400,
            "hints": {
                432: "The plan's limit is reached; look at the account.",
                433: "The pay-as-you-go limit is reached.",
            },
            **options,
        }
        super().__init__(
            method="POST",
            headers={"authorization": "Bearer {key}"},
            body={"query": "{query}", "max_results": "{k}", "search_depth": depth, **(params or {})},
            key=_key("Tavily", key),
            **given,
        )


class Brave(JsonEngine):
    """Brave Search. The default `rate` of its smallest plan is one request a second; larger plans allow more. `params` are further
    parameters, such as `country`, `search_lang`, `freshness`, or `extra_snippets`, which larger plans have."""

    def __init__(self, key: str, *, params: Mapping[str, Any] | None = None, **options: Any) -> None:
        given: dict[str, Any] = {
            "name": "brave",
            "url": "https://api.search.brave.com/res/v1/web/search",
            "results": "web.results",
            # A response without web results has no `web` at all.
            "empty": "type|query",
            "fields": {"title": "title", "url": "url", "text": "description"},
            "html": True,
            "max_k": 20,
            "max_query": 400,
            "max_words": 50,
            "rate": "1/s",
            **options,
        }
        if (params or {}).get("extra_snippets"):
            given["fields"] = {**given["fields"], "text": "extra_snippets|description"}
        super().__init__(
            headers={"x-subscription-token": "{key}", "accept": "application/json"},
            params={
                "q": "{query}",
                "count": "{k}",
                "text_decorations": False,
                "result_filter": "web",
                **(params or {}),
            },
            key=_key("Brave", key),
            **given,
        )


class Serper(JsonEngine):
    """Google's results by serper.dev. `params` are further fields of the request, such as `gl`, `hl`, `location` or `tbs`."""

    def __init__(self, key: str, *, params: Mapping[str, Any] | None = None, **options: Any) -> None:
        given: dict[str, Any] = {
            "name": "serper",
            "url": "https://google.serper.dev/search",
            "results": "organic",
            "empty": "searchParameters",
            "fields": {"title": "title", "url": "link", "text": "snippet"},
            **options,
        }
        super().__init__(
            method="POST",
            headers={"x-api-key": "{key}"},
            body={"q": "{query}", "num": "{k}", **(params or {})},
            key=_key("Serper", key),
            **given,
        )


class Bing(JsonEngine):
    """A service that speaks Bing's Web Search API, version 7. Microsoft's own has closed; `url` is that of another one, up to
    `/search`. `params` are further parameters, such as `mkt`, `freshness` or `safeSearch`."""

    def __init__(self, key: str, *, url: str, params: Mapping[str, Any] | None = None, **options: Any) -> None:
        base = url.rstrip("/")
        given: dict[str, Any] = {
            "name": "bing",
            "url": base if base.endswith("/search") else f"{base}/v7.0/search",
            "results": "webPages.value",
            "empty": "_type|queryContext",
            "complaint": "errors.0.message|error.message|error|message",
            "fields": {"title": "name", "url": "url", "text": "snippet"},
            "max_k": 50,
            "hints": {403: "Check the key; the plan may be used up.", 410: "Use https:// in the url."},
            **options,
        }
        super().__init__(
            headers={"ocp-apim-subscription-key": "{key}"},
            params={
                "q": "{query}",
                "count": "{k}",
                "responseFilter": "Webpages",
                "textFormat": "Raw",
                **(params or {}),
            },
            key=_key("Bing", key),
            **given,
        )


def _key(service: str, key: str) -> str:
    if not isinstance(key, str) or not key.strip():
        raise UsageError(f"{service} needs a key: get one there, and keep it in the environment.")
    return key.strip()
