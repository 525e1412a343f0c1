"""A turn whose process is killed after it found a tool goes on with the same tools on offer."""

from __future__ import annotations

import asyncio
import signal

import msgspec
from tests.crash.nest import Nest
from tests.crash.on_stores import on_stores
from tests.crash.settle import Place
from tests.crash.tool_search_scene import LAST, MESSAGE, THREAD, Death, Scene, agent_at, offered_in, play, runtime_at
from tests.kit.waiting import PATIENCE


@on_stores("death", ["request", "found", "tool"], "found")
async def test_the_same_tools_are_offered_after_a_kill(nest: Nest, place: Place, death: Death) -> None:
    ending = await nest.raise_child(play, msgspec.to_builtins(Scene(place=place, death=death)))
    assert ending.signal == signal.SIGKILL, ending
    before = offered_in(place)
    async with asyncio.timeout(PATIENCE), runtime_at(place) as rt:
        agent = agent_at(rt, place)
        result = await agent.run(MESSAGE, thread=THREAD)
        again = await agent.run("zzz and more", thread=THREAD)
        searches = (await rt.history(thread=THREAD, tool="find_tools")).items
    assert result.text == again.text == LAST
    assert len(searches) == 1, "the search is not repeated"
    after = offered_in(place)[len(before) :]
    steps = [line["step"] for line in after]
    assert steps == {"request": [2, 3, 4], "found": [2, 3, 4], "tool": [3, 4]}[death]
    assert before[0]["names"] == ["find_tools"]
    seen = {line["step"]: line["names"] for line in after}
    for line in before[1:]:
        assert line["names"] == seen.get(line["step"], line["names"])
    assert "paint_wall" in (seen.get(2) or before[1]["names"])
    assert "paint_wall" in seen[3]
    assert "paint_wall" in seen[4], "the thread keeps it"
    assert all(len(names) <= 5 for names in seen.values())
