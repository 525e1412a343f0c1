"""A turn is interrupted, and goes on in a process with other code: for each thing that may have changed, what becomes of the turn.

The guide's table "Changing an agent while its turns run" says the same in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.redis_server import RedisServer
from tests.scenarios.agent_kit import Gate, Says, asks, called, check_pairs
from tests.scenarios.kit import make

from clicket import Policy, Runtime, tool
from clicket.agents import (
    AgentResult,
    AgentState,
    Check,
    Limits,
    Middleware,
    Pass,
    PlanExecuteAgent,
    ReActAgent,
    Refuse,
)
from clicket.errors import AgentBusy, AgentChanged
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel


def pay_with(effects: list[str]) -> Any:
    @tool
    async def pay(to: str) -> str:
        """Pays."""
        effects.append(to)
        return f"paid {to}"

    return pay


def pay_with_amount(effects: list[str]) -> Any:
    @tool
    async def pay(to: str, amount: int) -> str:
        """Pays an amount."""
        effects.append(f"{to} {amount}")
        return f"paid {to} {amount}"

    return pay


@tool
async def look_up(name: str) -> str:
    """Looks a name up."""
    return f"{name} is known"


class City(msgspec.Struct):
    city: str


class Town(msgspec.Struct):
    town: str


class Shouts(Middleware):
    def instructions(self, _: Any) -> str:
        return "SHOUT"


def refuses(_: Any, text: str) -> Any:
    return Refuse("not so") if text == "done" else Pass()


STEP_ON_RECORD = asks(("pay", '{"to": "ann"}'), ("look_up", '{"name": "ann"}'))
BOTH = ["look_up", "pay"]


class Upgrade(NamedTuple):
    """`before`, `after`: options of the agent that begins the turn and of the one that continues it. The turn has one step on record, which
    called `pay` and `look_up`. `changed`: what the entry says; None: there is none, the agent counts as the same. `offered`: tools of the
    next request. `then`: what the present model asks for, before it says `done`. `results`: codes of the results of that."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    changed: Mapping[str, Any] | None
    offered: Sequence[str] = BOTH
    then: Sequence[tuple[str, str]] = ()
    results: Sequence[str] = ()
    system: str = ""
    """How the instructions of the next request begin."""
    end: tuple[str, Any] = ("finished", "done")
    answer: str = "done"


UPGRADES: dict[str, Upgrade] = {
    "the prompt": Upgrade({"system": "A."}, {"system": "B."}, None, system="A"),
    "a prompt where there was none": Upgrade({}, {"system": "B."}, None),
    "the model": Upgrade({}, {"model_name": "another"}, None),
    "the prompt, and what it may do": Upgrade(
        {"system": "A."},
        {"system": "B.", "max_calls": 7},
        {"limits": {"max_calls": [200, 7]}, "system": "the recorded text is used"},
        system="A",
    ),
    "a tool more": Upgrade(
        {"tools": BOTH},
        {"tools": [*BOTH, "echo"]},
        {"tools": {"gone": [], "new": ["echo"]}},
        then=[("echo", '{"text": "x"}')],
        results=["permission_denied"],
    ),
    "a tool more in the runtime, which the agent offers wholly": Upgrade(
        {}, {"add": [echo]}, None, ["echo", *BOTH], [("echo", '{"text": "x"}')], ["completed"]
    ),
    "a tool less": Upgrade(
        {"tools": BOTH},
        {"tools": ["look_up"]},
        {"tools": {"gone": ["pay"], "new": []}},
        ["look_up"],
        [("pay", '{"to": "bob"}'), ("look_up", '{"name": "bob"}')],
        ["permission_denied", "completed"],
    ),
    "a tool less in the runtime": Upgrade(
        {}, {"without": ["pay"]}, None, ["look_up"], [("pay", '{"to": "bob"}')], ["tool_not_found"]
    ),
    "no tool in common": Upgrade(
        {"tools": BOTH}, {"tools": ["echo"]}, {"tools": {"gone": BOTH, "new": ["echo"]}}, [], [("echo", '{"text": "x"}')],
        ["permission_denied"],
    ),
    "a tool's schema": Upgrade(
        {}, {"pay": pay_with_amount}, None, BOTH, [("pay", '{"to": "bob"}'), ("pay", '{"to": "bob", "amount": 3}')],
        ["invalid_input", "completed"],
    ),
    "a type of answers": Upgrade(
        {}, {"output": City}, {"output": "the recorded type is used"}, answer="done"
    ),
    "another type of answers": Upgrade(
        {"output": City},
        {"output": Town},
        {"output": "the recorded type is used"},
        answer='{"city": "Rome"}',
        system="When you are done, answer with one JSON value that fits this JSON Schema, and with nothing else:\n"
        '{"title":"City","type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}',
        end=("finished", {"city": "Rome"}),
    ),
    "no type of answers": Upgrade(
        {"output": City},
        {},
        {"output": "the recorded type is used"},
        answer='{"city": "Rome"}',
        system="When you are done, answer with one JSON value that fits this JSON Schema, and with nothing else:\n"
        '{"title":"City","type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}',
        end=("finished", {"city": "Rome"}),
    ),
    "a handoff target gone": Upgrade(
        {"handoffs": ["billing"]},
        {},
        {"handoffs": [["billing"], []], "limits": {"max_handoffs": [5, None]}},
        then=[("hand_to_billing", '{"reason": "x"}')],
        results=["tool_not_found"],
    ),
    "a handoff target more": Upgrade(
        {},
        {"handoffs": ["billing"]},
        {"handoffs": [[], ["billing"]], "limits": {"max_handoffs": [None, 5]}},
        then=[("hand_to_billing", '{"reason": "x"}')],
        results=["permission_denied"],
    ),
    "a check more": Upgrade(
        {},
        {"checks": [Check(refuses, on="output")], "output_retries": 0},
        {"middleware": [[], ["output:refuses"]]},
        end=("refused", None),
    ),
    "a check less": Upgrade(
        {"checks": [Check(refuses, on="output")]}, {}, {"middleware": [["output:refuses"], []]}
    ),
    "middleware more": Upgrade({}, {"middleware": [Shouts()]}, {"middleware": [[], ["Shouts"]]}, system="SHOUT"),
    "middleware less": Upgrade({"middleware": [Shouts()]}, {}, {"middleware": [["Shouts"], []]}),
    "fewer steps": Upgrade({}, {"max_steps": 1}, {"limits": {"max_steps": [20, 1]}}),
    "more steps": Upgrade(
        {"max_steps": 2},
        {"max_steps": 9},
        {"limits": {"max_steps": [2, 9]}},
        then=[("look_up", '{"name": "bob"}')],
        results=["completed"],
        end=("max_steps", None),
    ),
    "fewer calls than are on record": Upgrade(
        {}, {"max_calls": 1}, {"limits": {"max_calls": [200, 1]}}, then=[("look_up", '{"name": "bob"}')], results=["completed"]
    ),
}  # fmt: skip


def open_runtime(store: str, effects: list[str], options: Mapping[str, Any], **settings: Any) -> Runtime:
    tools = [options.get("pay", pay_with)(effects), look_up, *options.get("add", ())]
    if "echo" in options.get("tools", ()):
        tools.append(echo)
    return make(
        [each for each in tools if each.name not in options.get("without", ())], store, close_timeout=0.0, **settings
    )


_OF_TEST = {"pay", "add", "without", "model_name"}


def agent_on(rt: Runtime, model: Any, options: Mapping[str, Any], **more: Any) -> ReActAgent[Any]:
    model.name = options.get("model_name", "says")
    if "handoffs" in options:
        ReActAgent(rt, ScriptedModel([]), name="billing")
    return ReActAgent(rt, model, **{name: value for name, value in options.items() if name not in _OF_TEST}, **more)


async def entries_of(rt: Runtime, kind: str, turn: int = 1) -> list[dict[str, Any]]:
    record = await rt.get(f"turn-{turn}", thread="agent:react/t")
    found = [event.data["entry"] for event in record.events if event.type == "note" and "entry" in event.data]
    return [entry for entry in found if entry["e"] == kind]


async def begun(store: str, options: Mapping[str, Any], effects: list[str]) -> None:
    """A turn whose first step is on record; its process is gone while the model is asked again."""
    gate = Gate()

    async def answer(request: ChatRequest) -> Any:
        if request.messages[-1].role != "tool":
            return STEP_ON_RECORD
        await gate()
        return None

    async with open_runtime(store, effects, options) as rt:
        await agent_on(rt, Says(answer), options).begin("go", thread="t")
        await gate.reached.wait()


def system_of(request: ChatRequest) -> str:
    return request.messages[0].content if request.messages[0].role == "system" else ""


def next_model(upgrade: Upgrade) -> Says:
    """Of the present agent: it calls the tools of the scenario, and then answers."""

    def answer(request: ChatRequest) -> Any:
        return upgrade.answer if len(model.requests) > 1 or not upgrade.then else asks(*upgrade.then)

    model = Says(answer)
    return model


def outcomes(result: AgentResult[Any]) -> list[str]:
    """Of each call: `completed`, or the code of its error."""
    check_pairs(result.messages)
    tools = [message for message in result.messages if message.role == "tool"]
    return [message.content.partition(":")[0] if message.failed else "completed" for message in tools]


@pytest.mark.parametrize("name", UPGRADES)
async def test_the_turn_goes_on_as_it_began(name: str, sqlite: str) -> None:
    upgrade, effects = UPGRADES[name], list[str]()
    await begun(sqlite, upgrade.before, effects)
    model = next_model(upgrade)
    async with open_runtime(sqlite, effects, upgrade.after) as rt:
        result = await agent_on(rt, model, upgrade.after).run("go", thread="t")
        first = model.requests[0]
        assert [message.content for message in first.messages if message.role == "tool"] == ["paid ann", "ann is known"]
        assert sorted(offer.name for offer in first.tools) == sorted(upgrade.offered)
        assert system_of(first).partition(".")[0] == upgrade.system
        assert outcomes(result) == ["completed", "completed", *upgrade.results]
        assert (result.turn, result.stopped) == (1, upgrade.end[0])
        if result.stopped == "finished":
            assert (result.text if isinstance(upgrade.end[1], str) else result.value) == upgrade.end[1]
        changed = await entries_of(rt, "changed")
        assert [entry["what"] for entry in changed] == ([] if upgrade.changed is None else [upgrade.changed])
        assert effects[:1] == ["ann"]
        assert len(effects) == 1 + [use for use, _ in upgrade.then][: len(upgrade.results)].count("pay") - sum(
            use == "pay" and code != "completed" for (use, _), code in zip(upgrade.then, upgrade.results, strict=True)
        ), "no effect is repeated, and none comes from a refused call"


@pytest.mark.parametrize("name", UPGRADES)
async def test_or_ends_if_the_agent_refuses_what_has_changed(name: str, sqlite: str) -> None:
    upgrade, effects = UPGRADES[name], list[str]()
    await begun(sqlite, upgrade.before, effects)
    model = next_model(upgrade)
    async with open_runtime(sqlite, effects, upgrade.after) as rt:
        agent = agent_on(rt, model, upgrade.after, on_change="refuse")
        if upgrade.changed is None:
            assert (await agent.run("go", thread="t")).stopped == upgrade.end[0]
            return
        with pytest.raises(AgentChanged, match=next(iter(upgrade.changed))):
            await agent.run("go", thread="t", turn=1)
        (turn,) = (await agent.history("t")).turns
        assert (turn.code, model.asked, effects) == ("agent_changed", 0, ["ann"])
        assert called(turn.messages) == ["pay", "look_up"], "what was done is kept"


# A call that the new process can make no more.


async def pending(store: str, options: Mapping[str, Any], effects: list[str]) -> str:
    """A call of `pay` waits for an approval when its process is gone."""
    async with open_runtime(store, effects, options, policy=Policy(ask=["pay"])) as rt:
        agent = agent_on(rt, Says(lambda _: asks(("pay", '{"to": "ann"}'))), options)
        await agent.begin("go", thread="t")
        return str((await eventually(lambda: waiting(agent)))[0])


async def taken_up(agent: ReActAgent[Any]) -> None:
    with suppress(AgentBusy):  # the runtime was quicker
        await agent.take_up("t")


async def waiting(agent: ReActAgent[Any]) -> list[str]:
    return (await agent.look("t")).waiting_for


PENDING: dict[str, tuple[dict[str, Any], dict[str, Any], str, list[str]]] = {
    "a tool less": ({"tools": BOTH}, {"tools": ["look_up"]}, "completed", ["ann"]),
    "a tool's schema": ({}, {"pay": pay_with_amount}, "tool_unavailable", []),
    "nothing": ({}, {}, "completed", ["ann"]),
}


@pytest.mark.parametrize("name", PENDING)
async def test_a_call_that_waits_for_an_approval_is_of_the_turn_that_made_it(name: str, sqlite: str) -> None:
    before, after, outcome, made = PENDING[name]
    effects: list[str] = []
    id = await pending(sqlite, before, effects)
    async with open_runtime(sqlite, effects, after, policy=Policy(ask=["pay"])) as rt:
        agent = agent_on(rt, Says(lambda _: "done"), after)
        await taken_up(agent)
        await eventually(lambda: waits_or_has_ended(agent))
        if await waiting(agent):
            await rt.approve(id, by="tests", thread="t")
        result = await agent.wait("t", 1)
        assert (outcomes(result), effects) == ([outcome], made)


async def test_a_call_whose_tool_is_gone_waits_for_a_process_that_has_it(sqlite: str) -> None:
    effects: list[str] = []
    id = await pending(sqlite, {}, effects)
    async with open_runtime(sqlite, effects, {"without": ["pay"]}) as rt:
        agent = agent_on(rt, Says(lambda _: "never"), {})
        await taken_up(agent)
        await eventually(lambda: waits_for(agent, "tool:pay"))
    async with open_runtime(sqlite, effects, {}, policy=Policy(ask=["pay"])) as rt:
        agent = agent_on(rt, Says(lambda _: "done"), {})
        await taken_up(agent)
        await rt.approve(id, by="tests", thread="t")
        result = await agent.wait("t", 1)
        assert (outcomes(result), effects) == (["completed"], ["ann"])


async def waits_or_has_ended(agent: ReActAgent[Any]) -> bool:
    return bool(await waiting(agent)) or (await agent.look("t")).state is not AgentState.RUNNING


async def waits_for(agent: ReActAgent[Any], what: str) -> bool:
    return what in await waiting(agent)


async def test_a_call_without_a_result_of_a_tool_that_the_agent_has_no_more(sqlite: str) -> None:
    """It had started: whether it had its effect is not known, and it is not made again."""
    gate = Gate()

    @tool
    async def pay(to: str) -> str:
        """Pays."""
        await gate()
        return to

    async with make([pay, look_up], sqlite, close_timeout=0.0) as rt:
        agent = ReActAgent(rt, Says(lambda _: asks(("pay", '{"to": "ann"}'))), tools=BOTH)
        await agent.begin("go", thread="t")
        await gate.reached.wait()
    effects: list[str] = []
    async with open_runtime(sqlite, effects, {}) as rt:
        result = await ReActAgent(rt, Says(lambda _: "done"), tools=["look_up"]).run("go", thread="t")
        assert (outcomes(result), effects) == (["outcome_unknown"], [])


# Plans.

PLAN = {"command": "create", "title": "t", "steps": [{"text": "one"}]}
FIRST_TASK_ENDS = 2  # steps of its executor


@pytest.mark.parametrize("most", [1, 5])
async def test_the_limits_of_executors_hold_as_they_were(most: int, sqlite: str) -> None:
    """The first task has used its steps, and its planner was asked again: no executor is asked anew, whatever the limit is now."""
    gate = Gate()

    async def plans(request: ChatRequest) -> Any:
        if len(request.messages) > 2:
            await gate()
        return asks(("plan", msgspec.json.encode(PLAN).decode()))

    def looks(_: ChatRequest) -> Any:
        return asks(("look_up", f'{{"name": "{len(executor.requests)}"}}'))

    executor = Says(looks)
    async with make([look_up], sqlite, close_timeout=0.0) as rt:
        agent = PlanExecuteAgent(rt, Says(plans), executor=executor, max_task_steps=FIRST_TASK_ENDS)
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        assert executor.asked == FIRST_TASK_ENDS
    executor = Says(looks)
    async with make([look_up], sqlite) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel(["enough"]), executor=executor, max_task_steps=most)
        result = await agent.run("go", thread="t")
        assert (result.text, executor.asked) == ("enough", 0)
        assert called(result.messages) == ["plan", "look_up", "look_up"]


async def test_another_kind_of_agent_goes_on_with_what_was_done(sqlite: str) -> None:
    effects: list[str] = []
    await begun(sqlite, {"tools": BOTH}, effects)
    async with open_runtime(sqlite, effects, {}) as rt:
        agent = PlanExecuteAgent(rt, ScriptedModel(["planned"]), tools=BOTH, name="react")
        result = await agent.run("go", thread="t")
        assert (result.text, outcomes(result), effects) == ("planned", ["completed", "completed"], ["ann"])
        (changed,) = await entries_of(rt, "changed")
        assert changed["what"]["kind"] == ["react", "plan"]


# Options of one run.


async def test_the_limits_of_a_run_leave_those_that_it_does_not_name(sqlite: str) -> None:
    async with make([echo], sqlite) as rt:
        ReActAgent(rt, ScriptedModel([]), name="billing")
        agent = ReActAgent(rt, ScriptedModel(["done"]), handoffs=["billing"], max_handoffs=3)
        await agent.run("go", thread="t", limits=Limits(max_steps=4))
        (begun,) = await entries_of(rt, "begun")
        assert (begun["limits"]["max_steps"], begun["limits"]["max_handoffs"]) == (4, 3)


# Old and new processes side by side over one store.


class Version(NamedTuple):
    options: Mapping[str, Any]
    offered: Sequence[str]


OLD = Version({"tools": BOTH, "system": "A.", "max_calls": 9}, BOTH)
NEW = Version({"tools": ["look_up", "echo"], "system": "B.", "max_calls": 5}, ["look_up"])


@pytest.mark.parametrize("shape", ["sqlite", "redis"])
async def test_a_turn_moves_from_old_to_new_and_back(shape: str, sqlite: str, redis: RedisServer) -> None:
    """The other process is open already when the one that runs the turn closes, and takes the turn up."""
    store = sqlite if shape == "sqlite" else redis.url
    effects: list[str] = []
    offered: list[list[str]] = []

    def model_of(place: int, gate: Gate) -> Says:
        async def answer(asked: ChatRequest) -> Any:
            if sum(message.role == "assistant" for message in asked.messages) > place:
                await gate()
            assert system_of(asked) == "A."
            offered.append(sorted(offer.name for offer in asked.tools))
            if place == 3:
                return "done"
            return asks(
                ("pay", f'{{"to": "bob{place}"}}'),
                ("look_up", f'{{"name": "{place}"}}'),
                ("echo", f'{{"text": "{place}"}}'),
            )

        return Says(answer)

    async with AsyncExitStack() as before:
        for place, version in enumerate([OLD, NEW, OLD, NEW]):
            here, gate = AsyncExitStack(), Gate()
            rt = await here.enter_async_context(open_runtime(store, effects, version.options))
            agent = agent_on(rt, model_of(place, gate), version.options)
            if place:
                assert (await agent.look("t")).state is AgentState.RUNNING
                await before.aclose()
                await taken_up(agent)
            else:
                await agent.begin("go", thread="t")
            before.push_async_exit(here)
            if place < 3:
                await gate.reached.wait()
        result = await agent.wait("t", 1)
        (changed,) = await entries_of(rt, "changed")
    assert changed["what"]["limits"] == {"max_calls": [9, 5]}
    assert result.text == "done", "the nine calls that the turn may make are counted as when it began"
    old = ["completed", "completed", "tool_not_found"]
    assert outcomes(result) == [*old, "permission_denied", "completed", "permission_denied", *old]
    assert (effects, offered) == (["bob0", "bob2"], [OLD.offered, NEW.offered, OLD.offered, NEW.offered])
