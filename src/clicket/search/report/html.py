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
:root { color-scheme: light dark;
  --ink: #1d2129; --dim: #646c7a; --paper: #fff; --panel: #f5f6f8; --line: #dfe3e8; --link: #0b5cad;
  --mark: #fff3bf; --target: #ffd84d }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4e7ec; --dim: #98a0ad; --paper: #15181d; --panel: #1d2127; --line: #333a44; --link: #6cb2ff;
  --mark: #3d3413; --target: #6b5710 } }
* { box-sizing: border-box }
html { scroll-padding-top: 4rem }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, sans-serif }
main { max-width: 50rem; margin: 0 auto; padding: 2.2rem 1.25rem 4rem; overflow-wrap: anywhere }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem }
h2 { font-size: 1.12rem; margin: 2.4rem 0 .7rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line) }
.question p, .rounds, .made, .sources p { color: var(--dim); font-size: .88rem }
.answer { margin-top: 1.5rem; padding: .25rem 1.25rem; background: var(--panel); border-radius: 10px }
blockquote { margin: .2rem 0 1rem; padding-left: 1rem; border-left: 3px solid var(--line) }
.sources blockquote p { color: var(--ink); font-size: 1rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem .6rem .32rem 0; border-bottom: 1px solid var(--line) }
th { color: var(--dim); font-weight: 500 }
mark { background: var(--mark); color: inherit; padding: .1em; border-radius: 3px }
p:has(:target) + blockquote mark, :target + strong { background: var(--target) }
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
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _link(self: object, tokens: list[Token], at: int, *_: object) -> str:
    url = str(tokens[at].attrGet("href") or "")
    away = "" if url.startswith("#") else ' rel="noopener noreferrer nofollow"'
    return f'<a{away} href="{escape(url)}">'
