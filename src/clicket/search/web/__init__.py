"""Web search engines, and the pages that they find.

`services` are the known search services, `json_engine` a service by declaration, `tool_engine` a tool as an engine,
`engine_config` engines from settings. `search_request` sends one query, `result_parser` and `result_fields` read results,
`json_path` finds values in JSON, `engine_errors` explains failures. `pages` reads result pages, `page_fetch` downloads one.
`rate` limits requests, `certificates` is the TLS trust, `private_runtime` the runtime of engines that were given none.
"""

from __future__ import annotations

from clicket.search.engines.adapter import EngineFailed
from clicket.search.web.engine_config import engine_of, engines_of
from clicket.search.web.json_engine import JsonEngine
from clicket.search.web.page_fetch import PageFailed
from clicket.search.web.pages import Page, Pages
from clicket.search.web.rate import Rate
from clicket.search.web.services import Bing, Brave, SearXNG, Serper, Tavily
from clicket.search.web.tool_engine import ToolEngine

__all__ = [
    "Bing",
    "Brave",
    "EngineFailed",
    "JsonEngine",
    "Page",
    "PageFailed",
    "Pages",
    "Rate",
    "SearXNG",
    "Serper",
    "Tavily",
    "ToolEngine",
    "engine_of",
    "engines_of",
]
