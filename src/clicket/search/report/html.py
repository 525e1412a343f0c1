"""A search result as one HTML file without scripts and without anything to fetch: the Markdown report, rendered."""

from __future__ import annotations

from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from clicket.search.findings import SearchResult
from clicket.search.report.markdown import one_line, sections

__all__ = ["to_html"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_STYLE = """
:root { color-scheme: light dark }
body { max-width: 50rem; margin: 0 auto; padding: 2rem 1.25rem; font: 16px/1.6 system-ui, sans-serif; overflow-wrap: anywhere }
h2 { font-size: 1.12rem; margin: 2.4rem 0 .7rem; border-bottom: 1px solid #8886 }
.question p, .rounds, .made, .sources > p { opacity: .7; font-size: .88rem }
.answer { padding: .25rem 1.25rem; background: #8881; border-radius: 10px }
blockquote { margin: .2rem 0 1rem; padding-left: 1rem; border-left: 3px solid #8886 }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem .6rem .32rem 0; border-bottom: 1px solid #8886 }
mark { background: #fc04; color: inherit }
p:has(:target) + blockquote mark { background: #fc0a }
"""


def to_html(result: SearchResult) -> str:
    """The result as an HTML page."""
    # HTML is allowed for the anchors and marks of the report; all other text is escaped there.
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    markdown.add_render_rule("link_open", _link)
    body = "".join(f'<section class="{name}">\n{markdown.render(text)}</section>\n' for name, text in sections(result))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(one_line(result.question, 1_000))}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}</body>\n</html>\n"
    )


def _link(self: object, tokens: list[Token], at: int, *_: object) -> str:
    url = str(tokens[at].attrGet("href") or "")
    away = "" if url.startswith("#") else ' rel="noopener noreferrer nofollow"'
    return f'<a{away} href="{escape(url)}">'
