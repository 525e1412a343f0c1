"""A search result to be read: as Markdown (`markdown`), or as an HTML page (`html`), which is the Markdown rendered."""

from __future__ import annotations

from clicket.search.report.html import to_html
from clicket.search.report.markdown import to_markdown

__all__ = ["to_html", "to_markdown"]
