"""A process that edits files is killed at every instant: each edit happens once, and its outcome is known."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec
import pytest
from tests.crash.agent_scene import Death
from tests.crash.nest import Nest
from tests.crash.settle import Place
from tests.crash.workspace_scene import EDITS, THREAD, Scene, agent_at, files_at, play, runtime_at

WANTED = {"a.txt": "begin\none\ntwo\nthree\nend\n", "c.txt": "c\n", "new/b.txt": "b\n"}


def made(folder: Path) -> Place:
    place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
    files = files_at(place)
    files.mkdir(parents=True)
    (files / "a.txt").write_text("begin\nend\n")
    (files / "c.txt").write_text("old\n")
    return place


def files_in(place: Place) -> dict[str, str]:
    root = files_at(place)
    return {str(each.relative_to(root)): each.read_text() for each in root.rglob("*") if each.is_file()}


async def judged(place: Place) -> None:
    assert files_in(place) == WANTED, "an edit is missing or happened twice, or something is left beside the files"
    async with runtime_at(place) as rt:
        agent = agent_at(rt, place)
        (turn,) = (await agent.history(THREAD)).turns
        assert (turn.stopped, turn.text) == ("finished", "done")
        failed = [message.content for message in turn.messages if message.failed]
        assert failed == [], "every outcome is known"
        assert sum(len(message.uses) for message in turn.messages) == sum(map(len, EDITS))


async def killed_everywhere(nest: Nest, folder: Path, scene_at: Callable[[Place, int], Scene]) -> int:
    for number in count(1):
        place = made(folder / str(number))
        ending = await nest.raise_child(play, msgspec.to_builtins(scene_at(place, number)))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place)
            return number - 1
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place)))
        assert (ending.signal, ending.code) == (0, 0), f"after the kill at {number}: {ending}"
        await judged(place)
    raise AssertionError


async def test_each_edit_happens_once_whatever_was_written_when_its_process_died(nest: Nest, tmp_path: Path) -> None:
    killed = await killed_everywhere(
        nest, tmp_path, lambda place, number: Scene(place=place, death=Death(at=number, side="any"))
    )
    assert killed >= 20, killed


async def test_each_edit_happens_once_wherever_in_an_edit_its_process_died(nest: Nest, tmp_path: Path) -> None:
    killed = await killed_everywhere(nest, tmp_path, lambda place, number: Scene(place=place, stroke=number))
    assert killed >= 40, killed


@pytest.mark.parametrize("other", ["somebody else's\n", None], ids=["written", "removed"])
async def test_an_edit_that_somebody_changed_after_the_crash_is_unknown(
    nest: Nest, tmp_path: Path, other: str | None
) -> None:
    """Neither the digest before nor the one after: the model reads that the outcome is not known."""
    unknown = 0
    for number in count(1):
        place = made(tmp_path / str(number))
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place, stroke=number)))
        if ending.signal != signal.SIGKILL:
            break
        target = files_at(place) / "a.txt"
        target.unlink() if other is None else target.write_text(other)
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place)))
        assert (ending.signal, ending.code) == (0, 0), ending
        assert files_in(place).get("a.txt") == other, "nothing is written over what somebody else has written"
        async with runtime_at(place) as rt:
            (turn,) = (await agent_at(rt, place).history(THREAD)).turns
        doubts = [message.content for message in turn.messages if "outcome_unknown" in message.content]
        assert len(doubts) <= 1
        if doubts:
            unknown += 1
            assert "'a.txt' has the digest" in doubts[0]
            if unknown == 2:
                return
    raise AssertionError(f"{unknown} outcomes are unknown")


async def test_a_command_that_ran_when_its_process_died_is_unknown_and_not_run_again(
    nest: Nest, tmp_path: Path
) -> None:
    place = made(tmp_path)
    files = files_at(place)
    if os.geteuid() == 0:  # else the command would have to run as root
        os.chown(files, 4321, 4321)
    command = "echo ran >> ran.txt; sleep 600; echo late >> ran.txt"
    first = Scene(place=place, command=command, dies=True)
    ending = await nest.raise_child(play, msgspec.to_builtins(first))
    assert ending.signal == signal.SIGKILL
    ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place, command=command)))
    assert (ending.signal, ending.code) == (0, 0), ending
    assert (files / "ran.txt").read_text() == "ran\n"
    async with runtime_at(place) as rt:
        (turn,) = (await agent_at(rt, place, command).history(THREAD)).turns
    (seen,) = [message.content for message in turn.messages if message.role == "tool"]
    assert seen.startswith("outcome_unknown: ")
    assert turn.text == "done"
