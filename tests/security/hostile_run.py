"""`python hostile_run.py JSON`: run hostile programs in one tier, as the user who starts this, and print each outcome.

For every program: its result, whether a variable set before it still exists, whether a concurrent session still works, and what
was left on the host once everything was closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # wherever clicket is installed from

from tests.security.hostile_programs import FENCES, PROGRAMS, Hostile

from clicket.interpreter import Interpreter  # after sys.path is set
from clicket.interpreter.setup.session_factory import SessionFactory
from clicket.sandbox import Limits

MIB = 1024 * 1024
MARK = "canary-of-the-host"
LIMITS = Limits(memory=256 * MIB, processes=64, file_size=16 * MIB, disk=16 * MIB, files=2_000, scratch=16 * MIB)
AT_ONCE = 3
WITHOUT = {
    "full": (),
    "partial": ("namespaces",),
    "process": ("namespaces", "identity", "seccomp", "landlock", "cgroup"),
}


@contextmanager
def canaries() -> Iterator[dict[str, Any]]:
    """What a program could reach if the sandbox did not stop it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="canary-")))
        folder.chmod(0o777)
        secret = folder / "secret"
        secret.write_text(MARK)
        secret.chmod(0o644)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        unix.listen()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{MARK}-{os.getpid()}")
        abstract.listen()
        victim = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(600)", MARK])
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield {
            "SECRET": str(secret), "FOLDER": str(folder), "ENV": MARK + "-env", "HOST": os.getpid(), "VICTIM": victim.pid,
            "TCP": tcp.getsockname()[1], "UDP": udp.getsockname()[1], "UNIX": str(folder / "socket"),
            "ABSTRACT": f"{MARK}-{os.getpid()}",
        }  # fmt: skip
        assert victim.poll() is None, "a program killed a process of the host"
        made = sorted(p.name for p in folder.iterdir())
        assert set(made) <= {"secret", "socket", "mine", "renamed"}, made
        assert secret.read_text() == MARK


def filled(program: Hostile, names: dict[str, Any]) -> str:
    if "{" not in program.code or not any(f"{{{name}" in program.code for name in names):
        return program.code.replace("{{", "{").replace("}}", "}") if "{{" in program.code else program.code
    code = program.code
    for name, value in names.items():
        code = code.replace(f"{{{name}!r}}", repr(value)).replace(f"{{{name}}}", str(value))
    return code.replace("{{", "{").replace("}}", "}")


class Sessions:
    """The sessions of all programs, in one sandbox, as those of a server: what a program leaves there would meet the next one."""

    def __init__(self, tier: str) -> None:
        # An interruptible program need not run to its end, however busy the machine is: it gets more time to stop.
        self._factories = {patient: _factory(tier, 5.0 if patient else 0.3) for patient in (True, False)}

    def interpreter(self, program: Hostile) -> Interpreter:
        start = self._factories[bool(program.kept)]
        return Interpreter(start=start, timeout=program.timeout, limits=start.limits, max_output=16 * MIB)

    async def close(self) -> None:
        for factory in self._factories.values():
            await factory.close()


def _factory(tier: str, grace: float) -> SessionFactory:
    return SessionFactory(require=tier, without=WITHOUT[tier], grace=grace, limits=LIMITS, max_output=16 * MIB)


async def one(program: Hostile, sessions: Sessions, names: dict[str, Any]) -> dict[str, Any]:
    async with sessions.interpreter(program) as ci:
        before = await ci.run("kept_from_before = 41")
        assert before.status == "ok", before
        code = filled(program, names)
        r = await ci.run(f"````python\n{code}\n````" if "```" in code else code)
        after = await ci.run("print(globals().get('kept_from_before', 'nothing'))")
        again = await ci.run("print('still here')")
        if "still here" not in again.stdout:  # it broke its own session: then a new one must work
            await ci.reset()
            again = await ci.run("print('still here')")
        return {
            "name": program.name,
            "status": r.status,
            "reason": r.reason,
            "stdout": r.stdout[:2_000],
            "stderr": r.stderr[-1_000:],
            "size": len(r.stdout),
            "error": None if r.error is None else r.error.type,
            "message": None if r.error is None else r.error.message[:500],
            "kept": "41" in after.stdout,
            "usable": "still here" in again.stdout,
            "level": r.isolation.level,
            "files": [file.name for file in r.files],
        }


async def run(tier: str, wanted: list[str]) -> dict[str, Any]:
    programs = [p for p in (PROGRAMS if tier == "full" else FENCES) if not wanted or p.name in wanted]
    programs = [p for p in programs if tier in p.held_by or not p.dangerous]
    beside = Interpreter(require=tier, without=WITHOUT[tier], grace=0.3, limits=LIMITS)
    sessions = Sessions(tier)
    gate = asyncio.Semaphore(AT_ONCE)

    async def gated(program: Hostile) -> dict[str, Any]:
        async with gate:
            try:
                return await one(program, sessions, names)
            except Exception as error:
                return {"name": program.name, "broken": f"{type(error).__name__}: {error}"}

    with canaries() as names:
        async with beside:
            await beside.run("neighbour = 'unharmed'")
            try:
                results = await asyncio.gather(*map(gated, programs))
                for at, program in enumerate(programs):
                    # The kernel counts the processes of a user: a program may have found the limit used up by another one beside it.
                    if tier != "full" and results[at].get("error") == "BlockingIOError":
                        results[at] = await gated(program)
            finally:
                await sessions.close()
            neighbour = await beside.run("print(neighbour)")
    return {"results": results, "neighbour": neighbour.stdout.strip(), "uid": os.getuid()}


def main() -> None:
    asked = json.loads(sys.argv[1])
    os.environ["CLICKET_CANARY"] = MARK + "-env"
    found = asyncio.run(run(asked["tier"], asked.get("programs", [])))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
