"""A search result to be read: as Markdown, or as an HTML page.

- `contents`: what both show
- `markdown`, `html`: the two forms
"""

from __future__ import annotations

from clicket.search.report.html import to_html
from clicket.search.report.markdown import to_markdown

to_page = to_html
"""Former name."""

__all__ = ["to_html", "to_markdown"]
