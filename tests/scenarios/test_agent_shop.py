"""Scripted support agents of a shop and an airline: the final state equals that of the same calls made directly, also when another
runtime continues a turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from tests.scenarios.agent_kit import Gate, check_pairs
from tests.scenarios.agent_shop import CHANGING, LOOKING, Shop, Task, direct, tasks, tools
from tests.scenarios.kit import make

from clicket.agents import AgentResult, ReActAgent
from clicket.model.chat import ChatReply, ChatRequest
from clicket.testing import ScriptedModel

TASKS = tasks(7, 60)


def scripted(task: Task) -> ScriptedModel:
    """Continues after a restart where it was: the transcript determines the next answer."""
    return ScriptedModel([*task, "Done."], position="transcript")


def check(task: Task, shop: Shop, result: AgentResult) -> None:
    wanted = direct(task)
    assert shop.state() == wanted.state()
    assert (result.stopped, result.steps, result.calls) == ("finished", len(task) + 1, sum(map(len, task)))
    check_pairs(result.messages)
    answers = [message for message in result.messages if message.role == "tool"]
    assert len(answers) == result.calls
    changed = sum(
        1 for use, answer in zip(_uses(result), answers, strict=True) if not answer.failed and use in CHANGING
    )
    assert changed == len(shop.log)


def _uses(result: AgentResult) -> list[str]:
    return [use.name for message in result.messages for use in message.uses]


async def test_what_agents_leave_behind_equals_direct_execution(store: str) -> None:
    shops = {f"task-{number}": Shop() for number in range(len(TASKS))}
    async with make(tools(shops), store) as rt:

        async def carry_out(number: int, task: Task) -> None:
            agent = ReActAgent(rt, scripted(task), name=f"a{number}", max_repeats=None)
            check(task, shops[f"task-{number}"], await agent.run("Please.", thread=f"task-{number}"))

        await asyncio.gather(*(carry_out(number, task) for number, task in enumerate(TASKS)))


class Halts(ScriptedModel):
    """Waits before one of the answers, until it is stopped."""

    def __init__(self, task: Task, step: int) -> None:
        super().__init__([*task, "Done."], position="transcript")
        self.step = step
        self.gate = Gate()

    async def chat(self, request: ChatRequest) -> ChatReply:
        if sum(message.role == "assistant" for message in request.messages) == self.step:
            await self.gate()
        return await super().chat(request)


async def test_the_same_when_the_runtime_was_closed_in_the_middle(sqlite: str) -> None:
    chance = Random(3)
    shops = {f"task-{number}": Shop() for number in range(len(TASKS))}
    halts = [Halts(task, chance.randint(0, len(task))) for task in TASKS]
    async with make(tools(shops), sqlite, close_timeout=0.0) as rt:
        for number, model in enumerate(halts):
            await ReActAgent(rt, model, name=f"a{number}", max_repeats=None).begin("Please.", thread=f"task-{number}")
        for model in halts:
            await model.gate.reached.wait()
    between = [len(shop.log) for shop in shops.values()]
    async with make(tools(shops), sqlite) as rt:

        async def go_on(number: int, task: Task) -> None:
            agent = ReActAgent(rt, scripted(task), name=f"a{number}", max_repeats=None)
            result = await agent.resume(f"task-{number}")
            assert result is not None
            check(task, shops[f"task-{number}"], result)

        await asyncio.gather(*(go_on(number, task) for number, task in enumerate(TASKS)))
    assert sum(between) > 0
    assert sum(len(shop.log) for shop in shops.values()) > sum(between)


async def test_closed_again_and_again_at_every_step(sqlite: str) -> None:
    task = max(TASKS, key=lambda task: len(direct(task).log))
    shops = {"t": Shop()}
    for step in range(len(task) + 1):
        model = Halts(task, step)
        async with make(tools(shops), sqlite, close_timeout=0.0) as rt:
            agent = ReActAgent(rt, model, max_repeats=None)
            if step == 0:
                await agent.begin("Please.", thread="t")
            else:
                assert await agent.take_up("t") == 1
            await model.gate.reached.wait()
    async with make(tools(shops), sqlite) as rt:
        result = await ReActAgent(rt, scripted(task), max_repeats=None).resume("t")
        assert result is not None
        check(task, shops["t"], result)


def test_the_tasks_try_everything() -> None:
    """Every tool is used, some calls succeed, some rules refuse, and tasks have different final states."""
    used = Counter(name for task in TASKS for step in task for name, _ in step)
    assert set(used) == {*LOOKING, *CHANGING}
    logs = [direct(task).log for task in TASKS]
    assert {line.split(" ", maxsplit=1)[0] for log in logs for line in log} == {
        "place", "pay", "cancel", "return", "exchange", "move", "book", "bags",
    }  # fmt: skip
    changes = sum(used[name] for name in CHANGING)
    assert 0.25 * changes < sum(map(len, logs)) < 0.75 * changes
    assert len({tuple(log) for log in logs}) > 50


def test_a_call_that_ran_twice_would_be_seen() -> None:
    once, twice = Shop(), Shop()
    once.change_address("u1", "Rome")
    twice.change_address("u1", "Rome")
    twice.change_address("u1", "Rome")
    assert once.state() != twice.state()
    with pytest.raises(ValueError, match="cancelled already"):
        once.cancel_booking("b1")
        once.cancel_booking("b1")
