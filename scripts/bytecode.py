"""Compiles the checkout on all cores before the tests run: the package, the helpers of tests, and the tests as pytest rewrites them.

Many tests start programs of ours, and each would compile the whole package for itself. The process of pytest that collects the tests
would rewrite the assertions of every test module on one core, and with xdist each process would. Each process that runs tests would
also make hypothesis' table of the categories of characters.
"""

from __future__ import annotations

import ast
import compileall
import gc
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Traces:
    """Replaces pytest's trace object while it writes a file; records nothing."""

    def trace(self, _: str) -> None:
        pass


def without_a_line(node: ast.AST) -> list[ast.AST]:
    """Replaces pytest's `traverse_node`, a generator that recurses. Its one caller wants all nodes that have no line yet, and gives them
    one: only these are found here."""
    nodes = [node]
    for each in nodes:  # which grows meanwhile
        for field in each._fields:
            value = getattr(each, field, None)
            if isinstance(value, list):
                nodes += [child for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return [each for each in nodes if each._attributes and getattr(each, "lineno", None) is None]


def compile_plain(path: Path) -> bool:
    return bool(compileall.compile_file(path, quiet=1))


def rewrite(path: Path) -> None:
    """Cache the rewritten module as pytest would. These functions are pytest's own: if they have changed, pytest does
    it later."""
    try:
        from _pytest.assertion import rewrite as own

        own.traverse_node = without_a_line  # type: ignore[assignment]
        cache = own.get_cache_dir(path)
        kept = cache / (path.name.removesuffix(".py") + own.PYC_TAIL)
        if own._read_pyc(path, kept) is None:
            source_hash, code = own._rewrite_test(path, None)  # type: ignore[arg-type]  # no option of ours changes it
            own.try_makedirs(cache)
            own._write_pyc(Traces(), code, source_hash, kept)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError, ValueError, SyntaxError) as error:
        print(f"{path}: not rewritten in advance: {error}", file=sys.stderr)


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
        rewritten = pool.map(rewrite, modules, chunksize=8)
        compiled = all(pool.map(compile_plain, others, chunksize=32))
        list(rewritten)
        drawn.result()
    return 0 if compiled else 1


if __name__ == "__main__":
    sys.exit(main())
