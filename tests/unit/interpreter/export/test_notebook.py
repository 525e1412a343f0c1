"""Runs as a notebook, validated with Jupyter's own schema."""

from __future__ import annotations

import json

import nbformat
import pytest
from tests.unit.interpreter.export.runs import ATTACKS, ISOLATION, PNG, SVG, TABLE, everything, hostile

from clicket.interpreter.export.notebook import notebook_json, to_notebook
from clicket.interpreter.result import Block, Display, ProgramError, Result


def valid(*runs: Result) -> list[dict]:
    """The cells, after validation with the schema."""
    notebook = json.loads(notebook_json(runs))
    nbformat.validate(notebook)
    return notebook["cells"]


def test_prose_and_blocks_come_in_the_order_of_the_task() -> None:
    cells = valid(everything())
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "markdown", "code", "markdown"]
    assert cells[0]["source"] == "# Cities\n\nSome *prose* first."
    assert cells[1]["source"] == 'print("one")\nx = 1\nx'
    assert cells[2]["source"].endswith("```sql\nselect 1\n```")
    assert [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"] == [1, 2]


def test_prose_of_a_task_that_is_indented_as_a_whole_is_no_code() -> None:
    block = Block(index=0, code="x\n", lines=(3, 6), status="ok")
    run = Result(
        status="ok", blocks=(block,), isolation=ISOLATION, task="\n    FolderScan:\n\n    ```\n    x\n    ```\n    "
    )
    assert [cell["source"] for cell in valid(run)] == ["FolderScan:", "x"]


def test_outputs_are_what_jupyter_calls_them() -> None:
    _, first, _, second, _ = valid(everything())
    assert first["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "one\n"},
        {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "1"}, "metadata": {}},
    ]
    stderr, picture, table, error = second["outputs"]
    assert stderr == {"output_type": "stream", "name": "stderr", "text": "careful\n"}
    assert picture["data"] == {"image/png": PNG, "image/svg+xml": SVG}
    assert table == {
        "output_type": "display_data", "data": {"text/html": TABLE, "text/plain": "   city\n0  Oslo"}, "metadata": {},
    }  # fmt: skip
    assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert error["traceback"][-1] == "ZeroDivisionError: division by zero"


def test_a_value_with_more_forms_than_text_is_one_output() -> None:
    block = Block(index=0, code="table", status="ok", value="   city\n0  Oslo")
    shown = (
        Display(mime="text/html", data=TABLE, group=1),
        Display(mime="text/plain", data="   city\n0  Oslo", group=1),
    )
    (cell,) = valid(Result(status="ok", task="table", blocks=(block,), displays=shown, isolation=ISOLATION))
    (output,) = cell["outputs"]
    assert output["output_type"] == "execute_result"
    assert set(output["data"]) == {"text/html", "text/plain"}


def test_json_is_kept_as_json_and_equal_forms_are_two_things() -> None:
    block = Block(index=0, code="x", status="ok")
    shown = (
        Display(mime="application/json", data='{"a": [1]}', group=1),
        Display(mime="application/json", data="no json", group=1),
        Display(mime="image/png", data=PNG, group=2, block_index=7),
    )
    (cell,) = valid(Result(status="ok", blocks=(block,), displays=shown, isolation=ISOLATION))
    assert [output["data"] for output in cell["outputs"]] == [
        {"application/json": {"a": [1]}},
        {"application/json": "no json"},
    ]


def test_what_was_killed_says_so() -> None:
    block = Block(index=0, code="while True: pass", status="killed", reason="timeout")
    (cell,) = valid(Result(status="killed", reason="timeout", blocks=(block,), isolation=ISOLATION))
    assert cell["outputs"] == [
        {"output_type": "error", "ename": "killed", "evalue": "timeout", "traceback": ["killed: timeout"]}
    ]


def test_a_run_that_never_began_shows_its_task() -> None:
    error = ProgramError(type="SyntaxError", message="invalid syntax", fatal=True)
    task = "Words\r\n\r\n```python\r\nx ===\r\n```\r\n"
    (cell,) = valid(Result(status="error", task=task, error=error, errors=(error,), isolation=ISOLATION))
    assert cell["source"] == "Words\n\n```python\nx ===\n```"


def test_several_runs_are_one_notebook_and_ids_are_stable_and_unique() -> None:
    cells = valid(everything(), everything())
    assert len({cell["id"] for cell in cells}) == len(cells) == 10
    assert [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"] == [1, 2, 3, 4]
    assert notebook_json([everything()]) == notebook_json(everything())


@pytest.mark.parametrize("attack", ATTACKS)
def test_any_text_makes_a_valid_notebook(attack: str) -> None:
    valid(hostile(attack))
    assert "trusted" not in json.dumps(to_notebook(hostile(attack))["metadata"])
