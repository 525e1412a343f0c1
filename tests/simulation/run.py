"""`python -m tests.simulation.run --seeds 0:1000`: run seeds, print what is wrong. One seed: `--seed 17 --timeline`."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.simulation import knobs, places, timeline
from tests.simulation.cluster import Cluster
from tests.simulation.features import Features
from tests.simulation.focus import focus_of
from tests.simulation.judging import check
from tests.simulation.places import template
from tests.simulation.reached import FIRED
from tests.simulation.world import World

__all__ = ["Outcome", "run_seed", "run_seeds"]

_BATCH = 60
"""Seeds of a process: the first one of each loads what the product loads late, and memory grows by a megabyte with each."""
_MOST_SECONDS = 120
"""Of the processor; a seed takes a quarter of one. A callback that never returns is ended by this alone."""
_SAY_EVERY = 60.0
"""Seconds between two lines of progress."""
_graveyard: list[Any] = []
"""Worlds that are over. Nothing of a crashed process may be freed: its `finally` blocks would run."""


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a seed."""

    seed: int
    problems: list[str] = []
    steps: int = 0
    calls: int = 0
    acks: int = 0
    faults: dict[str, int] = {}
    reached: list[int] = []
    """Places of mutants, if there are probes at them (`reached.py`)."""


def run_seed(seed: int, *, trace: bool = False, keep: Collection[int] | None = None) -> tuple[World, Cluster]:
    """In this process, which must end without a clean-up (`os._exit`)."""
    knobs.turn(seed)
    world = World(seed, trace=trace)
    wanted = Features(seed).focus.members
    members = wanted[seed // 4 % len(wanted)] if wanted else 1 if seed % 4 else 2 + seed // 4 % 4
    cluster = Cluster(world, members=members, calls=8 if members == 1 else 16, keep=keep)
    _graveyard.append((world, cluster))
    try:
        world.run(cluster.run())
    except Exception:
        world.wrong("the world goes on", traceback.format_exc(limit=-4))
    check(cluster)
    cluster.stored_calls = sum(1 for _ in cluster.place.calls())
    if not trace:
        cluster.place.close()
    return world, cluster


def outcome_of(seed: int) -> Outcome:
    FIRED.clear()
    world, cluster = run_seed(seed)
    return Outcome(
        seed=seed, problems=world.problems, steps=world.loop.steps, calls=cluster.stored_calls, acks=len(cluster.scene.acks),
        faults=dict(cluster.faults), reached=sorted(FIRED),
    )  # fmt: skip


def run_seeds(seeds: Sequence[int], jobs: int = 2, *, until: float = float("inf")) -> Iterator[Outcome]:
    """Each batch in a forked process; no batch begins after `until`, by `time.monotonic`. A seed that ends its process, or takes more than
    `_MOST_SECONDS`, is a finding, and the rest of its batch goes on in another one."""
    template()  # once, and removed by this process
    at = 0
    running: list[tuple[int, int, Sequence[int]]] = []
    while at < len(seeds) or running:
        while at < len(seeds) and len(running) < jobs:
            running.append(_fork(seeds[at : at + _BATCH]))
            at += _BATCH if time.monotonic() < until else len(seeds)
        pid, pipe, batch = running.pop(0)
        ran = 0
        with os.fdopen(pipe, "rb") as file:
            for line in file:
                ran += 1
                yield msgspec.json.decode(line, type=Outcome)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            rule = "everything ends" if status == -signal.SIGPROF else "the world goes on"
            yield Outcome(seed=batch[ran], problems=[f"{rule}: the process of the seed ended with {status}"])
            if batch[ran + 1 :]:
                running.insert(0, _fork(batch[ran + 1 :]))


def _fork(seeds: Sequence[int]) -> tuple[int, int, Sequence[int]]:
    read, write = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read, seeds
    code = 1
    gc.disable()  # nothing of a world that is over may be freed, so there is nothing to collect
    try:
        os.close(read)
        with os.fdopen(write, "wb") as file:
            for seed in seeds:
                signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
                file.write(msgspec.json.encode(outcome_of(seed)) + b"\n")
                file.flush()
        code = 0
    except BrokenPipeError:
        pass  # the one that reads has seen enough
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def kept_outcome(seed: int, keep: Sequence[int] | None) -> tuple[int, set[str]]:
    """In a forked process: how much the seed plans, and the rules that are broken when only `keep` of it happens."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            world, cluster = run_seed(seed, keep=keep)
            rules = sorted({problem.partition(":")[0] for problem in world.problems})
            os.write(write, json.dumps([cluster.planned, rules]).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        planned, rules = json.loads(file.read())
    os.waitpid(pid, 0)
    return planned, set(rules)


def shrunk(seed: int) -> list[int]:
    """The least of what a seed plans that still breaks one of its rules: halves are left out, then quarters, then single ones."""
    planned, rules = kept_outcome(seed, None)
    keep, size = list(range(planned)), max(planned // 2, 1)
    while rules and size:
        for at in range(0, len(keep), size):
            less = keep[:at] + keep[at + size :]
            if len(less) < len(keep) and kept_outcome(seed, less)[1] & rules:
                keep = less
                break
        else:
            size //= 2
    return keep


def numbers(text: str) -> Sequence[int]:
    """Of `FIRST:END`, or of some with commas between them."""
    first, colon, last = text.partition(":")
    return range(int(first), int(last)) if colon else [int(each) for each in text.split(",") if each]


def focused(seeds: Sequence[int], word: str) -> Sequence[int]:
    """Those that turn to a rare combination with this word in its name; all, without a word."""
    return [seed for seed in seeds if (found := focus_of(seed)) and word in found.name] if word else seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="FIRST:END, or numbers: 3,7,8")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="as many seeds as fit, from a first one that no former run had")
    parser.add_argument("--seed", type=int, help="show what happens in one seed")
    parser.add_argument("--trace", action="store_true", help="of one seed, every callback too")
    parser.add_argument("--shrink", action="store_true", help="leave out all that the finding does not need")
    parser.add_argument("--keep", help="of what the seed plans, the numbers that happen: 3,7,8")
    parser.add_argument("--html", type=Path, help="write the timeline of the seed as a page")
    parser.add_argument("--until-bad", action="store_true", help="stop at the first bad seed, and print it as JSON")
    parser.add_argument("--focus", default="", help="only seeds that turn to a rare combination with this in its name")
    parser.add_argument(
        "--store", choices=("model", "sqlite", "disk"), help="of every seed; disk: SQLite on a disk that fails"
    )
    given = parser.parse_args()
    places.only[:] = [given.store] if given.store else []
    if given.seed is not None:
        keep = None if given.keep is None else [int(each) for each in given.keep.split(",") if each]
        if given.shrink:
            keep = shrunk(given.seed)
            print(f"--seed {given.seed} --keep {','.join(map(str, keep))}")
        show(given.seed, keep, given.html, trace=given.trace)
    seeds, ends = focused(numbers(given.seeds), given.focus), float("inf")
    if given.minutes is not None:
        start = int(time.time()) * 1_000
        seeds, ends = range(start, start + 10_000_000), time.monotonic() + given.minutes * 60
    began, ran, bad, steps, kinds = time.perf_counter(), 0, 0, 0, Counter[str]()
    said = began
    for outcome in run_seeds(seeds, given.jobs, until=ends):
        steps += outcome.steps
        ran += 1
        if not given.until_bad and time.perf_counter() > said + _SAY_EVERY:
            said = time.perf_counter()
            print(f"{ran} seeds, {bad} bad, {ran / (said - began):.1f} seeds/s", file=sys.stderr, flush=True)
        if given.until_bad and outcome.problems:
            found = {"seed": outcome.seed, "problems": outcome.problems[:3]}
            print(json.dumps(found))
            sys.stdout.flush()
            os._exit(0)
        if outcome.problems:
            bad += 1
            kinds.update({problem.partition(":")[0] for problem in outcome.problems})
            if bad <= 12:
                print(f"seed {outcome.seed}:", *outcome.problems[:4], sep="\n    ", flush=True)
    if given.until_bad:
        print(json.dumps({"seed": None, "problems": []}))
        return
    took = time.perf_counter() - began
    print(json.dumps(kinds))
    print(
        f"{ran} seeds from {seeds[0]}, {bad} bad, {took:.1f} s, {ran / took:.1f} seeds/s, {steps / ran:.0f} steps a seed"
    )
    sys.exit(bad > 0)


def show(seed: int, keep: Collection[int] | None, html: Path | None, *, trace: bool) -> None:
    world, cluster = run_seed(seed, trace=True, keep=keep)
    if trace:
        print(*world.loop.trace or (), sep="\n")
    print(timeline.text(world, cluster))
    if html is not None:
        html.write_text(timeline.html(world, cluster), "utf-8")
    sys.stdout.flush()
    os._exit(1 if world.problems else 0)


if __name__ == "__main__":
    main()
