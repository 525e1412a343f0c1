"""Redraws the state diagrams in ARCHITECTURE.md, and in guides that show one, from the tables, which are the single source.
`--check` changes nothing.

A diagram is a mermaid block right below a marker that names its table: `<!-- table:call -->`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from clicket.kernel import TABLES, to_mermaid

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
DRAWN = re.compile(r"<!-- table:(?P<name>[a-z_ -]+?) -->\n+(?:```mermaid\n.*?```\n)?", re.DOTALL)


def redraw(text: str, *, every: bool = True) -> str:
    """The text with every marked diagram redrawn from its table; raises ValueError if a table is unknown or, with
    `every`, not drawn."""
    tables = {table.name.replace(" ", "-"): table for table in TABLES}
    drawn: set[str] = set()

    def diagram(match: re.Match[str]) -> str:
        name = re.sub("[ _]", "-", match["name"])
        if name not in tables:
            raise ValueError(f"there is no table {name!r}, only {', '.join(tables)}")
        drawn.add(name)
        return f"<!-- table:{match['name']} -->\n```mermaid\n{to_mermaid(tables[name])}\n```\n"

    result = DRAWN.sub(diagram, text)
    if every and (missing := tables.keys() - drawn):
        raise ValueError(f"no marker for {', '.join(f'<!-- table:{name} -->' for name in sorted(missing))}")
    return result


def main() -> int:
    wrong = False
    for page in (PAGE, *sorted((ROOT / "docs").rglob("*.md"))):
        now = page.read_text("utf-8")
        wanted = redraw(now, every=page == PAGE)
        if now == wanted:
            continue
        if "--check" in sys.argv:
            print(f"{page.relative_to(ROOT)}: the diagrams differ from the tables; run make docs", file=sys.stderr)
            wrong = True
        else:
            page.write_text(wanted, "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
