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
_WIDTH, _PANEL, _LEFT, _TOP, _HIGH, _GAP = 1000, 168, 42, 122, 340, 154
"""In pixels: the page, a panel without its labels on the right, where the first begins, how high they are, and between them."""
_LOW, _FULL = 35.0, 100.0
_STYLE = """
  .page{fill:#ffffff} text{fill:#3b4252;font:12px system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}
  .title{font-size:17px;font-weight:600;fill:#1b2130} .name{font-size:14px;font-weight:600;fill:#1b2130}
  .small{font-size:11px;fill:#6b7385} .value{font-size:12px;font-weight:600}
  .grid{stroke:#e4e7ee} .paper{stroke:#a7afbf;stroke-dasharray:4 4}
  .line{fill:none;stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round} .band{opacity:.4;stroke-width:5}
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


_Label = tuple[float, str, str]
"""Its position, its style, and its text."""


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
    right = left + _PANEL
    places = [left + 24 + at * (_PANEL - 40) / 3 for at in range(4)]
    under = f"{one['questions']} questions, {one['passages']:,} passages"
    out = [f'<text class="name" x="{left}" y="{_TOP - 28}">{escape(one["title"])}</text>']
    out.append(f'<text class="small" x="{left}" y="{_TOP - 12}">{escape(under)}</text>')
    for level in range(40, 101, 10):
        out.append(f'<line class="grid" x1="{left}" y1="{_y(level)}" x2="{right}" y2="{_y(level)}"/>')
        out.append(f'<text class="small" x="{left - 6}" y="{_y(level) + 4:g}" text-anchor="end">{level}</text>')
    for place, step in zip(places, ("one search", "1", "2", "3 rounds"), strict=True):
        out.append(f'<text class="small" x="{place:g}" y="{_TOP + _HIGH + 20}" text-anchor="middle">{step}</text>')
    labels: list[_Label] = []
    for title, _, pairs in PUBLISHED:
        if title in _PAPERS and name in pairs:
            y = _y(pairs[name][1])
            out.append(f'<line class="paper" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>')
            labels.append((y, "small", f"{pairs[name][1]:.1f}  {title}".replace(" + ", "+")))
    for kind, _, methods in _LINES:
        found = zip(places, methods, strict=True)
        drawn = [
            (place, one["rows"][method]) for place, method in found if method is not None and method in one["rows"]
        ]
        if drawn:
            out += _line(kind, drawn)
            last = 100 * drawn[-1][1]["recall@5"]
            labels.append((_y(last), f"value {kind}", f"{last:.1f}"))
    for y, style, text in _apart(labels, 14):
        out.append(f'<text class="{style}" x="{right + 6:g}" y="{y + 4:g}">{escape(text)}</text>')
    return out


def _line(kind: str, drawn: Sequence[tuple[float, Mapping[str, Any]]]) -> list[str]:
    """The interval at its end, the line, and a dot for each figure."""
    points = [(place, _y(100 * row["recall@5"])) for place, row in drawn]
    end, (low, high) = points[-1][0], drawn[-1][1]["recall@5_interval"]
    return [
        f'<line class="line band {kind}" x1="{end:g}" y1="{_y(100 * low)}" x2="{end:g}" y2="{_y(100 * high)}"/>',
        f'<polyline class="line {kind}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>',
        *(f'<circle class="dot {kind}" cx="{x:g}" cy="{y:g}" r="4"/>' for x, y in points),
    ]


def _apart(labels: Sequence[_Label], distance: float) -> list[_Label]:
    """From the top down, each label moved down just enough not to overlap the one above."""
    out: list[_Label] = []
    for y, style, text in sorted(labels):
        out.append((max(y, out[-1][0] + distance) if out else y, style, text))
    return out


def _told(sets: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    parts = []
    for _, one in sets:
        rows = one["rows"]
        told = [f"{title} {100 * rows[last]['recall@5']:.1f}" for _, title, (*_, last) in _LINES if last in rows]
        parts.append(f"{one['title']} after three rounds: {', '.join(told)}")
    return ". ".join(parts)
