"""Tools as functions of a program: each use is a call of the same caller and thread, judged, limited and on record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.tools import add, breaks
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.interpreter_kit import (
    NAME,
    cache_home,  # noqa: F401 -- a fixture for every test here
    interpreter,
    messages,
    ran,
    until_printed,
)
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import Policy, Runtime, State, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.engine.executors.sink import questions
from clicket.errors import UsageError
from clicket.interpreter import code_interpreter
from clicket.testing import ScriptedModel
from clicket.tools.question import InputQuestion


@tool
async def who(ctx: ToolContext) -> dict[str, Any]:
    """Who calls, and where."""
    return {"caller": ctx.caller, "thread": ctx.thread, "metadata": dict(ctx.metadata)}


@tool(max_retries=0)
async def pay(amount: int) -> str:
    """Pays. Not to be repeated."""
    return f"paid {amount}"


class Gate:
    """A tool that waits until it is let through, and says how many wait."""

    def __init__(self) -> None:
        self.inside = self.most = self.cancelled = 0
        self.opened = asyncio.Event()

    def tool(self) -> Any:
        @tool(name="gate", timeout=60)
        async def gate(number: int = 0) -> int:
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await self.opened.wait()
                return number
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            finally:
                self.inside -= 1

        return gate


def with_tools(*tools: Any, store: str = "memory://", policy: Policy | None = None, **options: Any) -> Runtime:
    names = [each.name for each in tools]
    settings = {name: options.pop(name) for name in ("max_concurrency", "max_thread_concurrency") if name in options}
    return make([*tools, interpreter(tools=names, **options)], store, policy=policy, cancel_grace=5.0, **settings)


async def value(rt: Runtime, task: str, **options: Any) -> str:
    result = await ran(rt, task, **options)
    assert result.success, result.error
    assert result.output["status"] == "ok", result.output["errors"]
    return str(result.output["value"])


# Both ways.


async def test_a_use_is_a_value_in_plain_code_and_awaitable_in_async_code() -> None:
    async with with_tools(add) as rt:
        assert await value(rt, "tools.add(a=1, b=2) + 1") == "4"
        assert await value(rt, "tools.add(1, 2), type(tools.add(1, b=2)).__name__") == "(3, 'int')"
        assert await value(rt, "x = await tools.add(a=1, b=2)\nx, type(x).__name__") == "(3, 'int')"
        assert await value(
            rt, "y = tools.add(a=1, b=2)\nz = await tools.add(a=y, b=4)\n(y + 1, 2 * y, y == 3, f'{y}', z)"
        ) == ("(4, 6, True, '3', 7)")
        task = "import asyncio\nasync def main():\n    return await asyncio.gather(tools.add(1, 1), tools.add(2, 2))\nasyncio.run(main())"
        assert await value(rt, task) == "[2, 4]"
        task = "import asyncio\ntry:\n    await asyncio.wait_for(tools.add(a=1, b=1), 30)\nfinally:\n    pass\n"
        assert (await ran(rt, task)).output["status"] == "ok"


async def test_several_uses_go_on_at_the_same_time() -> None:
    gate = Gate()
    async with with_tools(gate.tool(), max_uses_at_once=3) as rt:
        task = "import asyncio\nawait asyncio.gather(*(tools.gate(number=n) for n in range(5)))"
        running = asyncio.ensure_future(value(rt, task))
        await eventually(lambda: gate.inside == 3)
        gate.opened.set()
        assert await running == "[0, 1, 2, 3, 4]"
        assert gate.most == 3, "max_uses_at_once"


async def test_threads_use_tools_at_once_and_get_their_own_answers() -> None:
    async with with_tools(add) as rt:
        task = (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(8) as pool:\n    found = list(pool.map(lambda n: tools.add(a=n, b=n), range(60)))\n"
            "found == [2 * n for n in range(60)]"
        )
        assert await value(rt, task) == "True"


async def test_help_and_the_model_see_the_signatures() -> None:
    async with with_tools(add, pay) as rt:
        (listed,) = [each for each in await rt.tools() if each.name == NAME]
        assert "- tools.add(a: int, b: int) -> int  # Add two numbers." in listed.description
        assert "- tools.pay(amount: int) -> str  # Pays." in listed.description
        assert await value(rt, "import inspect\nstr(inspect.signature(tools.add))") == "'(a: int, b: int) -> int'"
        shown = await ran(rt, "help(tools.add)\nprint(tools)\nprint(list(tools), 'pay' in tools, dir(tools))")
        assert "Add two numbers." in shown.output["stdout"]
        assert "tools.pay(amount: int) -> str" in shown.output["stdout"]
        assert "['add', 'pay'] True ['add', 'pay']" in shown.output["stdout"]
        missing = await ran(rt, "tools.ad(1, 2)")
        assert missing.output["error"]["type"] == "AttributeError"
        assert "Its tools: add, pay" in missing.output["error"]["message"]


async def test_values_of_numpy_go_in_as_plain_numbers() -> None:
    pytest.importorskip("numpy")
    async with with_tools(add) as rt:
        assert await value(rt, "import numpy as np\ntools.add(a=np.int64(2), b=np.array([1, 3]).sum())") == "6"


# Errors.


async def test_a_failed_use_raises_an_error_that_a_program_can_catch() -> None:
    async with with_tools(add, breaks) as rt:
        task = (
            "found = []\nfor use in (lambda: tools.breaks(), lambda: tools.add(a='x', b=2), lambda: tools.add(a=object(), b=1),\n"
            "            lambda: tools.add(a=float('nan'), b=1), lambda: tools.add(a='\\ud800', b=1)):\n"
            "    try:\n        use()\n    except ToolError as error:\n"
            "        found.append((error.code, error.tool, error.retryable))\nfound"
        )
        invalid = ("invalid_input", "add", False)
        assert await value(rt, task) == repr([("tool_error", "breaks", False), invalid, invalid, invalid, invalid])
        result = await ran(rt, "x = 1\ntools.breaks()")
        assert result.state is State.COMPLETED
        assert result.output["error"]["type"] == "ToolError"
        assert result.output["error"]["message"] == "breaks: tool_error: no"
        assert result.output["error"]["line"] == 2
        assert "use_mailbox" not in result.output["error"]["traceback"], "the program's own lines only"
        with_await = await ran(rt, "await tools.breaks()")
        assert with_await.output["error"]["message"] == "breaks: tool_error: no"


async def test_big_outputs_are_refused_and_others_arrive_whole() -> None:
    @tool(max_result_size=1000)
    async def text(size: int) -> str:
        return "é" * size

    async with with_tools(text) as rt:
        assert await value(rt, "len(tools.text(size=2_000_000))") == "2000000", "a program gets more than a model reads"
        task = "try:\n    tools.text(size=5_000_000)\nexcept ToolError as error:\n    print(error.code)"
        assert (await ran(rt, task)).output["stdout"] == "result_too_large\n"
        assert await value(
            rt, "import asyncio\nsum(map(len, await asyncio.gather(*(tools.text(size=500_000) for _ in range(8)))))"
        ) == ("4000000")


# Calls as any other.


async def test_a_use_is_a_call_of_the_same_caller_and_thread(store: str) -> None:
    async with with_tools(who, store=store) as rt:
        ann = rt.acting_for("ann")
        result = await ran(ann, "tools.who()", thread="t", id="program-1", metadata={"own": 1})
        assert eval(result.output["value"]) == {
            "caller": "ann",
            "thread": "t",
            "metadata": {"parent": "program-1", "use": 1},
        }
        use = await ann.get("program-1.u1")
        assert (use.tool, use.thread, use.state) == ("who", "t", State.COMPLETED)
        assert_sound(use)
        page = await ann.history(thread="t", metadata={"parent": "program-1"})
        assert [each.id for each in page.items] == ["program-1.u1"]
        assert not (await rt.acting_for("bob").history(thread="t")).items


async def test_policies_judge_uses() -> None:
    async with with_tools(add, pay, policy=Policy(deny=["pay"])) as rt:
        task = "try:\n    tools.pay(amount=1)\nexcept ToolError as error:\n    print(error.code)\ntools.add(1, 2)"
        result = await ran(rt, task)
        assert (result.output["stdout"], result.output["value"]) == ("permission_denied\n", "3")


async def test_the_hub_the_cache_and_slots_are_those_of_every_call() -> None:
    calls = 0

    @tool(cache=60)
    async def counted(n: int) -> int:
        nonlocal calls
        calls += 1
        return n

    @tool(failure_threshold=2)
    async def bad() -> None:
        raise ValueError("no")

    task = (
        "found = [tools.counted(n=1), tools.counted(n=1)]\n"
        "for _ in range(3):\n    try:\n        tools.bad()\n    except ToolError as error:\n        found.append(error.code)\nfound"
    )
    async with with_tools(counted, bad, max_concurrency=1, max_thread_concurrency=1) as rt:
        assert await value(rt, task, thread="t") == "[1, 1, 'tool_error', 'tool_error', 'tool_unavailable']"
        assert calls == 1
        assert (await rt.hub("t").status("bad")).status == "failed"


async def test_nothing_else_is_reachable() -> None:
    inner = interpreter(name="inner")
    async with make([add, pay, inner, interpreter(tools=["add", "inner", "nowhere"])]) as rt:
        assert await value(rt, "list(tools)") == "['add']", "no code interpreter, and no tool that is not there"
        result = await ran(rt, "tools.pay(amount=1)")
        assert result.output["error"]["type"] == "AttributeError"
        forged = (
            "from gc import get_objects\n"
            "mailbox = next(each for each in get_objects() if type(each).__name__ == 'UseMailbox')\n"
            "[mailbox.wait(mailbox.post(name, {'amount': 1, 'task': '1'}))['error']['code']"
            " for name in ('pay', 'inner', 'code_interpreter', 'nowhere', '')]"
        )
        assert await value(rt, forged) == repr(["permission_denied"] * 3 + ["tool_not_found"] * 2)
        page = await rt.history(tool="pay")
        assert [each.error.code for each in page.items if each.error] == ["permission_denied"], (
            "the attempt is on record"
        )


async def test_a_program_without_tools_has_none() -> None:
    async with make([add, interpreter()]) as rt:
        assert (await ran(rt, "tools")).output["error"]["type"] == "NameError"
        (listed,) = [each for each in await rt.tools() if each.name == NAME]
        assert "tools." not in listed.description


async def test_tools_that_are_given_are_registered_and_later_ones_join() -> None:
    async with make([code_interpreter(warm=False, tools=[add, "pay"])]) as rt:
        assert await value(rt, "tools.add(1, 2)") == "3"
        assert await value(rt, "list(tools)") == "['add']"
        rt.add(pay)
        assert await value(rt, "list(tools), tools.pay(5)") == "(['add', 'pay'], 'paid 5')"
        assert "tools.pay" in next(each for each in await rt.tools() if each.name == NAME).description
        rt.remove("add")
        assert await value(rt, "list(tools)") == "['pay']"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tools": "add"}, "list of names"),
        ({"tools": ["code_interpreter"]}, "cannot use"),
        ({"tools": ["add"], "max_uses": 0}, "at least 1"),
        ({"tools": ["add"], "session": "call", "cache": 60}, "not cached"),
        ({"egress": ["https://api.example.com/path"]}, "not a host"),
        ({"egress": ["*"]}, "star"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        code_interpreter(**options)


# Waiting and stopping.


async def test_a_use_waits_for_a_person_while_the_clocks_stand_still(store: str) -> None:
    policy = Policy(ask=["pay"])
    async with with_tools(pay, policy=policy, store=store, timeout=1.0, call_timeout=3.0, grace=20) as rt:
        handle = await rt.submit(NAME, {"task": "tools.pay(amount=3)"}, thread="t", id="p")

        async def asked() -> bool:
            page = await rt.history(thread="t", tool="pay")
            return bool(page.items) and page.items[0].waiting_for == "approval"

        await eventually(asked)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=3.5)  # longer than both limits
        assert await rt.approve("p.u1")
        result = await handle.result()
        assert result.success, result.error
        assert result.output["value"] == "'paid 3'"
        denied = await rt.submit(NAME, {"task": "tools.pay(amount=4)"}, thread="t", id="q")
        await eventually(lambda: waits(rt, "q.u1"))
        await rt.deny("q.u1", reason="too much")
        result = await denied.result()
        assert result.output["error"]["message"].startswith("pay: approval_denied")


async def test_a_use_that_asks_while_it_runs_stops_the_clock_until_the_answer(store: str) -> None:
    @tool
    async def order(ctx: ToolContext) -> int:
        form = {"type": "object", "properties": {"size": {"type": "integer"}}}
        question = InputQuestion(key="q", source="the shop", message="Size?", schema=form)
        answer = questions(ctx).ask(question, None)
        return int(answer.content["size"])  # type: ignore[index]

    async with with_tools(order, store=store, timeout=1.0, call_timeout=3.0, grace=20) as rt:
        handle = await rt.submit(NAME, {"task": "tools.order()"}, thread="t", id="p")
        await eventually(lambda: waits(rt, "p.u1"))
        with pytest.raises(TimeoutError):
            await handle.result(timeout=3.5)  # longer than both limits
        await rt.respond("p.u1", {"size": 7})
        result = await handle.result()
        assert result.success, result.error
        assert result.output["value"] == "7"


async def waits(rt: Runtime, id: str) -> bool:
    page = await rt.history(limit=50)
    return any(record.id == id and record.waiting_for == "approval" for record in page.items)


async def test_a_block_s_time_counts_the_program_alone() -> None:
    gate = Gate()
    async with with_tools(gate.tool(), timeout=0.5, grace=20) as rt:
        running = asyncio.ensure_future(ran(rt, "import time\ntools.gate()\nx = 1\nwhile True: pass"))
        await eventually(lambda: gate.inside == 1)
        await asyncio.sleep(0.8)  # longer than the block may run
        assert gate.inside == 1
        gate.opened.set()
        result = await running
        assert result.output["status"] == "interrupted"
        assert (await ran(rt, "x")).output["value"] == "1"


async def test_a_cancelled_program_cancels_its_uses() -> None:
    gate = Gate()
    async with with_tools(gate.tool(), grace=20) as rt:
        task = (
            "import asyncio\nprint('on', flush=True)\nawait asyncio.gather(*(tools.gate(number=n) for n in range(3)))"
        )
        handle = await rt.submit(NAME, {"task": task}, thread="t")
        await eventually(lambda: gate.inside == 3)
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        await eventually(lambda: gate.cancelled == 3)

        async def ended() -> bool:
            page = await rt.history(thread="t", tool="gate")
            return all(record.state is State.CANCELLED for record in page.items) and len(page.items) == 3

        await eventually(ended)
        assert await value(rt, "list(tools)", thread="t") == "['gate']", "the session is kept"


async def test_a_use_that_is_not_awaited_any_more_is_cancelled() -> None:
    gate = Gate()
    async with with_tools(gate.tool(), add) as rt:
        task = (
            "import asyncio\ntry:\n    await asyncio.wait_for(tools.gate(), 0.2)\nexcept TimeoutError:\n    print('late')\n"
            "await tools.add(1, 2)"
        )
        result = await ran(rt, task, thread="t")
        assert (result.output["stdout"], result.output["value"]) == ("late\n", "3")
        await eventually(lambda: gate.cancelled == 1)
        forgotten = await ran(rt, "import asyncio\nleft = tools.gate()\nawait asyncio.sleep(0)\n1", thread="t")
        assert forgotten.output["value"] == "1"
        await eventually(lambda: gate.inside == 0)
        late = await ran(rt, "left.result()", thread="t")
        assert "cancelled" in late.output["error"]["message"]


async def test_a_timeout_of_a_use_is_the_uses_own() -> None:
    @tool(timeout=0.2, max_retries=0)
    async def slow() -> None:
        await asyncio.sleep(60)

    async with with_tools(slow) as rt:
        task = "try:\n    tools.slow()\nexcept ToolError as error:\n    print(error.code)"
        assert (await ran(rt, task)).output["stdout"] == "timeout\n"


async def test_the_limit_of_uses_holds() -> None:
    async with with_tools(add, max_uses=5) as rt:
        task = (
            "made = 0\ntry:\n    while True:\n        tools.add(a=1, b=made)\n        made += 1\n"
            "except ToolError as error:\n    print(made, error.code)"
        )
        assert (await ran(rt, task, thread="t")).output["stdout"] == "5 use_limit\n"
        assert await value(rt, "tools.add(1, 1)", thread="t") == "2", "each call has its own"
        assert len((await rt.history(thread="t", tool="add")).items) == 6


@pytest.mark.parametrize("removed", [False, True])
async def test_a_runtime_that_closes_hands_the_program_back(tmp_path: Path, removed: bool) -> None:
    """`removed`: retention removes the uses before the program runs again, and keeps their outcomes."""
    gate, later = Gate(), Gate()
    paid: list[int] = []

    @tool(max_retries=0)
    async def counted(n: int) -> int:
        paid.append(n)
        return n

    task = "first = tools.counted(n=1)\nprint('paid', flush=True)\ntools.gate()\n[first, tools.counted(n=2)]"
    rt = with_tools(counted, gate.tool(), store=sqlite_url(tmp_path))
    await rt.open()
    handle = await rt.submit(NAME, {"task": task}, thread="t", id="p")
    await until_printed(handle, "paid")
    await eventually(lambda: gate.inside == 1)
    await rt.close(patience=0)
    if removed:
        async with make([], sqlite_url(tmp_path)) as sweeper:
            assert (await sweeper.sweep(sweeper.retention(sweeper.clock.now() + 1))).calls == 2
    later.opened.set()
    repeatable = later.tool()
    async with with_tools(counted, repeatable, store=sqlite_url(tmp_path)) as again:
        result = await (await again.handle("p", thread="t")).result(timeout=PATIENCE)
        record = await again.get("p", thread="t")
        assert len(record.attempts) == 2
        assert paid[0] == 1
        assert paid.count(1) == 1, "a finished use is not repeated"
        # The tool of the second use may not be repeated, and it had started: its outcome is not known.
        assert result.output["error"]["message"].startswith("gate: outcome_unknown"), result


# Agents.


async def test_an_agent_writes_one_program_in_place_of_many_calls() -> None:
    async with with_tools(add) as rt:
        program = "total = 0\nfor n in range(20):\n    total = tools.add(a=total, b=n)\nprint(total)"
        model = ScriptedModel([[(NAME, {"task": program})], lambda request: request.messages[-1].content])
        answer = await ReActAgent(rt, model, tools=[NAME], max_steps=2).run("add them", thread="t")
        assert "190" in answer.text
        assert len(model.requests) == 2
        offered = model.requests[0].tools
        assert [offer.name for offer in offered if offer.name in (NAME, "add")] == [NAME]
        assert "tools.add(a: int, b: int) -> int" in offered[0].description
        page = await rt.history(thread="t", tool="add", limit=100)
        assert len(page.items) == 20
        assert all(record.id.startswith("react.1.1.1.u") for record in page.items)


async def test_the_messages_of_a_program_are_as_without_tools() -> None:
    async with with_tools(add) as rt:
        result = await ran(rt, "print(tools.add(1, 2))")
        kinds = [each["type"] for each in messages((await rt.get(result.call_id)).events)]
        assert kinds[-1] == "final_result"
        assert "stdout" in kinds
