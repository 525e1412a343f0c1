"""Programs that misuse their tools: bounded, judged, and without harm to the host, to other programs, or to other tools."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tests.kit.tools import add
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.interpreter_kit import NAME, interpreter, ran, until_printed
from tests.scenarios.kit import make

from clicket import Policy, Runtime, State, ToolContext, tool

MAX_USES = 20
AT_ONCE = 3
FORGE = """
import json, os, struct
def pipes():
    for name in os.listdir('/proc/self/fd'):
        try:
            if int(name) > 2 and os.readlink(f'/proc/self/fd/{name}').startswith('pipe:'):
                yield int(name)
        except OSError:
            pass
def send(frame, raw=None):
    body = json.dumps(frame).encode() if raw is None else raw
    for fd in pipes():
        try:
            data = struct.pack('!I', len(body)) + body
            while data:
                data = data[os.write(fd, data):]
        except OSError:
            pass
block = BLOCK
"""
MAILBOX = """
import gc
mailbox = next(each for each in gc.get_objects() if type(each).__name__ == 'UseMailbox')
block = mailbox._block
"""


class Hostile(msgspec.Struct, frozen=True):
    """`ends`: how its call may end: `ok` (the program ran to its end), or a part of the failure's message."""

    name: str
    code: str
    ends: tuple[str, ...]
    most: int = MAX_USES
    """How many calls of `add` it may make."""


FORGED = FORGE.replace("BLOCK", "None") + MAILBOX

PROGRAMS = [
    Hostile(
        "uses without end",
        "while True:\n    try:\n        tools.add(a=1, b=1)\n    except ToolError:\n        pass",
        ("killed (protocol)",),
    ),
    Hostile(
        "uses without end and without waiting",
        "import asyncio\nawait asyncio.gather(*(tools.add(a=n, b=1) for n in range(100_000)), return_exceptions=True)",
        ("killed (protocol)",),
    ),
    Hostile(
        "a flood of frames",
        FORGED + "while True:\n    send({'type': 'use', 'id': block, 'use': 1, 'tool': 'add', 'arguments': {}})",
        ("killed (protocol)",),
    ),
    Hostile(
        "a forged number",
        FORGED
        + "send({'type': 'use', 'id': block, 'use': 7, 'tool': 'add', 'arguments': {}})\nimport time; time.sleep(20)",
        ("killed (protocol)",),
        most=0,
    ),
    Hostile(
        "a forged use in the place of the next",
        FORGED
        + "send({'type': 'use', 'id': block, 'use': 1, 'tool': 'add', 'arguments': {'a': 1, 'b': 1}})\ntools.add(a=2, b=2)",
        ("killed (protocol)",),
        most=1,
    ),
    Hostile(
        "a forged caller",
        FORGED
        + "send({'type': 'use', 'id': block, 'use': 1, 'tool': 'add', 'arguments': {}, 'caller': 'admin'})\nimport time; time.sleep(20)",
        ("killed (protocol)",),
        most=0,
    ),
    Hostile(
        "a forged withdrawal",
        FORGED + "send({'type': 'withdraw', 'id': block, 'use': 99})\nimport time; time.sleep(20)",
        ("killed (protocol)",),
        most=0,
    ),
    Hostile(
        "a use of a block that comes later",
        FORGED
        + "send({'type': 'use', 'id': block + 5, 'use': 1, 'tool': 'add', 'arguments': {}})\nimport time; time.sleep(20)",
        ("killed (protocol)",),
        most=0,
    ),
    Hostile(
        "huge arguments past the worker",
        FORGED
        + 'send(None, b\'{"type":"use","id":%d,"use":1,"tool":"add","arguments":{"a":"\' % block + b\'x\' * 6_000_000'
        " + b'\"}}')\nimport time; time.sleep(20)",
        ("killed (protocol)",),
        most=0,
    ),
    Hostile(
        "big arguments, each judged",
        "for _ in range(5):\n    try:\n        tools.add(a='x' * 1_900_000, b=1)\n    except ToolError as error:\n"
        "        assert error.code == 'invalid_input', error\nprint('held')",
        ("ok",),
    ),
    Hostile(
        "recursion up to the limit",
        "import sys\ndef down(n):\n    try:\n        return down(n + 1)\n    except RecursionError:\n        return tools.add(a=n, b=1)\n"
        "for _ in range(10):\n    try:\n        down(0)\n    except (RecursionError, ToolError):\n        pass\n"
        "assert tools.add(a=1, b=1) == 2",
        ("ok",),
    ),
    Hostile(
        "odd names",
        MAILBOX
        + "for name in ('', '\\x00', 'a\\nb', 'add ', 'ADD', '../add', 'add\\u202e', 'code_interpreter', 'secret', '__class__'):\n"
        "    answer = mailbox.wait(mailbox.post(name, {'a': 1, 'b': 1}))\n"
        "    assert answer['error']['code'] in ('tool_not_found', 'permission_denied'), answer\nprint('held')",
        ("ok",),
        most=0,
    ),
    Hostile(
        "a name without end",
        MAILBOX + "mailbox.post('x' * 100_000, {})\nimport time; time.sleep(20)",
        ("killed (protocol)",),
        most=0,
    ),
    Hostile(
        "callbacks that raise",
        "import asyncio\n"
        "async def main():\n    loop = asyncio.get_running_loop()\n    loop.set_exception_handler(lambda *_: 1 / 0)\n"
        "    for _ in range(50): loop.call_soon(lambda: 1 / 0)\n"
        "    return await asyncio.gather(*(tools.add(a=n, b=1) for n in range(5)))\nassert asyncio.run(main()) == [1, 2, 3, 4, 5]",
        ("ok",),
    ),
    Hostile(
        "signals that raise while it waits",
        "import signal\ndef boom(*_): raise ValueError('boom')\nsignal.signal(signal.SIGALRM, boom)\n"
        "for n in range(15):\n    signal.setitimer(signal.ITIMER_REAL, 0.0002)\n    try:\n        tools.add(a=n, b=1)\n"
        "    except ValueError:\n        pass\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\nprint('held')",
        ("ok", "killed", "crashed", "error"),
    ),
    Hostile(
        "a trace function inside the worker",
        "import sys\ncount = 0\ndef trace(frame, event, argument):\n    global count\n    count += 1\n"
        "    if count % 97 == 0: raise KeyError(count)\n"
        "    return trace\nfor n in range(15):\n    sys.settrace(trace)\n    try:\n        tools.add(a=n, b=1)\n"
        "    except BaseException:\n        pass\n"
        "    sys.settrace(None)\nprint('held')",
        ("ok", "killed", "crashed", "error"),
    ),
    Hostile(
        "a fork that goes around the hooks",
        FORGED + "import ctypes\npid = ctypes.CDLL(None).fork()\n"
        "if pid == 0:\n    send({'type': 'use', 'id': block, 'use': 1, 'tool': 'add', 'arguments': {'a': 9, 'b': 9}})\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\ntools.add(a=1, b=1)",
        ("ok", "killed (protocol)", "error"),
    ),
    Hostile(
        "a closed pipe",
        FORGED + "for fd in pipes():\n    os.close(fd)\ntools.add(a=1, b=1)",
        ("killed", "crashed", "ok", "error"),
        most=0,
    ),
    Hostile(
        "answers read by itself",
        FORGED
        + "number = mailbox.post('add', {'a': 1, 'b': 1})\nfor fd in pipes():\n    try:\n        os.set_blocking(fd, False)\n"
        "        while os.read(fd, 3): pass\n    except OSError:\n        pass\ntools.add(a=1, b=1)",
        ("killed", "crashed", "ok", "error", "interrupted"),
    ),
    Hostile(
        "an end that is forged, then uses",
        FORGED
        + "send({'type': 'done', 'id': block, 'status': 'ok'})\nfor _ in range(50):\n    try:\n        tools.add(a=1, b=1)\n"
        "    except ToolError:\n        pass",
        ("ok", "killed"),
    ),
    Hostile(
        "many threads without end",
        "import threading\ndef use():\n    while True:\n        try:\n            tools.add(a=1, b=1)\n"
        "        except ToolError:\n            pass\n"
        "threads = [threading.Thread(target=use) for _ in range(16)]\nfor thread in threads: thread.start()\n"
        "for thread in threads: thread.join()",
        ("killed (protocol)",),
    ),
]


@tool
async def secret() -> str:
    """Not for programs."""
    return "the secret"


async def wrongs(rt: Runtime, program: Hostile) -> list[Any]:
    """What differs from the expected outcome."""
    found: list[Any] = []
    result = await ran(rt, program.code, thread=program.name)
    how = result.output["status"] if result.success else result.error.message
    if not any(how == end if end == "ok" else end in how for end in program.ends):
        found.append((program.name, how, result.output and result.output["errors"]))
    made = (await rt.history(thread=program.name, tool="add", limit=1_000)).items
    if len(made) > program.most:
        found.append((program.name, f"{len(made)} calls"))
    again = await ran(rt, "tools.add(a=20, b=22)", thread=program.name)
    if not again.success or again.output["value"] != "42":  # it broke its own session: then a new one must work
        again = await ran(rt, "tools.add(a=20, b=22)", thread=f"{program.name}, afterwards")
    if not again.success or again.output["value"] != "42":
        found.append((program.name, "no program works afterwards", again))
    return found


async def test_hostile_programs_are_bounded_and_judged() -> None:
    hostile = interpreter(tools=["add"], max_uses=MAX_USES, timeout=PATIENCE, grace=0.5, memory="256MiB")
    complaints = []
    async with make([add, secret, hostile], cancel_grace=5.0) as rt:
        for first in range(0, len(PROGRAMS), AT_ONCE):
            for found in await asyncio.gather(*(wrongs(rt, each) for each in PROGRAMS[first : first + AT_ONCE])):
                complaints += found
        used = (await rt.history(tool="secret", limit=100)).items
        assert [each.error.code for each in used if each.error] == ["permission_denied"] * len(used)
        assert (await rt.call("secret", {})).output == "the secret"
    assert not complaints, "\n".join(map(str, complaints))


async def test_a_program_that_ignores_its_cancel_uses_nothing_more() -> None:
    async with make([add, interpreter(tools=["add"], grace=0.5)], cancel_grace=5.0) as rt:
        deaf = (
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntools.add(a=1, b=1)\nprint('on', flush=True)\n"
            "while True:\n    try:\n        tools.add(a=2, b=2)\n    except ToolError:\n        pass"
        )
        handle = await rt.submit(NAME, {"task": deaf}, thread="t")
        await until_printed(handle, "on")
        assert await rt.cancel(handle.id)
        assert (await handle.result()).state is State.CANCELLED
        record = await rt.get(handle.id)
        assert record.ended_at is not None
        page = await rt.history(thread="t", tool="add", limit=1_000)
        assert all(use.created_at <= record.ended_at for use in page.items)


async def test_callers_get_their_own_answers() -> None:
    @tool
    async def mine(ctx: ToolContext) -> str:
        """What belongs to the caller."""
        await asyncio.sleep(0)
        return f"of {ctx.caller}"

    async with make([mine, interpreter(tools=["mine"])]) as rt:
        programs = [
            ran(rt.acting_for(name), "set(tools.mine() for _ in range(20))", thread="same")
            for name in ("ann", "bob", "cy")
        ]
        results = await asyncio.gather(*programs)
        assert [result.output["value"] for result in results] == ["{'of ann'}", "{'of bob'}", "{'of cy'}"]


async def test_an_answer_that_is_never_read_holds_no_memory_of_the_host() -> None:
    made: list[Any] = []

    @tool
    async def megabyte(n: int) -> str:
        made.append(n)
        return "x" * 1_000_000

    code = (
        MAILBOX
        + "for n in range(100): mailbox.post('megabyte', {'n': n})\nprint('posted', flush=True)\nimport time; time.sleep(600)"
    )
    async with make([megabyte, interpreter(tools=["megabyte"], max_uses_at_once=4)], cancel_grace=5.0) as rt:
        handle = await rt.submit(NAME, {"task": code})
        await until_printed(handle, "posted")
        await eventually(lambda: len(made) >= 4)
        await asyncio.sleep(0.3)
        assert len(made) < 20, "further uses wait until the answers are read"
        await rt.cancel(handle.id)
        await handle.result()


# Uses that wait for a person, who may never answer.


@tool(max_retries=0)
async def pay(amount: int) -> str:
    """Pays, once somebody agrees."""
    return f"paid {amount}"


async def withdrawn(rt: Runtime, thread: str) -> bool:
    page = await rt.history(thread=thread, tool="pay")
    return bool(page.items) and all(record.state is State.CANCELLED for record in page.items)


async def test_programs_that_wait_for_a_person_leave_sessions_to_other_callers() -> None:
    tool = interpreter(tools=["pay"], max_sessions=2)
    async with make([pay, tool], policy=Policy(ask=["pay"]), cancel_grace=5.0) as rt:
        bob, ann = rt.acting_for("bob"), rt.acting_for("ann")
        held = [await bob.submit(NAME, {"task": "tools.pay(amount=1)"}, thread=f"t{number}") for number in range(2)]
        await eventually(lambda: any(pooled.runs for pooled in tool.sessions.values()))
        assert (await ran(ann, "6 * 7", thread="t")).output["value"] == "42"
        for handle in held:
            assert await bob.cancel(handle.id)
            assert (await handle.result()).state is State.CANCELLED


async def test_uses_that_wait_for_a_person_end_in_time_however_many_follow() -> None:
    code = (
        "found = []\nfor n in range(50):\n    try:\n        tools.pay(amount=n)\n    except ToolError as error:\n"
        "        found.append(error.code)\nset(found), len(found)"
    )
    async with make([pay, interpreter(tools=["pay"], max_use_wait=1.0)], policy=Policy(ask=["pay"])) as rt:
        result = await ran(rt, code, thread="t")
        assert result.success, result.error
        assert result.output["value"] == "({'timeout'}, 50)"
        await eventually(lambda: withdrawn(rt, "t"))
        assert len((await rt.history(thread="t", tool="pay")).items) == 1, "no time was left for the others"


async def test_a_program_that_computes_while_its_use_waits_is_stopped_in_time() -> None:
    code = (
        "import threading\nthreading.Thread(target=lambda: tools.pay(amount=1), daemon=True).start()\n"
        "print('on', flush=True)\nwhile True: pass"
    )
    async with make([pay, interpreter(tools=["pay"], timeout=1.0)], policy=Policy(ask=["pay"]), cancel_grace=5.0) as rt:
        result = await ran(rt, code, thread="t")
        how = result.output["status"] if result.success else result.error.message
        assert "interrupted" in how or "timeout" in how, how
        await eventually(lambda: withdrawn(rt, "t"))
