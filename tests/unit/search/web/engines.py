"""The engines of these tests, each against a fake server of its service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.search.web.kit import KEY

from clicket.web import Bing, Brave, JsonEngine, SearXNG, Serper, Tavily

QUICK: dict[str, Any] = {"retry_delay": 0.001, "max_retries": 1}

MAKE: dict[str, Callable[..., JsonEngine]] = {
    "searxng": lambda web, **options: SearXNG(web.url + "/", **options),
    "tavily": lambda web, key=KEY, **options: Tavily(key, url=f"{web.url}/search", **options),
    "brave": lambda web, key=KEY, **options: Brave(
        key, url=f"{web.url}/res/v1/web/search", **{"rate": "100/s", **options}
    ),
    "serper": lambda web, key=KEY, **options: Serper(key, url=f"{web.url}/search", **options),
    "bing": lambda web, key=KEY, **options: Bing(key, url=web.url, **options),
}
WITH_KEY = [name for name in MAKE if name != "searxng"]
