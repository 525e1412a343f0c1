"""`python benchmarks/search/run.py DATA [--limit N] [--only NAME] [--json FILE]`: run, print the tables, write SEARCH.md and its plot.

Figures are never assertions: a missed requirement is printed and does not fail the run. A false citation, a repeated query or
a round too many does.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[0] = str(ROOT)  # so that `benchmarks` is a package however this file is started

from benchmarks.report import commit, machine  # noqa: E402  # after the line above
from benchmarks.search import page, picture, scale  # noqa: E402
from benchmarks.search.answers import measure_answers  # noqa: E402
from benchmarks.search.data import DataMissing, Set, load  # noqa: E402
from benchmarks.search.measure import figures, measure  # noqa: E402
from benchmarks.search.methods import METHODS  # noqa: E402
from benchmarks.search.model_section import PAGE, kept_section, with_section  # noqa: E402
from benchmarks.search.vectors import Kept  # noqa: E402
from clicket.errors import UsageError  # noqa: E402

CACHE = ROOT / ".cache" / "bench" / "search"
KEPT = CACHE / "figures.json"
PLOT = ROOT / "docs" / "guides" / "search-recall.svg"
_PASSAGES = 100_000
EXTRA = ("answers", "indexing", "scale", "folder", "embedding")


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    try:
        sets = load(options.data, limit=options.limit)
    except DataMissing as missing:
        print(f"bench-search: {missing}", file=sys.stderr)
        return 2
    unknown = [name for name in options.only or () if name not in (*(one.name for one in sets), *EXTRA)]
    if unknown:
        print(
            f"bench-search: there is no {', '.join(unknown)}; there are {', '.join([one.name for one in sets])}, "
            f"{', '.join(EXTRA)}",
            file=sys.stderr,
        )
        return 2
    CACHE.mkdir(parents=True, exist_ok=True)
    made = _measured(options, sets)
    look = options.limit or options.methods or options.dry  # the page must not show only some of the rows
    kept = made if look else {**_load(), **made}
    if options.json:
        Path(options.json).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(page.tables(made))
    if not look:
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
        PLOT.parent.mkdir(parents=True, exist_ok=True)
        PLOT.write_text(picture.draw(kept), encoding="utf-8")
        former = kept_section(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else ""
        made_page = page.page(kept, machine(), _relative(PLOT, PAGE.parent))
        PAGE.write_text(with_section(made_page, former), encoding="utf-8")
        print(f"\nwritten: {PAGE.relative_to(ROOT)}, {PLOT.relative_to(ROOT)}")
    wrong = sum(row["wrong_citations"] for part in made.values() for row in part.get("rows", {}).values())
    wrong += sum(row["wrong"] for row in made.get("answers", {}).get("answers", {}).values())
    if wrong:
        print(f"\n{wrong} citations are not what the passages say", file=sys.stderr)
    return 1 if wrong else 0


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-search", description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", help="the folder with the question sets")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="the first N questions of each set; prints, writes no page"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="a set, or " + ", ".join(EXTRA))
    parser.add_argument(
        "--methods",
        metavar="NAMES",
        help="rows, by comma; prints, writes no page: " + ", ".join(one.name for one in METHODS),
    )
    parser.add_argument("--json", metavar="FILE", help="all figures, as JSON")
    parser.add_argument("--dry", action="store_true", help="print only: SEARCH.md and the plot stay as they are")
    parser.add_argument("--no-vectors", action="store_true", help="leave out the rows with MiniLM")
    parser.add_argument("--passages", type=int, default=_PASSAGES, help="of the scale row (100000)")
    parser.add_argument("--files", type=int, default=10_000, help="of the folder that is read again (10000)")
    return parser.parse_args(words)


def _measured(options: argparse.Namespace, sets: list[Set]) -> dict[str, Any]:
    """Every requested part, by its name; each contains its date, its command and its commit."""
    where = {
        "commit": commit(),
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load": os.getloadavg()[0],
        "command": _command(options),
    }
    names = options.methods.split(",") if options.methods else [one.name for one in METHODS]
    methods = [one for one in METHODS if one.name in names]
    vectors = None if options.no_vectors or not any(one.vectors for one in methods) else _vectors()
    with tempfile.TemporaryDirectory(prefix="bench-search-") as scratch:
        place = Path(scratch)
        passages = [row for one in sets for row in one.passages]
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            **{one.name: lambda one=one: figures(one, measure(one, methods, place, vectors)) for one in sets},
            "answers": lambda: measure_answers(sets, _documents(), place),
            "indexing": lambda: scale.indexing(
                [{**row, "id": f"{at}"} for at, row in enumerate(passages)], place / "all.db"
            ),
            "scale": lambda: scale.many(sets, options.passages, options.limit or 150, place / "many.db"),
            "folder": lambda: scale.folder_again(passages, options.files, place / "files", place / "folder.db"),
        }
        if vectors is not None:
            parts["embedding"] = lambda: scale.embedding(sets, 300)
        out = {}
        for name, make in parts.items():
            if options.only and name not in options.only:
                continue
            out[name] = {
                **make(),
                **where,
            }
        return out


def _documents() -> Path | None:
    """The folder with the documentation; None, with the reason, if it is not there."""
    folder = CACHE / "documents"
    if folder.is_dir():
        return folder
    command = f"python -m benchmarks.search.documents {_relative(folder, ROOT)}"
    print(f"without the documentation, which this gets: {command}", file=sys.stderr)
    return None


def _vectors() -> Path | None:
    """The folder that caches vectors; None, with the reason, if there can be none."""
    try:
        Kept(CACHE / "vectors")
    except UsageError as error:
        print(f"without MiniLM: {error}", file=sys.stderr)
        return None
    return CACHE / "vectors"


def _command(options: argparse.Namespace) -> str:
    """The command without the paths of data and figures, which differ on every machine."""
    words = [word for name in options.only or () for word in ("--only", name)]
    words += ["--no-vectors"] if options.no_vectors else []
    words += ["--passages", str(options.passages)] if options.passages != _PASSAGES else []
    return "make bench-search DATA=…" + (f' ARGS="{shlex.join(words)}"' if words else "")


def _load() -> dict[str, Any]:
    """The results of earlier runs, so that `--only` renews one part and keeps the others."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8"))) if KEPT.exists() else {}


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


if __name__ == "__main__":
    raise SystemExit(main())
