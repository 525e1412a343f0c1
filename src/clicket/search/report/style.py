"""How a report looks, by day and by night, and what it may do: nothing but draw what it brought."""

from __future__ import annotations

__all__ = ["POLICY", "STYLE"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

STYLE = """
:root { color-scheme: light dark;
  --ink: #1d2129; --dim: #646c7a; --paper: #fff; --panel: #f5f6f8; --line: #dfe3e8; --link: #0b5cad;
  --bad: #c2242f; --good: #1a7f37; --mark: #fff3bf; --edge: #e0b400; --target: #ffd84d }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4e7ec; --dim: #98a0ad; --paper: #15181d; --panel: #1d2127; --line: #333a44; --link: #6cb2ff;
  --bad: #ff7b72; --good: #4cc26b; --mark: #3d3413; --edge: #b08d1e; --target: #6b5710 } }
* { box-sizing: border-box }
html { scroll-padding-top: 4rem }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, sans-serif }
main { max-width: 50rem; margin: 0 auto; padding: 2.2rem 1.25rem 4rem; overflow-wrap: anywhere }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem }
h2 { font-size: 1.12rem; margin: 2.4rem 0 .7rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem }
.facts, .where, footer, .dim { color: var(--dim); font-size: .86rem }
.answer { margin-top: 1.5rem; padding: .25rem 1.25rem; background: var(--panel); border-radius: 10px }
.answer p { white-space: pre-line } sup { white-space: nowrap }
sup { line-height: 0 } sup a { text-decoration: none; font-weight: 600; padding: 0 .12em }
.sources { list-style: none; padding: 0; margin: 0 }
.sources li { display: grid; grid-template-columns: 2.1rem 1fr; padding: .65rem .5rem; border-radius: 8px }
.sources .number { color: var(--dim); font-variant-numeric: tabular-nums; font-weight: 600 }
blockquote { margin: 0 0 .15rem; padding: 0 }
:target { background: var(--target); outline: 2px solid var(--edge); outline-offset: 2px; border-radius: 3px }
.round { margin: .9rem 0; padding: .7rem 1rem; border: 1px solid var(--line); border-radius: 8px }
.round ul { margin: .3rem 0; padding-left: 1.2rem } .round p { margin: .3rem 0 0 }
meter { width: 6rem; vertical-align: middle }
.areas span { display: inline-block; margin: .15rem .3rem .15rem 0; padding: 0 .55rem; border-radius: 99px;
  background: var(--panel); border: 1px solid var(--line); font-size: .84rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .32rem .6rem .32rem 0; border-bottom: 1px solid var(--line) }
th { color: var(--dim); font-weight: 500 } td.count { font-variant-numeric: tabular-nums; white-space: nowrap }
.text { margin: .3rem 0 1.6rem; padding: .9rem 1.1rem; border: 1px solid var(--line); border-radius: 8px;
  white-space: pre-line; font-size: .94rem }
.skip { display: block; margin: .7rem 0; color: var(--dim); font-size: .82rem }
mark { background: var(--mark); color: inherit; padding: .1em .1em; border-radius: 3px; scroll-margin: 6rem }
mark + sup { margin-left: .1em }
.bad { color: var(--bad) } .good { color: var(--good) }
footer { margin-top: 2.6rem; padding-top: .6rem; border-top: 1px solid var(--line) }
footer p { margin: .35rem 0 }
@media print { main { max-width: none } .round, .sources li { break-inside: avoid } }
"""
