"""What a block displays, in which formats, and how much of it."""

from __future__ import annotations

import base64

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess

PNG = b"\x89PNG\r\n"


def forms(child: SandboxProcess, code: str) -> list[tuple[int, str]]:
    done = child.run(code)
    assert done["status"] == "ok", done["error"]
    return [(frame["group"], frame["mime"]) for frame in child.displays]


def test_display_shows_at_once_and_after_what_was_printed(child: SandboxProcess) -> None:
    child.begin("print('before', end=' ')\ndisplay('a', [1])\nwhile True: pass")
    assert (child.answer()["data"], child.answer()["data"]) == ("'a'", "[1]")
    assert child.heard("before")
    child.interrupt()
    assert child.done()["status"] == "interrupted"
    child.said()


def test_a_plain_value_is_text_alone(child: SandboxProcess) -> None:
    assert forms(child, "{'a': 1}") == []
    assert forms(child, "class Plain: pass\nPlain()") == []


def test_every_rich_form(child: SandboxProcess) -> None:
    code = """
class Rich:
    def __repr__(self): return "Rich()"
    def _repr_html_(self): return "<b>r</b>"
    def _repr_markdown_(self): return "**r**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png"
    def _repr_jpeg_(self): return (b"jpeg", {"width": 1})
    def _repr_latex_(self): return "$r$"
    def _repr_json_(self): return {"r": [1, "é"]}
Rich()
"""
    done = child.run(code)
    assert done["value"] == "Rich()"
    assert {frame["mime"]: frame["data"] for frame in child.displays} == {
        "text/html": "<b>r</b>",
        "text/markdown": "**r**",
        "image/svg+xml": "<svg/>",
        "image/png": base64.b64encode(b"png").decode(),
        "image/jpeg": base64.b64encode(b"jpeg").decode(),
        "text/latex": "$r$",
        "application/json": '{"r":[1,"é"]}',
        "text/plain": "Rich()",
    }
    assert {frame["group"] for frame in child.displays} == {1}


def test_a_bundle_of_forms(child: SandboxProcess) -> None:
    code = """
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": "<i/>", "application/vnd.x+json": {"a": 1}, 5: "odd", "text/x": None}, {}
display(Bundle())
"""
    child.run(code)
    found = {frame["mime"]: frame["data"] for frame in child.displays}
    assert found.pop("text/plain").startswith("<__main__.Bundle object")
    assert found == {"text/html": "<i/>", "application/vnd.x+json": '{"a":1}'}


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("def _repr_html_(self): 1 / 0", "(_repr_html_ of Odd failed: ZeroDivisionError: division by zero)"),
        ("def _repr_html_(self): return 5", "(text/html was left out: it is int, not text or bytes)"),
        (
            "def _repr_json_(self): return float('nan')",
            "(application/json was left out: it is float, not text or bytes)",
        ),
        (
            "def _repr_html_(self): return 'x' * 9_000_000",
            "(text/html was left out: 9000000 characters are more than 8388608)",
        ),
        ("_repr_html_ = 5", "(_repr_html_ of Odd failed: TypeError: 'int' object is not callable)"),
    ],
)
def test_a_form_that_fails_costs_a_note(child: SandboxProcess, body: str, note: str) -> None:
    done = child.run(f"class Odd:\n    def __repr__(self): return 'Odd()'\n    {body}\nOdd()")
    assert (done["status"], done["value"]) == ("ok", "Odd()")
    assert note in [frame["data"] for frame in child.displays]


def test_an_object_that_has_every_attribute_is_plain(child: SandboxProcess) -> None:
    assert forms(child, "class Any:\n    def __getattr__(self, name): return lambda: 'yes'\nAny()") == []


def test_a_block_shows_so_much_and_no_more(child: SandboxProcess) -> None:
    child.run("class Html:\n    def _repr_html_(self): return '\\0' * 1_000_000\nfor _ in range(20): display(Html())")
    assert sum(len(frame["data"]) for frame in child.displays) < 5_000_000  # a NUL is six bytes in a frame
    assert "the rest was left out" in child.displays[-1]["data"]
    child.run("for i in range(3000): display(i)")
    assert len(child.displays) == 1001
    assert forms(child, "display(1)") == [(1, "text/plain")]  # the next block starts from 1


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("'x' * 10**7", "… (9990000 more characters)"),
        ("[0] * 10**6", "… (1000000 items)"),
        ("dict.fromkeys(range(10**5))", "… (100000 items)"),
        ("set(range(10**5))", "… (100000 items)"),
        ("list(map(str, range(4000)))", "… (4000 items)"),
        ("['x' * 10**8] * 50", "… (50 items)"),
        ("[[[10**10000]]]", "[[[<int of 33220 bits>]]]"),
        ("10**10000", "<int of 33220 bits>"),
    ],
)
def test_long_values_are_cut_with_a_note(child: SandboxProcess, code: str, end: str) -> None:
    value = child.run(code)["value"]
    assert value.endswith(end)
    assert len(value) < 10_100


@pytest.mark.parametrize(
    "code",
    [
        "[1, 'a', (2,), (), [], {}, set(), frozenset(), {3}, frozenset({4}), {'k': [None, 1.5, b'x']}]",
        "(lambda ring: ring.append(ring) or ring)([1])",
        "(lambda ring: ring.update(self=ring) or ring)({})",
        "type('Odd', (list,), {})([1, [2]])",
        "[[1]] * 2",
    ],
)
def test_collections_print_as_ever(child: SandboxProcess, code: str) -> None:
    value = child.run(f"printed = {code}\nprinted")["value"]
    assert child.run(f"repr(printed) == {value!r}")["value"] == "True"


def test_text_that_utf8_cannot_say(child: SandboxProcess) -> None:
    assert child.run("print('\\ud800')\ndisplay('\\udfff')\n'\\ud800é'")["value"] == "'\\ud800é'"
    assert child.displays[0]["data"] == "'\\udfff'"
    assert child.said() == "\\ud800\n"


def test_tables(child: SandboxProcess) -> None:
    code = "import pandas as pd\ntable = pd.DataFrame({'a': range(1000)})\ntable"
    done = child.run(code)
    found = {frame["mime"]: frame["data"] for frame in child.displays}
    assert set(found) == {"text/html", "text/plain"}
    assert "<table" in found["text/html"]
    assert found["text/plain"] == done["value"]
    assert len(found["text/html"]) < 20_000
    assert forms(child, "table['a']") == [(1, "text/html"), (1, "text/plain")]
    assert forms(child, "display(table.head(2))") == [(1, "text/html"), (1, "text/plain")]


def test_figures(child: SandboxProcess) -> None:
    both = ["image/png", "image/svg+xml"]
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([3])\nprint(plt.get_backend())"
    assert forms(child, code) == [(1, both[0]), (1, both[1]), (2, both[0]), (2, both[1])]
    assert base64.b64decode(child.displays[0]["data"]).startswith(PNG)
    assert "<svg" in child.displays[1]["data"]
    assert child.said().lower() == "agg\n"
    assert child.said("stderr") == ""
    assert forms(child, "plt.get_fignums()") == []  # shown figures are closed
    # DisplayItem once, though it is displayed, open and the last value; an empty one not at all.
    assert (
        len(forms(child, "plt.figure()\nfig, ax = plt.subplots()\nax.plot([1])\ndisplay(fig)\nfig.show()\nNone")) == 2
    )
    assert len(forms(child, "fig")) == 2
    done = child.run("plt.plot([1])\n1 / 0")
    assert (done["status"], [frame["mime"] for frame in child.displays]) == ("error", both)
    child.said("stderr")
    assert len(forms(child, "plt.plot([1])\nplt.title('\u0f03')\nplt.show()")) == 2  # a glyph that the font lacks
    warned = child.said("stderr")
    assert warned.startswith("UserWarning: Glyph 3843")
    assert (warned.count("\n"), "figures.py" in warned) == (1, False)


def test_a_figure_of_its_own_is_shown_when_it_is_the_value(child: SandboxProcess) -> None:
    code = "from matplotlib.figure import Figure\nown = Figure()\n_ = own.add_subplot().plot([1, 2])\nown"
    assert [mime for _, mime in forms(child, code)] == ["image/png", "image/svg+xml"]


def test_a_figure_that_cannot_be_drawn_is_reported(child: SandboxProcess) -> None:
    child.run("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title('$\\\\frac{$')")
    assert "the figure has no svg: ValueError" in child.displays[0]["data"]
    assert forms(child, "plt.get_fignums()") == []
