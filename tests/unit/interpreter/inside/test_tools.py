"""Tools as functions of the program, with a host that answers as the test says: in any order, late, or never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess

from clicket.interpreter.sandbox import frames

LISTING: dict[str, Any] = {
    "tools": [
        {
            "name": name, "attribute": attribute, "signature": f"{name}(n: int) -> int", "doc": f"About {name}.",
            "returns": "int", "parameters": [["n", "int", None], ["m", "int", "0"]],
        }
        for name, attribute in (("one", "one"), ("odd-name", "odd_name"), ("same.name", ""))
    ],
    "fetch": "fetcher",
}  # fmt: skip


class Host:
    """Runs blocks and answers uses. `uses` are those that it saw."""

    def __init__(self, child: SandboxProcess) -> None:
        self.child = child
        self.uses: list[dict[str, Any]] = []
        self.withdrawn: list[int] = []
        self._told = False

    def begin(self, code: str) -> None:
        tools = {} if self._told else {"tools": LISTING}
        self._told = True
        self.child.send({"op": "exec", "code": code, "name": "<block>", **tools})

    def next(self) -> dict[str, Any]:
        frame = self.child.answer()
        if frame["type"] == "use":
            self.uses.append(frame)
        elif frame["type"] == "withdraw":
            self.withdrawn.append(frame["use"])
        return frame

    def answer(self, use: int, **fields: Any) -> None:
        frames.write(self.child._commands, {"op": "answer", "use": use, **fields})

    def run(self, code: str, reply: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> dict[str, Any]:
        """The end of the block; each use is answered at once, by default with its first argument."""
        self.begin(code)
        return self.finish(reply)

    def finish(self, reply: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> dict[str, Any]:
        while True:
            frame = self.next()
            if frame["type"] == "done":
                return frame
            if frame["type"] == "use":
                fields = {"value": frame["arguments"].get("n")} if reply is None else reply(frame)
                self.answer(frame["use"], **fields)

    def value(self, code: str, reply: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> Any:
        done = self.run(code, reply)
        assert done["status"] == "ok", done["error"]
        return done["value"]


@pytest.fixture
def host(fresh: SandboxProcess) -> Host:
    return Host(fresh)


def test_uses_are_numbered_and_arguments_keep_their_names(host: Host) -> None:
    assert host.value("tools.one(1), tools.one(n=2), tools.odd_name(3, m=4), tools['same.name'](n={'a': [1]})") == (
        "(1, 2, 3, {'a': [1]})"
    )
    assert [(use["use"], use["tool"], use["arguments"]) for use in host.uses] == [
        (1, "one", {"n": 1}),
        (2, "one", {"n": 2}),
        (3, "odd-name", {"n": 3, "m": 4}),
        (4, "same.name", {"n": {"a": [1]}}),
    ]
    assert host.value("tools.one(5)") == "5"
    assert host.uses[-1]["use"] == 5, "they are counted through all blocks"
    assert host.run("tools.one(1, 2, 3)")["error"]["type"] == "TypeError"
    assert host.run("tools.one(1, n=1)")["error"]["type"] == "TypeError"
    assert host.run("tools['nothing']")["error"]["type"] == "KeyError"


def test_answers_may_come_in_any_order(host: Host) -> None:
    host.begin("import asyncio\nawait asyncio.gather(*(tools.one(n) for n in range(3)))")
    numbers = [host.next()["use"] for _ in range(3)]
    for number in reversed(numbers):
        host.answer(number, value=number * 10)
    assert host.finish()["value"] == "[10, 20, 30]"


def test_the_loop_goes_on_while_uses_are_under_way(host: Host) -> None:
    host.begin(
        "import asyncio\nasync def tick():\n    print('tick', flush=True)\n"
        "found = await asyncio.gather(tools.one(1), tools.one(2), tick())\nfound[:2]"
    )
    host.next(), host.next()
    assert host.child.heard("tick"), "gather does not wait for what it gets"
    host.answer(2, value={"n": 2})
    host.answer(1, value={"n": 1})
    assert host.finish()["value"] == "[{'n': 1}, {'n': 2}]"


def test_a_thread_that_waits_reads_for_the_others(host: Host) -> None:
    host.begin(
        "import threading\nfound = {}\n"
        "def use(n):\n    found[n] = tools.one(n)\n    print(n, flush=True)\n"
        "threads = [threading.Thread(target=use, args=(n,)) for n in range(3)]\n"
        "for thread in threads: thread.start()\nfor thread in threads: thread.join()\nfound == {0: 'a', 1: 'b', 2: 'c'}"
    )
    uses = {frame["arguments"]["n"]: frame["use"] for frame in (host.next() for _ in range(3))}
    host.answer(uses[2], value="c")
    assert host.child.heard("2\n"), "its answer is delivered while the others still wait"
    host.answer(uses[0], value="a")
    host.answer(uses[1], value="b")
    assert host.finish()["value"] == "True"


def test_a_loop_and_a_blocking_use_wait_together(host: Host) -> None:
    host.begin(
        "import asyncio\nlater = tools.one(1)\nnow = tools.one(2).result()\n(now, await later, later + 1, await later)"
    )
    host.next(), host.next()
    host.answer(1, value=10)
    host.answer(2, value=20)
    assert host.finish()["value"] == "(20, 10, 11, 10)"


def test_errors_are_raised_as_tool_error(host: Host) -> None:
    def fails(use: dict[str, Any]) -> dict[str, Any]:
        return {"error": {"code": "timeout", "message": "too slow", "retryable": True}}

    task = "try:\n    tools.one(1)\nexcept ToolError as e:\n    found = (e.code, e.message, e.tool, e.retryable, str(e))\nfound"
    assert host.value(task, fails) == "('timeout', 'too slow', 'one', True, 'one: timeout: too slow')"
    error = host.run("await tools.one(1)", fails)["error"]
    assert (error["type"], error["message"], error["line"]) == ("ToolError", "one: timeout: too slow", 1)


def test_arguments_that_are_no_json_do_not_leave(host: Host) -> None:
    deep = "x = []\nfor _ in range(100_000): x = [x]\n"
    for code in ("n=object()", "n=float('inf')", "n='\\ud800'", "n={(1,): 2}", "n='x' * 3_000_000", "n=x"):
        done = host.run(f"{deep}tools.one({code})")
        assert (done["error"]["type"], "invalid_input" in done["error"]["message"]) == ("ToolError", True), done
    assert not host.uses
    assert (
        host.value("import datetime\ntools.one({1, 1}), tools.one(datetime.date(2026, 1, 2))") == "([1], '2026-01-02')"
    )


def test_an_interrupt_ends_the_wait_for_an_answer(host: Host) -> None:
    host.begin("x = 1\ntools.one(1)")
    host.next()
    host.child.interrupt()
    assert host.finish()["status"] == "interrupted"
    host.answer(1, value=1)  # too late: the worker drops it
    assert host.value("x, tools.one(7)") == "(1, 7)"


def test_what_is_left_at_the_end_of_a_block_gets_an_error(host: Host) -> None:
    host.begin("import asyncio\nleft = tools.one(1)\nawait asyncio.sleep(0)")
    assert host.next()["type"] == "use"
    assert host.next()["type"] == "done"
    assert "its block has ended" in host.run("left.result()")["error"]["message"]
    host.begin(
        "import threading, time\nbegun = threading.Event()\n"
        "def use():\n    begun.set()\n    try:\n        tools.one(2)\n    except ToolError as e:\n        print(e.code, flush=True)\n"
        "threading.Thread(target=use).start()\nbegun.wait()\ntime.sleep(0.1)"
    )
    while host.next()["type"] != "done":
        pass
    for _ in range(100):
        if host.child.heard("cancelled"):
            break
        host.run("time.sleep(0.05)")  # the thread prints when it gets to it
    assert host.child.heard("cancelled")


def test_a_use_that_is_cancelled_is_withdrawn(host: Host) -> None:
    host.begin(
        "import asyncio\ntask = asyncio.create_task(tools.one(1))\nawait asyncio.sleep(0)\ntask.cancel()\n"
        "try:\n    await task\nexcept asyncio.CancelledError:\n    print('gone')\ntools.one(2).result()"
    )
    assert (first := host.next())["type"] == "use", first
    assert host.next() == {"type": "withdraw", "id": 1, "use": 1}
    assert host.finish()["status"] == "ok"
    assert host.withdrawn == [1]


def test_a_forked_process_has_no_tools(host: Host) -> None:
    done = host.run(
        "import os\npid = os.fork()\nif pid == 0:\n    try:\n        tools.one(1)\n    except ToolError as e:\n"
        "        print(e, flush=True)\n"
        "    os._exit(0)\nos.waitpid(pid, 0)\ntools.one(5)"
    )
    assert done["value"] == "5"
    assert host.child.heard("tool_unavailable")
    assert [use["use"] for use in host.uses] == [1]


def test_fetch_returns_a_response(host: Host) -> None:
    def page(use: dict[str, Any]) -> dict[str, Any]:
        return {"value": {"status": 200, "url": use["arguments"]["url"], "headers": {"a": "b"}, "text": '{"x": [1]}'}}

    assert host.value(
        "r = fetch('https://a.b/c', headers={'x': 'y'})\n(r.status, r.ok, r.json(), r.headers)", page
    ) == ("(200, True, {'x': [1]}, {'a': 'b'})")
    assert host.uses[0]["tool"] == "fetcher"
    assert host.uses[0]["arguments"] == {"url": "https://a.b/c", "method": "GET", "headers": {"x": "y"}}
    assert host.value("r = await fetch('https://a.b/', method='POST', json={'k': 1})\n(r.text, r.content)", page) == (
        "('{\"x\": [1]}', b'{\"x\": [1]}')"
    )
    coded = {"status": 404, "url": "u", "headers": {}, "base64": "/w=="}
    assert (
        host.value("r = fetch('u')\n(r.content, r.ok, r.text)", lambda use: {"value": coded})
        == "(b'\\xff', False, '\ufffd')"
    )


def test_a_program_that_breaks_its_builtins_gets_its_tools_back(host: Host) -> None:
    host.run("import builtins\ndel builtins.tools\ntools = 1")
    assert host.value("del tools\ntools.one(4)") == "4"


def test_without_a_listing_there_are_no_tools(fresh: SandboxProcess) -> None:
    assert fresh.run("tools")["error"]["type"] == "NameError"
    host = Host(fresh)
    assert host.value("tools.one(1)") == "1"
    fresh.send({"op": "exec", "code": "tools", "name": "<x>", "tools": None})
    assert fresh.answer()["error"]["type"] == "NameError"
