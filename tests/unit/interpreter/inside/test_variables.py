"""What a block assigned or changed, found without calling the program's own objects."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess


def variables(child: SandboxProcess, code: str) -> dict[str, Any]:
    done = child.run(code)
    assert done["status"] == "ok", done["error"]
    return {row["name"]: row for row in done["variables"]}


@pytest.mark.parametrize(
    ("expression", "kind", "value", "length"),
    [
        ("42", "int", "42", None),
        ("2.5", "float", "2.5", None),
        ("True", "bool", "True", None),
        ("None", "NoneType", "None", None),
        ("1j", "complex", "1j", None),
        ("'text'", "str", "'text'", 4),
        ("b'raw'", "bytes", "b'raw'", 3),
        ("bytearray(b'ab')", "bytearray", "bytearray(b'ab')", 2),
        ("[1, 'a', (2,)]", "list", "[1, 'a', (2,)]", 3),
        ("{'a': [1, {2}]}", "dict", "{'a': [1, {2}]}", 1),
        ("set()", "set", "set()", 0),
        ("frozenset({1})", "frozenset", "frozenset({1})", 1),
        ("range(5)", "range", "range(0, 5)", 5),
        ("range(10**30)", "range", f"range(0, {10**30})", None),
        ("list(range(1000))", "list", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …]", 1000),
        ("[[[[[1]]]]]", "list", "[[[[…]]]]", 1),
        ("10**1000", "int", "<int of 3322 bits>", None),
        ("'\\ud800'", "str", "'\\ud800'", 1),
        ("len", "builtin_function_or_method", "<built-in function len>", None),
        ("lambda: 0", "function", "<function <lambda>>", None),
        ("__import__('collections').Counter('aab')", "Counter", "Counter({'a': 2, 'b': 1})", 2),
        ("__import__('datetime').date(2026, 1, 2)", "date", "2026-01-02", None),
        ("__import__('decimal').Decimal('1.5')", "Decimal", "1.5", None),
        ("type('Made', (), {})", "type", "<class '__main__.Made'>", None),
        ("type('Made', (), {})()", "Made", "<__main__.Made object>", None),
        ("type('Made', (list,), {})([1])", "Made", "Made([1])", 1),
    ],
)
def test_values(child: SandboxProcess, expression: str, kind: str, value: str, length: int | None) -> None:
    row = variables(child, f"globals().pop('v', None)\nv = {expression}")["v"]
    assert (row["type"], row["value"], row["length"], row["shape"]) == (kind, value, length, None)


def test_long_values_are_cut(child: SandboxProcess) -> None:
    found = variables(child, "long_text = 'x' * 10**6\nlong_list = ['y' * 1000] * 1000\nlong_bytes = bytes(10**6)")
    assert all(len(row["value"]) <= 210 for row in found.values())
    assert found["long_text"]["length"] == 10**6


def test_created_changed_and_left_alone(child: SandboxProcess) -> None:
    first = variables(
        child, "a = 1\nb = [1]\nc = {'k': []}\nd = 0.5\ne = 'same'\nf = {1}\ng = list(range(100))\nnan = float('nan')"
    )
    assert {row["change"] for row in first.values()} == {"created"}
    assert variables(child, "a\nb\nc") == {}
    assert variables(child, "a = 1\nd = 0.5\ne = 'sa' + 'me'") == {}  # the same values again
    changed = variables(child, "a = True\nb[0] = 2\nc['k'].append(1)\nd += 1\nf.add(2)\ng.append(1)")
    assert {name: row["change"] for name, row in changed.items()} == dict.fromkeys("abcdfg", "changed")
    assert variables(child, "del a\ne = 5")["e"]["change"] == "changed"
    assert variables(child, "a = 2")["a"]["change"] == "created"


def test_modules_and_private_names_are_left_out(child: SandboxProcess) -> None:
    code = (
        "import os, types\n_hidden = 1\n__dunder = 2\nclass Lazy(types.ModuleType): pass\nlazy = Lazy('x')\nshown = 1"
    )
    assert set(variables(child, code)) == {"Lazy", "shown"}
    assert {"os", "types", "shown"} <= set(child.run("")["names"])


def test_nothing_of_the_program_is_run(child: SandboxProcess) -> None:
    code = """
ran = []
def trap(*arguments, **options):
    ran.append(arguments)
    raise RuntimeError
class Meta(type):
    __eq__ = __hash__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = trap
    __name__ = __module__ = __mro__ = property(trap)
class Trap(metaclass=Meta):
    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __hash__ = __getattribute__ = __getattr__ = __format__ = trap
    __class__ = property(trap)
class Rows(list):
    __repr__ = __len__ = __iter__ = __getitem__ = trap
class Words(str):
    __repr__ = __len__ = __iter__ = __getitem__ = __hash__ = trap
class Table(dict):
    __repr__ = __len__ = __iter__ = __getitem__ = items = keys = trap
trap_one, trap_list, trap_dict = Trap(), [Trap(), Trap], {"k": Trap()}
rows, words, table = Rows([1]), Words("w"), Table(a=1)
ran.clear()
"""
    found = variables(child, code)
    assert found["trap_one"]["value"] == "<__main__.Trap object>"
    assert found["trap_list"]["value"] == "[<__main__.Trap object>, <class '__main__.Trap'>]"
    assert (found["rows"]["value"], found["words"]["value"], found["table"]["value"]) == (
        "Rows([1])",
        "Words('w')",
        "Table({'a': 1})",
    )
    variables(child, "pass")
    assert child.run("ran")["value"] == "[]"


def test_odd_names_do_no_harm(fresh: SandboxProcess) -> None:
    code = "g = globals()\ng[5] = 1\ng['x' * 10**6] = 1\ng['s\\ud800'] = 1\nclass S(str): pass\ng[S('sub')] = 1\ndel g"
    done = fresh.run(code)
    assert {row["name"] for row in done["variables"]} == {"S", "s\\ud800"}
    fresh.run("for i in range(3000): globals()[f'n{i}'] = i")
    done = fresh.run("for i in range(3000): globals()[f'n{i}'] = -i - 1")
    assert (len(done["variables"]), len(done["names"])) == (200, 1000)


def test_nothing_large_is_kept_alive(child: SandboxProcess) -> None:
    child.run("import weakref\nclass Big: pass\nbig = Big()\nholder = [big]\nwatch = weakref.ref(big)")
    assert child.run("del big\nholder.clear()\nwatch() is None")["value"] == "True"


def test_what_a_failed_block_held_is_let_go(child: SandboxProcess) -> None:
    hold = "    held = Big()\n    watched.append(weakref.ref(held))\n    1 / 0\n"
    child.run(f"import gc, weakref\ngc.disable()\nclass Big: pass\nwatched = []\ndef fail():\n{hold}fail()")
    assert child.run("[watch() for watch in watched]")["value"] == "[None]"
    child.run(f"gc.enable()\nwatched.clear()\nasync def fail():\n{hold}await fail()")
    assert child.run("gc.collect()\n[watch() for watch in watched]")["value"] == "[None]"


def test_arrays_and_tables(child: SandboxProcess) -> None:
    code = """
import numpy as np, pandas as pd
grid = np.arange(12).reshape(3, 4)
big = np.zeros((1000, 1000))
words = np.array(["a", "bc"])
class Loud:
    def __repr__(self): raise SystemExit
things = np.array([Loud(), None], dtype=object)
number = np.float64(2.5)
table = pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})
column = table["x"]
"""
    found = variables(child, code)
    shapes = {name: row["shape"] for name, row in found.items() if row["shape"] is not None}
    assert shapes == {"grid": [3, 4], "big": [1000, 1000], "words": [2], "things": [2], "table": [2, 2], "column": [2]}
    assert found["grid"]["value"] == "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]] int64"
    assert found["words"]["value"] == "['a', 'bc'] <U2"
    assert found["things"]["value"] == "array of objects"
    assert (found["number"]["type"], found["number"]["value"]) == ("float64", "2.5")
    assert (found["table"]["type"], found["table"]["length"]) == ("DataFrame", 2)
    assert found["table"]["value"] == "2 rows × 2 columns: 'x', 'y'"
    assert found["column"]["value"] == "2 values of int64: [1, 2]"
    assert set(variables(child, "grid[0, 0] = 5\ntable['z'] = 0")) == {"grid", "table"}


def test_arrays_and_tables_that_are_changed_in_place_are_reported(child: SandboxProcess) -> None:
    made = """
import numpy as np, pandas as pd
small, large, objects = np.zeros(3), np.arange(1_000_000.0), np.array([1, "a", None], dtype=object)
table = pd.DataFrame({"x": range(5), "s": list("abcde"), "d": pd.date_range("2020", periods=5)})
series, kind, still = pd.Series(range(9)), pd.Categorical(list("aab")), pd.DataFrame({"x": range(100_000)})
"""
    assert len(variables(child, made)) == 7
    assert variables(child, "still.sum(); large.max(); table.head(); table['x'].mean()") == {}
    assert set(variables(child, "small += 1; large *= 2; objects[1] = 'b'; series[0] = 5")) == {
        *("small", "large", "objects", "series")
    }
    for change in ("table['x'] = table['x'] * 2", "table.loc[0, 'x'] = 99", "table.loc[1, 's'] = 'z'"):
        assert set(variables(child, change)) == {"table"}, change
    assert set(variables(child, "table.columns = list('abc')")) == {"table"}
    assert set(variables(child, "table.loc[0, 'c'] = pd.Timestamp('1999-01-01')")) == {"table"}
    assert variables(child, "pass") == {}
