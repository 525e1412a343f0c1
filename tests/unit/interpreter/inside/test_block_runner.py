"""A block behaves like a module: its output, its value, how it ends, and what the next block sees."""

from __future__ import annotations

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("", None),
        ("# only words", None),
        ("6 * 7", "42"),
        ("x = 5", None),
        ("None", None),
        ("'text'", "'text'"),
        ("6 * 7;", None),
        ("(6 *\n 7) ;  # quiet", None),
        ("';'", "';'"),
        ("1; 2", "2"),
        ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nf(20)", "2432902008176640000"),
        ("if __name__ == '__main__':\n    seen = 'main'\nseen", "'main'"),
        ("from __future__ import annotations\nlambda: 0; 3", "3"),
        ("'é' + '\\U0001f600'", "'é😀'"),
    ],
)
def test_the_last_expression_is_the_value(child: SandboxProcess, code: str, value: str | None) -> None:
    done = child.run(code)
    assert (done["status"], done["value"], done["error"]) == ("ok", value, None)


def test_names_stay_and_the_last_value_is_underscore(child: SandboxProcess) -> None:
    child.run("kept = [1, 2]\nlen(kept)")
    assert child.run("kept.append(_)\nkept")["value"] == "[1, 2, 2]"


def test_main_is_in_sys_modules(child: SandboxProcess) -> None:
    code = """
import pickle, sys, typing
from dataclasses import dataclass
@dataclass
class Point:
    x: "int"
copy = pickle.loads(pickle.dumps(Point(3)))
assert typing.get_type_hints(Point) == {"x": int}
assert vars(sys.modules["__main__"]) is globals()
copy
"""
    assert child.run(code)["value"] == "Point(x=3)"


def test_the_text_of_a_block_is_there_for_inspect(child: SandboxProcess) -> None:
    child.run("def twice(x):\n    return 2 * x\n")
    assert child.run("import inspect\ninspect.getsource(twice)")["value"] == repr("def twice(x):\n    return 2 * x\n")


def test_await_at_the_top_and_one_loop_for_the_session(child: SandboxProcess) -> None:
    child.run("import asyncio\nqueue = asyncio.Queue()")
    child.run(
        "async def fetch():\n    return await queue.get()\ntask = asyncio.create_task(fetch())\nawait asyncio.sleep(0)"
    )
    child.run("await queue.put('later')")
    assert child.run("await task")["value"] == "'later'"
    assert child.run("await asyncio.sleep(0, 9)")["value"] == "9"


def test_asyncio_run_works_where_nothing_is_awaited(child: SandboxProcess) -> None:
    assert child.run("import asyncio\nasync def seven():\n    return 7\nasyncio.run(seven())")["value"] == "7"
    assert child.run("await seven()")["value"] == "7"


@pytest.mark.parametrize(
    ("code", "exit_code", "words"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("exit(4)", 4, ""),
        ("quit()", 0, ""),
        ("raise SystemExit('so long')", 1, "so long\n"),
        ("raise SystemExit(10**30)", -1, ""),
        ("async def leave():\n    raise SystemExit(5)\nawait leave()", 5, ""),
    ],
)
def test_exit(child: SandboxProcess, code: str, exit_code: int, words: str) -> None:
    done = child.run(code)
    assert (done["status"], done["exit_code"], done["error"]) == ("exit", exit_code, None)
    assert child.said("stderr") == words


def test_an_exception_leaves_the_names_before_it(child: SandboxProcess) -> None:
    done = child.run("first = 1\n1 / 0\nsecond = 2")
    assert (done["status"], done["error"]["type"], done["error"]["line"]) == ("error", "ZeroDivisionError", 2)
    assert child.run("first, 'second' in globals()")["value"] == "(1, False)"


def test_any_base_exception_is_an_error(child: SandboxProcess) -> None:
    assert child.run("raise GeneratorExit")["status"] == "error"
    assert child.run("raise KeyboardInterrupt")["status"] == "error"  # raised by the program, not by an interrupt


def test_input_gets_an_end_of_file(child: SandboxProcess) -> None:
    assert child.run("input('name? ')")["error"]["type"] == "EOFError"
    assert child.said() == "name? "


def test_lines_are_live_and_children_speak_in_turn(child: SandboxProcess) -> None:
    child.begin("import time\nprint('first')\nwhile True:\n    time.sleep(0.01)")
    assert child.heard("first")
    child.interrupt()
    assert child.done()["status"] == "interrupted"
    child.said()
    child.run("import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c', end='')")
    assert child.said() == "a\nb\nc"


def test_what_c_prints_is_flushed(child: SandboxProcess) -> None:
    child.run("import ctypes\nctypes.CDLL(None).printf(b'from C')")
    assert child.said() == "from C"


def test_a_block_in_large_letters_runs(child: SandboxProcess) -> None:
    done = child.run(f"text = '{'y' * 100}'\n" * 6000 + "print(len(text))")
    assert done["status"] == "ok"
    assert child.said() == "100\n"


# --- interrupts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("print('go')\nwhile True:\n    pass", None),
        ("import time\nprint('go')\ntime.sleep(1000)", 3),
        ("import asyncio\nprint('go')\nawait asyncio.sleep(1000)", 3),
        ("async def spin():\n    print('go')\n    while True: pass\nawait spin()", 3),
        ("import re\nprint('go')\nre.match(r'(a+)+$', 'a' * 60 + 'b')", 3),
        ("class Slow:\n    def __repr__(self):\n        print('go')\n        while True: pass\nSlow()", 4),
        (
            "class Slow(Exception):\n    def __str__(self):\n        print('go')\n        while True: pass\nraise Slow",
            None,
        ),
    ],
)
def test_an_interrupt_stops_the_block_and_keeps_the_names(child: SandboxProcess, code: str, line: int | None) -> None:
    child.run("held = 'still'")
    child.begin(code)
    assert child.heard("go")
    child.interrupt()
    done = child.done()
    child.said()
    if "raise Slow" in code:  # the error came before the interrupt; only its text did not
        assert (done["status"], done["error"]["type"]) == ("error", "Slow")
    else:
        assert (done["status"], done["error"]["type"]) == ("interrupted", "KeyboardInterrupt")
        assert line is None or done["error"]["line"] in (line, line - 1)  # it may arrive before `print` has returned
    assert child.run("held")["value"] == "'still'"


def test_an_interrupt_that_comes_late_is_forgotten(child: SandboxProcess) -> None:
    for _ in range(20):
        child.run("quick = 1")
        child.interrupt()
        child.check("")
        assert child.run("quick")["status"] == "ok"


def test_an_interrupt_that_comes_early_waits_for_its_block(child: SandboxProcess) -> None:
    """The command is in the pipe before the signal is sent; the worker may not have read it yet."""
    for _ in range(20):
        child.begin("while True: pass")
        child.interrupt()
        assert child.done()["status"] == "interrupted"


def test_an_interrupt_after_a_command_without_a_waiter_stops_the_next_block(child: SandboxProcess) -> None:
    for _ in range(5):
        child.send({"op": "check", "codes": [f"text = '{'y' * 100}'\n" * 3000]})
        child.begin("while True: pass")
        child.interrupt()
        assert child.answer()["type"] == "checked"
        assert child.done()["status"] == "interrupted"


def test_cancelled_work_is_put_down_with_its_block(child: SandboxProcess) -> None:
    wait = "    asyncio.get_running_loop().call_soon(print, 'go')\n    await asyncio.sleep(1000)"
    code = f"import asyncio\ntry:\n{wait}\nexcept asyncio.CancelledError:\n    print('tidied')"
    child.begin(code)
    assert child.heard("go")
    child.interrupt()
    assert child.done()["status"] == "interrupted"
    assert child.said().endswith("tidied\n")
    assert child.run("len(asyncio.all_tasks(asyncio.get_event_loop_policy().get_event_loop()))")["value"] == "0"
