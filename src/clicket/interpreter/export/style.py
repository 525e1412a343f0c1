"""CSS of an exported page, light and dark, and its content security policy."""

from __future__ import annotations

__all__ = ["FRAME_STYLE", "POLICY", "STYLE"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Of the page and of every frame in it: only inline styles and data URLs of pictures."""

_COLOURS = """
:root { color-scheme: light dark; --ink: #1d2129; --dim: #6a7280; --paper: #ffffff; --panel: #f5f6f8; --line: #dfe3e8;
  --good: #1a7f37; --bad: #c2242f; --badpanel: #fdf1f0; --warn: #7a4d00; --warnpanel: #fdf8e8; --link: #0b5cad;
  --key: #8a2be2; --text: #0a6b3d; --number: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ec; --dim: #959daa; --paper: #15181d; --panel: #1d2127;
  --line: #333a44; --good: #4cc26b; --bad: #ff7b72; --badpanel: #2b1a1b; --warn: #e3b341; --warnpanel: #282212;
  --link: #6cb2ff; --key: #c79bff; --text: #7ee2a8; --number: #79c0ff; } }
"""

STYLE = (
    _COLOURS
    + """
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 56rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }
pre, code, .label { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { margin: 0; padding: .6rem .9rem; font-size: .84rem; line-height: 1.5; white-space: pre-wrap;
  overflow-wrap: anywhere; max-height: 32rem; overflow: auto }
a { color: var(--link) }
.prose { margin: 1.2rem 0; overflow-wrap: anywhere }
.prose h1, .prose h2, .prose h3 { line-height: 1.25 }
.prose pre { background: var(--panel); border-radius: 6px }
.prose table { border-collapse: collapse } .prose td, .prose th { border: 1px solid var(--line); padding: .25rem .6rem }
.cell { margin: 1.2rem 0; border: 1px solid var(--line); border-radius: 8px; overflow: hidden }
.label { font-size: .74rem; color: var(--dim); background: var(--panel); padding: .35rem .9rem 0 }
.label span { float: right }
.code { background: var(--panel); max-height: none }
.code i { font-style: normal } .code .k { color: var(--key) } .code .s { color: var(--text) }
.code .n { color: var(--number) } .code .c { color: var(--dim); font-style: italic }
.cell > pre:not(.code), .cell > div:not(.label) { border-top: 1px solid var(--line) }
.stderr { background: var(--warnpanel); color: var(--warn) }
.error { background: var(--badpanel); color: var(--bad) }
.value { border-left: 3px solid var(--good) }
.shown, .value { overflow: auto }
.shown .prose, .value .prose { padding: 0 .9rem }
img { display: block; max-width: 100%; height: auto; margin: .6rem auto; background: #ffffff; border-radius: 4px }
iframe { display: block; width: 100%; border: 0; resize: vertical; overflow: auto; background: transparent }
footer { margin: 1.2rem 0 2.2rem; color: var(--dim); font-size: .86rem }
footer ul { margin: .3rem 0 0; padding-left: 1.2rem }
.good { color: var(--good) } .bad { color: var(--bad) }
@media print { pre { max-height: none } .cell { break-inside: avoid } }
"""
)

FRAME_STYLE = (
    _COLOURS
    + """
body { margin: .5rem .9rem; background: transparent; color: var(--ink); font: 14px/1.45 system-ui, sans-serif }
table { border-collapse: collapse; border: 0; font-variant-numeric: tabular-nums }
th, td { border: 0; border-bottom: 1px solid var(--line); padding: .22rem .7rem; text-align: right }
thead th { border-bottom: 2px solid var(--line) }
"""
)
