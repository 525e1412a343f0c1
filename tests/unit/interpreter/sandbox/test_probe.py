"""The probe finds the layers that work here; below the required level nothing runs."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest
from tests.security.as_user import ROOT, as_user
from tests.unit.interpreter.sandbox.sandboxed import IS_ROOT, SYSTEM_PYTHON, sandbox, sandboxed, start

from clicket.interpreter.sandbox import (
    LAYERS,
    NotIsolated,
    SandboxFailed,
    boot_config,
    probe,
)


async def test_below_the_required_level_nothing_runs() -> None:
    async with sandbox(without=["namespaces"]) as made:
        assert (await made.isolation()).level == "partial"
        with pytest.raises(NotIsolated, match=r"'partial', and 'full' is required.*namespaces: .*require='partial'"):
            await made.start("clicket.interpreter.sandbox.probe_program", {"hidden": "/", "orphan": False})


@pytest.mark.parametrize(
    ("without", "level"),
    [
        (("namespaces",), "partial"),
        (("identity",), "partial"),
        (("namespaces", "subreaper"), "process"),
        (("seccomp",), "process"),
        (tuple(LAYERS), "none"),
    ],
)
async def test_each_tier_runs_and_says_what_it_lacks(without: tuple[str, ...], level: str) -> None:
    async with sandboxed(without=without, require="none") as program:
        assert program.process.isolation.level == level
        assert not set(program.process.isolation.layers) & set(without)
        for name in set(without) - {"subreaper"}:
            assert any(gap.startswith(f"{name}:") for gap in program.process.isolation.gaps)
        await program.run("open('here.txt', 'w').write('x')")
        assert (program.process.work / "here.txt").exists()


async def test_without_namespaces_the_files_of_the_host_are_still_closed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    async with sandboxed(without=["namespaces"], require="partial") as program:
        assert program.process.home == str(program.process.work)
        for path in ("/etc/shadow", str(tmp_path / "secret"), str(Path(__file__))):
            with pytest.raises(RuntimeError, match="PermissionError"):
                await program.run(f"open({path!r})")
        assert await program.run("import tempfile; value = tempfile.TemporaryFile().write(b'abc')") == 3


@pytest.mark.skipif(not IS_ROOT, reason="who is not root has no other user to give")
async def test_below_a_supervisor_a_program_of_roots_is_another_user_where_that_one_can_read_the_interpreter() -> None:
    async with sandboxed(without=["namespaces"], require="partial", python=SYSTEM_PYTHON) as program:
        assert "identity" in program.process.isolation.layers
        assert await program.run("import os; value = os.getuid()") == program.process.uid != 0
        powers = await program.run(
            "value = [l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')]"
        )
        assert powers == ["0" * 16]


async def test_a_bubblewrap_that_does_not_work_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with sandboxed(require="partial") as program:
        assert program.process.isolation.level == "partial"
        assert any("setting up uid map: Permission denied" in gap for gap in program.process.isolation.gaps)
    broken.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    async with sandbox() as made:
        assert any("package bubblewrap" in gap for gap in (await made.isolation()).gaps)


async def test_a_layer_that_does_not_hold_is_done_without_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_known", {})
    monkeypatch.setattr(boot_config, "_seccomp", lambda *_, **__: "00")  # a filter that the kernel refuses
    async with sandbox() as made:
        found = await made.isolation()
        assert found.level == "process"
        assert "seccomp" not in found.layers
        assert {"namespaces", "landlock", "rlimits"} <= set(found.layers)
        assert sum(gap.startswith("seccomp:") for gap in found.gaps) == 2, "its message, and the gap that it leaves"
        with pytest.raises(NotIsolated, match="seccomp"):
            await start(made)


async def test_elsewhere_than_on_linux_little_is_there_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "pidfd_open")
    async with sandboxed(require="process") as program:
        assert program.process.isolation.level == "process"
        assert any(gap.startswith("system:") and "darwin" in gap for gap in program.process.isolation.gaps)
        assert await program.run("value = 1") == 1
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("clicket-sandbox-exit")]


async def test_a_failed_probe_is_repeated_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_memory(*_: object) -> None:
        raise SandboxFailed("no memory just now.")

    monkeypatch.setattr(probe, "_known", {})
    async with sandbox() as made:
        with monkeypatch.context() as short:
            short.setattr(probe, "_run_probe", no_memory)
            found = await made.isolation()
            assert found.level == "none"
            assert any("no memory just now" in gap for gap in found.gaps)
        assert (await made.isolation()).level == "none"
        monkeypatch.setattr(probe, "_RETRY_AFTER", 0.0)
        assert (await made.isolation()).level == "full"


USER = """
import asyncio, json, sys
from tests.unit.interpreter.sandbox.sandboxed import sandboxed

async def main():
    async with sandboxed(without=sys.argv[1].split(), require="none") as program:
        found = await program.run('''
import os
open("mine", "w").close()
def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "worked"
value = dict(uid=os.getuid(), pid=os.getpid(), shadow=tried(lambda: open("/etc/passwd-")), root=tried(lambda: os.listdir("/home")),
             powers=[l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0],
             socket=tried(lambda: __import__("socket").socket()))
''')
        print(json.dumps([program.process.isolation.level, program.process.isolation.gaps, found]))

asyncio.run(main())
"""


@pytest.mark.parametrize(("without", "level"), [("", "full"), ("namespaces", "partial")])
def test_an_ordinary_user_gets_the_same_levels(without: str, level: str) -> None:
    environment = {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = as_user([sys.executable, "-c", USER, without], env=environment)
    assert done.returncode == 0, done.stderr
    found_level, gaps, found = json.loads(done.stdout)
    assert found_level == level, gaps
    assert found["socket"] == "OSError"
    assert found["powers"] == "0" * 16
    if level == "full":
        assert (found["uid"], found["pid"]) == (1000, 2)
        assert found["shadow"] == found["root"] == "FileNotFoundError"
    else:
        assert found["root"] == "PermissionError"
