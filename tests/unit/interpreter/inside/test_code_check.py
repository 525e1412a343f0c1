"""A block is compiled and not run."""

from __future__ import annotations

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess


@pytest.mark.parametrize(
    ("code", "imports", "loads", "stores"),
    [
        ("", [], [], []),
        ("y = x + len(z)", [], ["x", "z"], ["y"]),
        ("def f(a):\n    b = a\n    return a + b + c", [], ["c"], ["f"]),
        (
            "import numpy as np, os.path\nfrom a.b import c\nfrom . import d",
            ["numpy", "os.path", "a.b"],
            [],
            ["c", "d", "np", "os"],
        ),
        ("def f():\n    global g\n    g = h", [], ["h"], ["f", "g"]),
        ("class A(B):\n    x = 1\n    y = x + k", [], ["B", "k"], ["A"]),
        ("[i for i in xs if i > low]", [], ["low", "xs"], None),  # newer compilers count `i`
        ("await later()", [], ["later"], []),
        (
            "try:\n    import fast\nexcept ImportError:\n    import slow\nif 1:\n    import third",
            ["fast", "slow", "third"],
            [],
            None,
        ),
        ("for n in range(3): pass\nwith open('f') as f: pass", [], [], ["f", "n"]),
        ("x = 1\nprint(x)", [], [], ["x"]),
        ("match v:\n    case 1:\n        import inner", ["inner"], ["v"], ["inner"]),
    ],
)
def test_what_a_block_needs_and_gives(
    child: SandboxProcess, code: str, imports: list[str], loads: list[str], stores: list[str] | None
) -> None:
    (checked,) = child.check(code)
    assert (checked["error"], checked["imports"], checked["loads"]) == (None, imports, loads)
    assert stores is None or checked["stores"] == stores


def test_each_block_has_its_answer_and_nothing_runs(child: SandboxProcess) -> None:
    child.run("ran = []")
    found = child.check("ran.append(1)", "x = = 1", "ran is 5")
    assert [bool(block["error"]) for block in found] == [False, True, False]
    assert found[1]["error"]["type"] == "SyntaxError"
    assert child.run("ran")["value"] == "[]"
    assert child.said("stderr") == ""  # compiler warnings appear at the run only


@pytest.mark.parametrize("code", ["-" * 60_000 + "1", "x" + ".a" * 100_000, "[" * 300, "f'{" * 1000])
def test_what_the_compiler_cannot_take_is_an_error(fresh: SandboxProcess, code: str) -> None:
    (checked,) = fresh.check(code)
    assert checked["error"]["message"]


def test_long_blocks_and_long_names(child: SandboxProcess) -> None:
    (long,) = child.check(f"import os\n{chr(10).join(['x = ' + repr('y' * 100)] * 6000)}")
    assert long["error"] is None
    (named,) = child.check(f"{'n' * 100_000} = {'m' * 100_000}")
    assert (named["loads"], named["stores"]) == ([], [])
    (many,) = child.check("\n".join(f"a{i} = b{i}" for i in range(5000)))
    assert len(many["loads"]) == len(many["stores"]) == 1000
