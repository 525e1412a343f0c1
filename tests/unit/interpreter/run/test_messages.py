"""Messages and results are plain data; their names are a public contract."""

from __future__ import annotations

import json

import msgspec

from clicket.interpreter.result import (
    Block,
    Display,
    File,
    ProgramError,
    Result,
    Skipped,
    Variable,
    Variables,
    worst,
)
from clicket.interpreter.run import messages
from clicket.sandbox import Isolation

ISOLATION = Isolation(level="full", layers=("environment",), gaps=("kernel",))
FAILED = ProgramError(type="ValueError", message="no", traceback="Traceback …", block_index=1, line=2)


def test_fields_of_every_message() -> None:
    failed = Block(index=1, code="x", status="error", error=FAILED, duration=0.5)
    expected = {
        "state_change": (messages.state_change("parsing", "validating", "why"), {"from", "to", "message"}),
        "progress": (messages.progress(2), {"code_blocks_count"}),
        "code_execution_start": (messages.block_started(0, "x", (0, 3)), {"block_index", "code", "lines"}),
        "stdout": (messages.output("stdout", "x", 0), {"content", "block_index"}),
        "stderr": (messages.output("stderr", "x", 0), {"content", "block_index"}),
        "display": (messages.displayed(Display(mime="image/png", data="AA==")), {"mime", "data", "group"}),
        "variable_created": (
            messages.variable(Variable(name="x", type="list", value="[1]", length=1), 0),
            {"name", "value", "var_type", "length"},
        ),
        "variable_changed": (
            messages.variable(Variable(name="x", type="ndarray", shape=(2, 3), change="changed"), 0),
            {"name", "value", "var_type", "shape"},
        ),
        "code_execution_complete": (
            messages.block_ended(Block(index=0, code="x", status="ok", value="1")),
            {"block_index", "status", "value", "duration"},
        ),
        "execution_error": (messages.execution_error(FAILED), {"error", "error_type", "traceback"}),
        "code_execution_error": (
            messages.block_failed(failed, FAILED),
            {"block_index", "error", "error_type", "status", "reason", "fatal"},
        ),
        "error": (messages.error("no", 1, "monitoring"), {"message", "step", "state"}),
        "final_result": (messages.final_result({"status": "ok"}), {"result"}),
    }
    for kind, (message, fields) in expected.items():
        assert message["type"] == kind
        assert isinstance(message["timestamp"], float)
        assert fields <= set(message), kind
        assert json.loads(json.dumps(message)) == message, "only JSON"


def test_a_result_as_plain_data() -> None:
    bare = Result(status="ok", isolation=ISOLATION)
    assert bare.to_json() == {
        "status": "ok", "stdout": "", "stderr": "", "value": None, "error": None, "duration": 0.0,
        "reason": None, "errors": [], "imports": [], "variables": [], "displays": [], "files": [],
        "isolation": {"level": "full", "layers": ["environment"], "gaps": ["kernel"]},
    }  # fmt: skip
    full = Result(
        status="error",
        stdout="1\n",
        value="2",
        error=FAILED,
        errors=(FAILED,),
        variables=Variables([Variable(name="a", type="ndarray", value="[[0]]", shape=(1, 1))]),
        displays=(
            Display(mime="text/html", data="<b>"),
            Display(mime="image/png", data="A" * 40_000, artifact="sha256-00"),
        ),
        files=(File(name="a.csv", size=0, sha256="00", artifact=None),),
        imports=("os",),
        blocks=(Block(index=0, code="x", status="ok"), Block(index=1, code="y", status="error", error=FAILED)),
        skipped=(Skipped(what="bash block", why="only Python is run"),),
        warnings=("anew",),
        outputs={"stdout": "sha256-11"},
        isolation=ISOLATION,
        task="never repeated",
    )
    plain = full.to_json()
    assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    assert plain["variables"] == [
        {"name": "a", "type": "ndarray", "value": "[[0]]", "shape": [1, 1], "change": "created"}
    ]
    assert plain["displays"][0]["data"] == "<b>"
    assert plain["displays"][1] == {
        "mime": "image/png",
        "data": None,
        "block_index": 0,
        "group": 0,
        "artifact": "sha256-00",
    }
    assert plain["files"] == [{"name": "a.csv", "size": 0, "sha256": "00", "artifact": None}]
    assert plain["error"]["line"] == 2
    assert "task" not in plain
    for part in ("status: error", "1", "value: 2", "Traceback …", "a.csv (0 bytes)", "image/png", "bash block", "anew"):
        assert part in full.text()


def test_the_worst_status_wins() -> None:
    assert worst([]) == "ok"
    assert worst(["ok", "error", "ok"]) == "error"
    assert worst(["error", "killed", "interrupted"]) == "killed"


def test_variables_are_found_by_place_and_by_name() -> None:
    made = Variables([Variable(name="x", type="int", value="1"), Variable(name="y", type="str", value="'a'")])
    assert made["y"].value == "'a'"
    assert made[0].name == "x"
    assert "x" in made
    assert "z" not in made
    assert made.names == ("x", "y")
    assert [variable.name for variable in made[0:2]] == ["x", "y"]
    assert made == Variables(list(made))
    assert "x: int = 1" in repr(made)
