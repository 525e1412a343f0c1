"""Compiles the checkout on all cores before the tests run: the package and the helpers of tests.

Many tests start programs of ours, and each would compile the whole package for itself. Each process that runs tests would also make
hypothesis' table of the categories of characters.
"""

from __future__ import annotations

import compileall
import gc
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def compile_plain(path: Path) -> bool:
    return bool(compileall.compile_file(path, quiet=1))


def draw_text() -> None:
    """Hypothesis stores its table of characters in the folder .hypothesis when it draws a text. The table of those that UTF-8 can encode,
    which takes ten times as long, is replaced as in tests/conftest.py."""
    from hypothesis import given, settings, strategies
    from hypothesis.internal import charmap

    sys.path.insert(0, str(ROOT))
    from tests.kit import unicode_ranges

    charmap.intervals_from_codec = unicode_ranges.encodable(charmap.intervals_from_codec)  # type: ignore[assignment]

    @settings(max_examples=1, database=None, deadline=None)
    @given(strategies.text())
    def use(_: str) -> None:
        pass

    use()


def main() -> int:
    tests = ROOT / "tests"
    modules = {*tests.rglob("test_*.py"), *tests.rglob("conftest.py")}  # only pytest imports these
    others = [path for name in ("src", "tests") for path in (ROOT / name).rglob("*.py") if path not in modules]
    with ProcessPoolExecutor(initializer=gc.disable) as pool:  # syntax trees hold no garbage, yet it would look at them
        drawn = pool.submit(draw_text)
        compiled = all(pool.map(compile_plain, others, chunksize=32))
        drawn.result()
    return 0 if compiled else 1


if __name__ == "__main__":
    sys.exit(main())
