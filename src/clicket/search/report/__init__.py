"""A search to be read: as Markdown, and as a page."""

from __future__ import annotations

from clicket.search.report.markdown import to_markdown
from clicket.search.report.page import to_page

__all__ = ["to_markdown", "to_page"]
