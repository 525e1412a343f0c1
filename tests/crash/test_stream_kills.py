"""A process that runs a turn whose pieces are stored is killed at each of its writes, those of pieces included. A reader that comes back
with its last id has each answer whole and once, and knows which text is void."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import msgspec
from tests.crash.agent_scene import Death
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.crash.stream_scene import THREAD, Scene, answer, play, runtime_at
from tests.kit.waiting import eventually

from clicket.agents import AgentEvent
from clicket.agents.memory import PIECES


async def judged(place: Place) -> int:
    """Checks what the reader has; returns how many texts were void."""
    read = read_lines(Path(place.folder, "read"), AgentEvent)
    whole = ["".join(answer(number)) for number in range(100)]
    have: dict[int, str] = {}
    said: dict[int, str] = {}
    void = 0
    for event in read:
        if event.type == "delta" and event.data["kind"] == "text":
            assert event.step not in said, "a piece of an answer that the reader has"
            have[event.step] = have.get(event.step, "") + event.data["text"]
            assert any(text.startswith(have[event.step]) for text in whole), have[event.step]
        elif event.type == "restart":
            void += bool(have.pop(event.step, ""))
        elif event.type == "message" and event.data["role"] == "assistant":
            said[event.step] = event.data["text"]
            assert said[event.step].startswith(have.get(event.step, "")), "pieces of another answer"
    recorded = [event.id for event in read if event.id and event.type != "delta"]
    assert len(set(recorded)) == len(recorded)
    assert read[-1].type == "final"
    rt, agent = runtime_at(place)
    async with rt:
        (turn,) = (await agent.history(THREAD)).turns
        spoken = [message.content for message in turn.messages if message.role == "assistant"]
        assert list(said.values()) == spoken
        assert all(text in whole for text in spoken)
    return void


async def tidied(place: Place) -> None:
    """The next turn of the thread removes what is left of a turn whose process died at its end."""
    rt, agent = runtime_at(place)
    async with rt:
        await agent.run("again", thread=THREAD)

        async def is_tidy() -> bool:
            return not await rt.store.documents(PIECES)

        await eventually(is_tidy)


async def test_a_reader_has_each_answer_whole_and_once_whenever_the_process_is_killed(
    nest: Nest, tmp_path: Path
) -> None:
    killed = void = 0
    for number in count(1):
        folder = tmp_path / str(number)
        (folder / "logs").mkdir(parents=True)
        place = Place(store=f"sqlite:///{folder / 'calls.db'}", folder=str(folder / "logs"))
        ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place, death=Death(at=number))))
        if ending.signal != signal.SIGKILL:
            assert (ending.signal, ending.code) == (0, 0), ending
            await judged(place)
            break
        killed += 1
        again = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place, death=Death(at=number // 2 + 4))))
        killed += again.signal == signal.SIGKILL
        if again.signal == signal.SIGKILL:
            ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place)))
            assert (ending.signal, ending.code) == (0, 0), f"after the kills at {number}: {ending}"
        void += await judged(place)
        await tidied(place)
    assert killed >= 20, killed
    assert void >= 3, "readers had text that became void"
