"""What calls of `code_interpreter` report: messages in the journal and over HTTP, files, pictures for MCP clients, the command line."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.kit.waiting import eventually
from tests.mcp.kit import connected
from tests.mcp.kit import serving as serving_mcp
from tests.scenarios.cli_kit import Place
from tests.scenarios.interpreter_kit import (
    NAME,
    cache_home,  # noqa: F401 -- a fixture for every test here
    interpreter,
    messages,
    ran,
    runtime,
)
from tests.scenarios.kit import assert_sound
from tests.scenarios.server_kit import key_for, read_sse, served

from clicket.cli.tool_loader import load
from clicket.errors import UsageError
from clicket.interpreter import code_interpreter

# The journal.


async def test_the_journal_has_the_messages_in_order_and_progress_by_block(store: str) -> None:
    task = "```python\n_ = [print(i) for i in range(3000)]\n```\n```python\ny = 2\n1 / 0\n```\n```python\ny\n```"
    async with runtime(interpreter(), store) as rt:
        result = await ran(rt, task)
        record = await rt.get(result.call_id)
        assert_sound(record)
        said = messages(record.events)
        kinds = [m["type"] for m in said if m["type"] not in ("state_change", "stdout")]
        assert kinds == [
            "progress",
            "code_execution_start", "code_execution_complete",
            "code_execution_start", "variable_created", "execution_error", "code_execution_error",
            "code_execution_start", "code_execution_complete",
            "final_result",
        ]  # fmt: skip
        printed = [m for m in said if m["type"] == "stdout"]
        assert "".join(m["content"] for m in printed) == "".join(f"{i}\n" for i in range(3000))
        assert len(printed) < 50
        changes = [m["to"] for m in said if m["type"] == "state_change"]
        assert changes[:3] == ["validating", "preparing", "executing"]
        assert changes[-2:] == ["collecting", "completed"]
        assert [m["timestamp"] for m in said] == sorted(m["timestamp"] for m in said)
        steps = [e.data["step"] for e in record.events if e.type == "progress"]
        assert steps == sorted(steps)
        assert record.progress is not None
        assert record.progress["percentage"] == 100
        assert said[-1]["result"]["value"] == result.output["value"] == "2"


async def test_a_flood_of_output_leaves_room_for_what_the_run_says_itself() -> None:
    async with runtime(interpreter()) as rt:
        result = await ran(rt, "for i in range(300_000): print('x' * 20)")
        record = await rt.get(result.call_id)
        said = messages(record.events)
        assert said[-1]["type"] == "final_result"
        omitted = sum(m.get("omitted", 0) for m in said)
        shown = sum(len(m["content"]) for m in said if m["type"] == "stdout")
        assert omitted + shown == 300_000 * 21
        assert len(await rt.artifact(result.output["outputs"]["stdout"])) == 300_000 * 21
        assert len(result.content) < 100_000, "short enough for a model"


# Files, figures, interfaces.


async def test_files_come_in_as_artifacts_and_go_out_as_artifacts_of_their_caller() -> None:
    async with served([interpreter()]) as it:
        ann, bob = await key_for(it, "ann", "call", "read"), await key_for(it, "bob", "call", "read")
        sent = (await it.post("/artifacts", content=b"a,b\n1,2\n", headers=ann)).json()["id"]
        task = "import csv\nrows = list(csv.DictReader(open('in.csv')))\nopen('out.txt', 'w').write(rows[0]['b'])"
        arguments = {"task": task, "file_names": [f"in.csv={sent}"]}
        done = (await it.call(NAME, arguments, headers=ann)).json()
        assert done["output"]["status"] == "ok", done
        (file,) = [f for f in done["output"]["files"] if f["name"] == "out.txt"]
        assert (await it.get(f"/artifacts/{file['artifact']}", headers=ann)).text == "2"
        assert (await it.get(f"/artifacts/{file['artifact']}", headers=bob)).status_code == 404
        refused = (await it.call(NAME, arguments, headers=bob)).json()
        assert refused["state"] == "failed"
        assert sent in refused["error"]["message"]


async def test_messages_come_live_over_http() -> None:
    async with served([interpreter()]) as it:
        task = "import time\nprint('first', flush=True)\nwhile True: time.sleep(0.05)"
        made = await it.post("/calls", json={"tool": NAME, "arguments": {"task": task}})
        id = made.json()["id"]
        said = []
        async with it.stream("GET", f"/calls/{id}/events") as response:
            async for event in read_sse(response):
                content = event["data"]["data"].get("content")
                if isinstance(content, dict):
                    said.append(content["type"])
                    if content["type"] == "stdout":
                        assert content["content"] == "first\n"
                        assert (await it.post(f"/calls/{id}/cancel")).status_code == 200
        assert said[:2] == ["state_change", "progress"]
        assert "stdout" in said
        assert (await it.get(f"/calls/{id}")).json()["state"] == "cancelled"


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30_000).decode()
SHOW = f"""
import base64
class Figure:
    def _repr_png_(self): return base64.b64decode({PNG!r})
display(Figure())
"""


async def test_figures_are_pictures_for_clients_of_mcp() -> None:
    async with runtime(interpreter()) as rt, serving_mcp(rt) as url, connected(url) as client:
        seen: list[tuple[float, float | None]] = []

        async def progress(step: float, total: float | None, message: str | None) -> None:
            seen.append((step, total))

        result = await client.call_tool(NAME, {"task": SHOW}, progress_callback=progress)
        assert not result.is_error
        await eventually(lambda: seen[-1:] == [(1, 1)])
        assert [step for step, _ in seen] == sorted({step for step, _ in seen}), "step numbers increase"
        text, picture = result.content
        assert json.loads(text.text.splitlines()[0])["displays"][0]["artifact"].startswith("sha256-")
        assert (picture.type, picture.mime_type) == ("image", "image/png")
        assert picture.data == PNG
        wrong = await client.call_tool(NAME, {"task": "import sys\nsys.exit(1)"})
        assert wrong.is_error


# Reading it later.


def test_a_command_finds_the_tool_by_name_and_by_the_settings_file(tmp_path: Path) -> None:
    place = Place(tmp_path, "memory://", "")
    named = place.run("call", NAME, "task=6 * 7", "--tools", "clicket.interpreter:code_interpreter", "--json")
    assert json.loads(named.stdout)["output"]["value"] == "42", named.stderr
    assert [tool.name for tool in load("clicket.interpreter")] == [NAME]
    (tmp_path / "clicket.toml").write_text('[interpreter]\nrequire = "partial"\nmax_steps = 1\nwarm = false\n')
    found = place.inside("call", NAME, "task=```python\n1\n```\n```python\n2\n```\n")
    assert found.returncode == 1
    assert "2 Python blocks" in found.stderr
    (tmp_path / "clicket.toml").write_text("[interpreter]\nmax_step = 1\n")
    wrong = place.inside("tools")
    assert wrong.returncode == 2
    assert "max_steps" in wrong.stderr


def test_a_tool_with_other_options_leaves_the_first_as_it_was() -> None:
    other = code_interpreter(name="py", call_timeout=10, options={"tags": ["x"]})
    assert (other.name, other.options.timeout, other.options.tags) == ("py", 10, {"x"})
    assert (code_interpreter.name, code_interpreter.options.timeout) == (NAME, 300)
    assert other(memory="2GiB").name == "py"
    assert "is there in the next" in code_interpreter.description
    assert "starts afresh" in code_interpreter(session="call").description
    assert code_interpreter(description="mine").description == "mine"
    with pytest.raises(UsageError, match="Did you mean 'memory'"):
        code_interpreter(memry="2GiB")
