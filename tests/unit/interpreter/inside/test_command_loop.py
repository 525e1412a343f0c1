"""The worker survives what programs do to its process, and exits cleanly where it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.unit.interpreter.inside.sandbox_process import BlockEnd, SandboxProcess, started

EACH = "for name in dir(module):\n    if not name.startswith('__'): setattr(module, name, None)"


def usable(child: SandboxProcess) -> bool:
    """Prints, computes and imports as before."""
    child.said(), child.said("stderr")
    done = child.run("import sys, fractions\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert (done["status"], done["value"], done["error"]) == ("ok", "42", None)
    return (child.said(), child.said("stderr")) == ("out\n", "err\n")


def test_ready_says_what_holds_and_which_python(child: SandboxProcess) -> None:
    assert child.ready == {"type": "ready", "layers": ["none"], "python": "{}.{}.{}".format(*sys.version_info[:3])}


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.close(0)\nos.close(1)\nos.close(2)",
        "import os\nos.dup2(os.open('taken', os.O_WRONLY | os.O_CREAT), 1)\nos.dup2(1, 2)",
        "import sys\nsys.stdout.close()\nsys.stderr.close()\nsys.stdin.close()",
        "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = None",
        "import sys\nsys.stdout.detach()\nsys.stderr.buffer.close()",
        "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-16')",
        "import sys\nsys.stdout.reconfigure(encoding='ascii', errors='strict', line_buffering=False)",
        "import os\nos.set_blocking(1, False)\nos.set_blocking(2, False)",
        "import os\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')",
        "import sys\nsys.setrecursionlimit(40)",
        "import sys\nsys.displayhook = sys.excepthook = sys.unraisablehook = None",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])",
        "globals().clear()",
        "import builtins\nvars(builtins).clear()",
        "import builtins, sys\nsys.modules.clear()\nsys.modules['sys'] = sys",
        "import sys\nsys.modules['__main__'] = sys",
        "import gc, sys\ngc.callbacks.append(lambda *a: sys.exit())\ngc.collect()\ngc.callbacks.clear()",
        "import atexit, time\natexit.register(time.sleep, 1000)",
        "import sys\nsys.exit(3)",
    ],
)
def test_the_next_block_stands_on_firm_ground(fresh: SandboxProcess, code: str) -> None:
    fresh.run(code)
    assert usable(fresh)


@pytest.mark.parametrize("module", "posix os _io io json _json _signal _thread select time _ast binascii".split())
def test_broken_modules_break_the_program_alone(fresh: SandboxProcess, module: str) -> None:
    """What the program replaced stays replaced, for the program; the worker keeps its own references."""
    fresh.run(f"import {module} as module\n{EACH}")
    assert fresh.run("x = [1]\nprint('out')\nx")["value"] == "[1]"
    assert fresh.run("1 / 0")["error"]["line"] == 1
    assert fresh.check("x = y")[0]["loads"] == ["y"]
    assert fresh.heard("out")


def test_broken_builtins_break_the_program_alone(fresh: SandboxProcess) -> None:
    fresh.run("import builtins\nfor name in list(vars(builtins)):\n    vars(builtins)[name] = None")
    done = fresh.run("x = 1\nprint(x)")
    assert (done["id"], done["status"], done["error"]["type"]) == (2, "error", "TypeError")
    assert fresh.run("x")["value"] == "1"


def test_without_sys_it_ends_or_goes_on(fresh: SandboxProcess) -> None:
    fresh.run(f"import sys as module\n{EACH}")
    try:
        assert fresh.run("x = 1")["id"] == 2
    except BlockEnd:
        assert fresh.exit_code() == 70


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os\nos._exit(7)", 7),
        ("import os\nos.abort()", -6),
        ("import ctypes\nctypes.string_at(0)", -11),
        ("import os\nos.closerange(3, 100)", 70),
        ("import sys\nframe = sys._getframe()\nwhile frame := frame.f_back:\n    frame.f_globals.clear()", 70),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
def test_what_cannot_be_survived_ends_at_once(fresh: SandboxProcess, code: str, status: int) -> None:
    fresh.run("import atexit, time\natexit.register(time.sleep, 1000)")
    with pytest.raises(BlockEnd):
        fresh.run(code)
    assert fresh.exit_code() == status


def test_trace_functions_are_removed_after_the_block(fresh: SandboxProcess) -> None:
    fresh.run(
        "import sys\nseen = []\ndef look(*a): seen.append(a[0].f_code.co_name)\nsys.settrace(look)\nsys.setprofile(look)"
    )
    assert fresh.run("sys.gettrace(), sys.getprofile()")["value"] == "(None, None)"
    assert fresh.run("{'serve', 'changes'} & set(seen)")["value"] == "set()"


def test_timers_and_handlers_end_with_their_block(fresh: SandboxProcess) -> None:
    code = "import signal\nsignal.alarm(1000)\nsignal.setitimer(signal.ITIMER_PROF, 1000)\nsignal.signal(signal.SIGINT, print)"
    fresh.run(f"{code}\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])")
    assert (
        fresh.run("signal.getitimer(signal.ITIMER_REAL)[0], signal.getitimer(signal.ITIMER_PROF)[0]")["value"]
        == "(0.0, 0.0)"
    )
    fresh.begin("print('go')\nwhile True: pass")
    assert fresh.heard("go")
    fresh.interrupt()
    assert fresh.done()["status"] == "interrupted"


def test_it_leaves_when_the_host_does(library: Path, tmp_path: Path) -> None:
    with started(library, tmp_path) as child:
        child.run("import atexit, threading, time\natexit.register(time.sleep, 1000)")
        child.run("threading.Thread(target=time.sleep, args=(1000,)).start()")
        assert child.run("")["threads"] == 1
        child.hang_up()
        assert child.exit_code() == 0


def test_a_forked_child_that_comes_back_ends_there(fresh: SandboxProcess) -> None:
    code = """
import os
print("before ", end="")
child = os.fork()
if not child:
    print("child ", end="")
    display("nowhere")
else:
    os.waitpid(child, 0)
"""
    assert fresh.run(code)["status"] == "ok"
    assert fresh.displays == []
    assert (fresh.said(), fresh.said("stderr")) == ("before child ", "")
    assert fresh.run("import os\nif not os.fork(): raise SystemExit(3)\nos.WEXITSTATUS(os.wait()[1])")["value"] == "3"
    assert fresh.run("if not os.fork(): 1 / 0\nos.WEXITSTATUS(os.wait()[1])")["value"] == "1"
    assert "ZeroDivisionError" in fresh.said("stderr")
    assert fresh.run("child = os.fork()\nif not child: os.fork()\nchild and os.waitpid(child, 0)[1]")["value"] == "0"
    assert usable(fresh)


def test_the_line_is_not_for_children(fresh: SandboxProcess) -> None:
    count = "import os; print(len(os.listdir('/proc/self/fd')))"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {count!r}], close_fds=False)"
    fresh.run(code)
    assert fresh.said() == "4\n"  # 0, 1, 2 and the folder being read


def test_processes_and_pools_work(child: SandboxProcess) -> None:
    code = """
import multiprocessing
def square(x): return x * x
with multiprocessing.get_context("fork").Pool(2) as pool:
    squares = pool.map(square, [1, 2, 3])
squares
"""
    assert child.run(code)["value"] == "[1, 4, 9]"


def test_threads_may_display(child: SandboxProcess) -> None:
    code = """
import threading
def show():
    for _ in range(20): display("x" * 5000)
threads = [threading.Thread(target=show) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"""
    assert child.run(code)["status"] == "ok"
    assert len(child.displays) == 80
    assert {len(frame["data"]) for frame in child.displays} == {5002}


def test_a_frame_is_not_torn_by_an_interrupt(fresh: SandboxProcess) -> None:
    fresh.begin("class Large:\n    def _repr_html_(self): return 'x' * 1_000_000\nwhile True: display(Large())")
    assert fresh.has_begun_to_answer()  # the pipe is full, so the frame is incomplete
    fresh.interrupt()
    assert fresh.done()["status"] == "interrupted"  # and every frame before it was complete


def test_the_work_folder_is_imported_from_and_shadows_only_the_program(fresh: SandboxProcess) -> None:
    (fresh.work / "mine.py").write_text("answer = 42")
    assert fresh.run("import mine\nmine.answer")["value"] == "42"
    for name in ("json", "select", "binascii", "linecache", "traceback", "io", "_symtable", "ctypes"):
        (fresh.work / f"{name}.py").write_text("raise RuntimeError('shadowed')")
    assert fresh.run("import json")["error"]["message"] == "shadowed"
    assert fresh.check("x = y")[0]["loads"] == ["y"]
    assert fresh.run("1 / 0")["error"]["line"] == 1
    assert fresh.run("display(1)")["status"] == "ok"
    for path in fresh.work.glob("*.py"):
        path.unlink()
    assert usable(fresh)


def test_nothing_of_ours_is_in_the_way(child: SandboxProcess) -> None:
    code = "import sys\n[name for name in sys.modules if 'clicket' in name], [p for p in sys.path if 'library' in p], sys.argv"
    assert child.run(code)["value"] == "([], [], [''])"


def test_a_block_that_is_looked_at_first_runs_only_when_it_compiles(fresh: SandboxProcess) -> None:
    def begin(code: str) -> dict[str, object]:
        fresh.send({"op": "exec", "code": code, "name": f"<{code}>", "check": True})
        return fresh.answer()

    result = begin("import os\nx = y = z")
    assert (result["type"], result["blocks"][0]["imports"], result["blocks"][0]["loads"]) == ("checked", ["os"], ["z"])  # type: ignore[index]
    assert fresh.done()["error"]["type"] == "NameError"
    result = begin("x = 1\nreturn x")
    assert result["blocks"][0]["error"]["type"] == "SyntaxError"  # type: ignore[index]
    assert fresh.run("'x' in globals()")["value"] == "False", "the answer is the next block's: nothing was run"
    assert begin("x = 1\nx")["blocks"][0]["stores"] == ["x"]  # type: ignore[index]
    assert fresh.done()["value"] == "1"


def test_preload(fresh: SandboxProcess) -> None:
    (fresh.work / "rude.py").write_text("raise SystemExit")
    fresh.send({"op": "preload", "modules": ["fractions", "xml.dom", "absent", "rude"]})
    assert fresh.answer()["modules"] == ["fractions", "xml.dom"]
    assert fresh.run("'fractions' in globals()")["value"] == "False"


def test_packages_and_paths_from_the_settings(library: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "added.py").write_text("here = True")
    with started(library, tmp_path, path=[str(extra)], packages=["numpy"]) as child:
        assert child.run(f"import sys\nsys.path.index({str(extra)!r}) > 0")["value"] == "True"
        assert child.run("import pandas")["error"]["type"] == "ModuleNotFoundError"
        assert child.run("import numpy, json, statistics")["status"] == "ok"
