"""Kills Ray workers, Ray nodes, the head nodes of Ray clusters and Temporal workers under calls, and judges the outcomes of the calls.

    python scripts/engines_crash.py [--runs 20] [--seed 1] [--only workers|nodes|heads|temporal]

Each run kills once, at a random moment, under a payment and under a call that may be repeated. A payment ends as charged or as
`outcome_unknown`, and its body ran at most once; the other call completes. A killed head node comes back as another cluster; there are
a fifth as many of these runs, half of them over `ray://`. `make test-engines` runs it in its environment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a-token-for-the-crashes-of-engines"
)


from tests.engines.engine_tools import RAY_TOOLS, runs  # noqa: E402
from tests.engines.programs import kill, start_program, temporal_server  # noqa: E402
from tests.engines.ray_head import RayHead  # noqa: E402
from tests.kit.waiting import eventually  # noqa: E402

from clicket import Runtime  # noqa: E402 - the paths above come first
from clicket.model import Record  # noqa: E402

PAID = 3.0
"""Seconds of a payment: a kill may come before or after its end."""
PATIENCE = 90.0


def judge(found: Counter[str], record: Record | None, bodies: int, *, payment: bool) -> None:
    """Count violations, and the outcomes of a call."""
    if record is None or not record.state.is_terminal:
        found["lost"] += 1
        return
    ends = [event for event in record.events if event.state.is_terminal and event.type == "state_changed"]
    found["double outcomes"] += len(ends) != 1
    code = record.error.code if record.error is not None else str(record.state)
    found[f"{'payment' if payment else 'repeatable'}: {code}"] += 1
    if payment:
        found["repeated"] += bodies > 1
        found["wrong"] += code not in ("completed", "outcome_unknown") or (code == "completed" and bodies != 1)
    else:
        found["wrong"] += code != "completed"


async def ray_kills(count: int, chance: random.Random, folder: Path, found: Counter[str], *, nodes: bool) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0 if nodes else 2, "include_dashboard": False})
    try:
        async with Runtime(tools=RAY_TOOLS, store=f"sqlite:///{folder}/ray.db", ray=cluster.address) as rt:
            node = _add_node(cluster) if nodes else None
            for number in range(count):
                paths = [folder / f"{number}-pay", folder / f"{number}-fetch"]
                handles = [
                    await rt.submit("charge", {"path": str(paths[0]), "seconds": PAID}),
                    await rt.submit("fetch", {"path": str(paths[1])}),
                ]
                for path in paths:
                    await eventually(lambda path=path: runs(path), timeout=PATIENCE)  # type: ignore[misc]
                pids = [runs(path)[0] for path in paths]
                await asyncio.sleep(chance.uniform(0, 0.4))
                if nodes:
                    await asyncio.to_thread(cluster.remove_node, node, False)
                    node = _add_node(cluster)
                else:
                    for pid in pids:
                        os.kill(pid, signal.SIGKILL)
                for handle, path, payment in zip(handles, paths, (True, False), strict=True):
                    with contextlib.suppress(TimeoutError):
                        await handle.result(timeout=PATIENCE)
                    judge(found, await rt.get(handle.id), len(runs(path)), payment=payment)
    finally:
        cluster.shutdown()


async def head_kills(count: int, chance: random.Random, folder: Path, found: Counter[str]) -> None:
    """Over `ray://` the runtime goes on. Ray ends a process with a direct connection, and another one settles its calls."""
    for number in range(count):
        place, client = folder / str(number), number % 2 == 0
        place.mkdir()
        store, head = f"sqlite:///{place}/calls.db", RayHead(client=client)
        try:
            head.start()
            caller = start_program("ray_caller.py", head.address, store, str(place), "submit")
            await asyncio.sleep(chance.uniform(0, 0.4))
            head.kill()
            if not client:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(caller.wait, PATIENCE)
                kill(caller)
            head.start()
            if not client:
                caller = start_program("ray_caller.py", head.address, store, str(place), "settle")
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(caller.wait, PATIENCE)
            kill(caller)
            async with Runtime(store=store) as rt:
                for tool in ("charge", "fetch"):
                    judge(found, await rt.get(tool), len(runs(place / tool)), payment=tool == "charge")
        finally:
            head.close()


def _add_node(cluster: Any) -> Any:
    """A node with two CPUs. On a busy machine Ray may give up while it starts."""
    for tries_left in reversed(range(5)):
        try:
            return cluster.add_node(num_cpus=2)  # sets signal handlers, so it must run in the main thread
        except Exception:
            if not tries_left:
                raise
    return None


async def temporal_kills(count: int, chance: random.Random, folder: Path, found: Counter[str]) -> None:
    from temporalio.client import Client, WorkflowFailureError

    store = f"sqlite:///{folder}/temporal.db"
    with temporal_server(folder) as address:
        client = await Client.connect(address)
        worker = start_program("temporal_worker.py", address, store)
        try:
            for number in range(count):
                paths = [folder / f"{number}-pay", folder / f"{number}-look"]
                arguments: list[dict[str, Any]] = [{"path": str(paths[0]), "seconds": PAID}, {"path": str(paths[1])}]
                started = [
                    await client.start_workflow("Order", args=[tool, given], id=str(uuid4()), task_queue="tools")
                    for tool, given in zip(("pay", "look_up"), arguments, strict=True)
                ]
                for path in paths:
                    await eventually(lambda path=path: runs(path), timeout=PATIENCE)  # type: ignore[misc]
                await asyncio.sleep(chance.uniform(0, 0.6))
                kill(worker)
                worker = start_program("temporal_worker.py", address, store)
                for run, path, payment in zip(started, paths, (True, False), strict=True):
                    with contextlib.suppress(WorkflowFailureError, TimeoutError):
                        await asyncio.wait_for(run.result(), PATIENCE)
                    async with Runtime(store=store) as rt:
                        items = (await rt.history(thread=run.id)).items
                    judge(found, items[0] if len(items) == 1 else None, len(runs(path)), payment=payment)
        finally:
            kill(worker)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["workers", "nodes", "heads", "temporal"])
    given = parser.parse_args()
    counts = {"heads": max(2, given.runs // 5)}
    kinds: dict[str, Callable[[random.Random, Path, Counter[str]], Awaitable[None]]] = {
        "workers": lambda chance, folder, found: ray_kills(given.runs, chance, folder, found, nodes=False),
        "nodes": lambda chance, folder, found: ray_kills(given.runs, chance, folder, found, nodes=True),
        "heads": lambda chance, folder, found: head_kills(counts["heads"], chance, folder, found),
        "temporal": lambda chance, folder, found: temporal_kills(given.runs, chance, folder, found),
    }
    bad = 0
    for name, kind in kinds.items():
        if given.only not in (None, name):
            continue
        found: Counter[str] = Counter({"lost": 0, "repeated": 0, "double outcomes": 0, "wrong": 0})
        with tempfile.TemporaryDirectory(prefix="clicket-engines-") as folder:
            await kind(random.Random(given.seed), Path(folder), found)
        print(
            f"{name}: {counts.get(name, given.runs)} kills: "
            + ", ".join(f"{what} {number}" for what, number in found.items()),
            flush=True,
        )
        bad += found["lost"] + found["repeated"] + found["double outcomes"] + found["wrong"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
