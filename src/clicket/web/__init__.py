"""Search engines of the web, and the pages they find."""

from __future__ import annotations

from clicket.search.engines.adapter import EngineFailed
from clicket.web.declared import JsonEngine
from clicket.web.declaring import engine_of, engines_of
from clicket.web.fetching import PageFailed
from clicket.web.pages import Page, Pages
from clicket.web.rate import Rate
from clicket.web.services import Bing, Brave, SearXNG, Serper, Tavily
from clicket.web.tools import ToolEngine

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
