"""The plot as SVG, written by hand: recall@5 by rounds, a panel for each set, papers as lines at their height.

Colours come from a style sheet inside, so that it is light on light pages and dark on dark ones. The same figures give the
same file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.search.data import KNOWN
from benchmarks.search.published import PUBLISHED

__all__ = ["draw"]

_LINES = (
    ("plain", "no model", ("single", "round1", "round2", "round3")),
    ("minilm", "with MiniLM, offline", ("hybrid", "minilm1", "minilm2", "minilm3")),
    ("untitled", "titles removed, no model", ("text", None, None, "untitled")),
)
_PAPERS = ("BM25", "IRCoT + HippoRAG", "KAG", "HippoRAG 2")
_WIDTH, _PANEL, _LEFT, _TOP, _HIGH, _GAP = 1000, 268, 48, 92, 300, 52
_LOW, _FULL = 35.0, 100.0
_STYLE = """
  .page{fill:#ffffff} text{fill:#3b4252;font:12px system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}
  .title{font-size:17px;font-weight:600;fill:#1b2130} .name{font-size:14px;font-weight:600;fill:#1b2130}
  .small{font-size:11px;fill:#6b7385} .value{font-size:12px;font-weight:600}
  .grid{stroke:#e4e7ee} .paper{stroke:#a7afbf;stroke-dasharray:4 4}
  .line{fill:none;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round} .band{opacity:.35;stroke-width:2}
  .plain{stroke:#c8384f} .minilm{stroke:#2f6fdb} .untitled{stroke:#b07d12}
  .dot{stroke:#ffffff;stroke-width:1.5} .dot.plain,.value.plain{fill:#c8384f} .dot.minilm,.value.minilm{fill:#2f6fdb}
  .dot.untitled,.value.untitled{fill:#b07d12} .value{stroke:none}
  @media (prefers-color-scheme: dark){
    .page{fill:#0f1420} text{fill:#c6cddb} .title,.name{fill:#f1f4fa} .small{fill:#8f99ad} .grid{stroke:#273043} .paper{stroke:#5d687e}
    .plain{stroke:#ff6f83} .minilm{stroke:#6ea8ff} .untitled{stroke:#e8b84a} .dot{stroke:#0f1420}
    .dot.plain,.value.plain{fill:#ff6f83} .dot.minilm,.value.minilm{fill:#6ea8ff} .dot.untitled,.value.untitled{fill:#e8b84a}
    .value{stroke:none}
  }
"""


def draw(kept: Mapping[str, Any]) -> str:
    sets = [(name, kept[name]) for name in KNOWN if name in kept and kept[name].get("rows")]
    high = _TOP + _HIGH + 76
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high}" role="img" aria-labelledby="t d">',
        '<title id="t">Recall of supporting passages among the first five, by rounds of deep search</title>',
        f'<desc id="d">{escape(_told(sets))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{high}" rx="8"/>',
        f'<text class="title" x="{_LEFT}" y="34">Supporting passages found among the first five, %</text>',
        _legend(),
    ]
    for at, (name, one) in enumerate(sets):
        body += _panel(_LEFT + at * (_PANEL + _GAP), name, one)
    under = "Dashed: published figures, on pools and questions that differ (SEARCH.md). Bars: 95 % intervals after three rounds."
    body.append(f'<text class="small" x="{_LEFT}" y="{high - 16}">{escape(under)}</text>')
    return "\n".join([*body, "</svg>"]) + "\n"


def _y(percent: float) -> float:
    return round(_TOP + _HIGH * (1 - (percent - _LOW) / (_FULL - _LOW)), 1)


def _legend() -> str:
    out, x = [], float(_LEFT)
    for kind, title, _ in _LINES:
        out.append(f'<line class="line {kind}" x1="{x:g}" y1="56" x2="{x + 22:g}" y2="56"/>')
        out.append(f'<text x="{x + 29:g}" y="60">{escape(title)}</text>')
        x += 60 + 6.6 * len(title)
    return "\n".join(out)


def _panel(left: float, name: str, one: Mapping[str, Any]) -> list[str]:
    right, steps = left + _PANEL - 32, ("one search", "1 round", "2", "3")
    places = [left + 26 + at * (right - left - 52) / 3 for at in range(4)]
    head = f"{one['title']} · {one['questions']} questions · {one['passages']:,} passages"
    out = [f'<text class="name" x="{left}" y="{_TOP - 12}">{escape(head)}</text>']
    for level in range(40, 101, 10):
        out.append(f'<line class="grid" x1="{left}" y1="{_y(level)}" x2="{right}" y2="{_y(level)}"/>')
        out.append(f'<text class="small" x="{left - 6}" y="{_y(level) + 4:g}" text-anchor="end">{level}</text>')
    for place, step in zip(places, steps, strict=True):
        out.append(f'<text class="small" x="{place:g}" y="{_TOP + _HIGH + 20}" text-anchor="middle">{step}</text>')
    papers = {title: pairs[name][1] for title, _, pairs in PUBLISHED if title in _PAPERS and name in pairs}
    for title, value, label in _apart([(title, value, _y(value)) for title, value in papers.items()], 12):
        out.append(f'<line class="paper" x1="{left}" y1="{_y(value)}" x2="{right}" y2="{_y(value)}"/>')
        out.append(f'<text class="small" x="{left + 2}" y="{label - 3:g}">{escape(title)} {value:g}</text>')
    ends = []
    for kind, _, methods in _LINES:
        drawn = [
            (place, one["rows"][method])
            for place, method in zip(places, methods, strict=True)
            if method is not None and method in one["rows"]
        ]
        if not drawn:
            continue
        points = [(place, _y(100 * row["recall@5"])) for place, row in drawn]
        low, high = drawn[-1][1]["recall@5_interval"]
        out.append(
            f'<line class="line band {kind}" x1="{points[-1][0]:g}" y1="{_y(100 * low)}" x2="{points[-1][0]:g}" y2="{_y(100 * high)}"/>'
        )
        out.append(f'<polyline class="line {kind}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>')
        out += [f'<circle class="dot {kind}" cx="{x:g}" cy="{y:g}" r="4"/>' for x, y in points]
        ends.append((kind, 100 * drawn[-1][1]["recall@5"], points[-1][1]))
    for kind, value, label in _apart(ends, 14):
        out.append(f'<text class="value {kind}" x="{places[-1] + 10:g}" y="{label + 4:g}">{value:.1f}</text>')
    return out


def _apart(labels: Sequence[tuple[str, float, float]], distance: float) -> list[tuple[str, float, float]]:
    """The labels from the top down, each moved down as far as it must to stand clear of the one above."""
    out: list[tuple[str, float, float]] = []
    for name, value, y in sorted(labels, key=lambda one: (one[2], one[0])):
        out.append((name, value, max(y, out[-1][2] + distance) if out else y))
    return out


def _told(sets: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    parts = []
    for _, one in sets:
        rows = one["rows"]
        told = [f"{title} {100 * rows[last]['recall@5']:.1f}" for _, title, (*_, last) in _LINES if last in rows]
        parts.append(f"{one['title']} after three rounds: {', '.join(told)}")
    return ". ".join(parts)
