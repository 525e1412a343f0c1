"""A caller is forgotten on every store: nothing of it is left, and nothing of another caller is missing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.scenarios.kit import make

from clicket import Runtime, ToolContext, tool
from clicket.agents import Memory, ReActAgent
from clicket.errors import AgentBusy, Conflict, NotFound, PermissionDenied, UsageError
from clicket.ports import Keep, Query
from clicket.testing import ScriptedModel

SECRET = "the cat is called Minka"
KINDS = (
    "agent.thread", "agent.turn", "agent.id", "agent.queue", "agent.sent", "agent.queue.held", "agent.bell", "agent.summary",
    "agent.requests", "agent.memory", "artifact", "outcome",
)  # fmt: skip


@pytest.fixture(params=["memory", "sqlite", "redis", "postgresql"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, redis_here: RedisServer, postgres_here: PostgresServer
) -> str:
    return {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path / 'calls.db'}",
        "redis": f"{redis_here.url}?prefix={place}",
        "postgresql": f"{postgres_here.url()}?schema={place}",
    }[request.param]


@tool(failure_threshold=1)
async def save(text: str, ctx: ToolContext) -> str:
    await ctx.put_artifact(text.encode())
    if text == "fail":
        raise ValueError(f"it fails on {SECRET}")
    return f"saved: {text}"


def answers() -> list[Any]:
    return [[("save", {"text": SECRET}), ("remember", {"fact": SECRET})], f"I know: {SECRET}"]


async def live(rt: Runtime, caller: str, model: Any = None) -> ReActAgent:
    """The caller uses everything of which the store keeps something."""
    mine = rt.acting_for(caller)
    agent = ReActAgent(
        mine, model or ScriptedModel(answers(), position="transcript"), middleware=[Memory(), Memory("agent")]
    )
    await agent.run(SECRET, thread="t", id="one")
    await mine.memory.add(f"{SECRET} indeed", agent="react")
    await mine.put_artifact(f"a file of {caller}".encode())
    await mine.put_artifact(b"a file of both")
    await mine.call("save", {"text": SECRET}, thread="plain", id="named")
    await mine.call("save", {"text": "fail"}, thread="plain")
    await agent.stop("t")
    return agent


async def dump(rt: Runtime, about: str = "") -> str:
    """Everything that the store says of a caller, or of all; without the audit log, and without what changes in the background: what
    threads were told of tools, and which process has a call."""
    store = rt.engine.store
    found: list[Any] = [document for kind in KINDS for document in await store.documents(kind)]
    found += [(stored.id, stored.events) for stored in await store.history(Query(limit=1_000))]
    for caller in ("ursula", "bob"):
        for thread in ("t", "plain"):
            known = await store.tool_health(caller, thread)
            found += [(caller, [msgspec.structs.replace(each, announced=None, version=0) for each in known])]
    return "\n".join(text for text in map(repr, found) if about in text)


@pytest.fixture
async def rt(url: str) -> AsyncIterator[Runtime]:
    async with make([save], store=url) as runtime:
        yield runtime


async def test_nothing_of_a_forgotten_caller_is_left_and_nothing_of_others_is_missing(rt: Runtime) -> None:
    await live(rt, "bob")
    agent = await live(rt, "ursula")
    # An outcome that retention has left behind, and calls that it keeps for their thread.
    await rt.sweep(Keep(since=rt.engine.clock.now() + 60))
    await rt.acting_for("ursula").call("save", {"text": "again"}, thread="plain")
    before = await dump(rt, "bob")
    assert {kind for kind in KINDS if kind in await dump(rt, "ursula")} >= {
        "agent.thread",
        "agent.turn",
        "agent.memory",
        "artifact",
    }
    report = await rt.forget(caller="ursula", by="support")
    assert report.facts == 2
    assert report.threads == 2
    assert report.calls == 4, "the turn, its two calls, and the last one"
    assert report.artifacts >= 3
    assert report.remaining == {}
    assert re.sub(r"\('ursula', \[.*", "", await dump(rt, "ursula")).strip() == ""
    health = [each for thread in ("t", "plain") for each in await rt.engine.store.tool_health("ursula", thread)]
    assert not [each for each in health if each.last_error or each.failures or each.completions]
    assert await dump(rt, "bob") == before, "of the other caller all is there"
    mine = rt.acting_for("ursula")
    assert await mine.memory.list() == []
    assert (await mine.history()).items == []
    assert await agent.messages("t") == []
    assert (await agent.history("t")).turns == []
    (entry,) = [each for each in await rt.audit.list() if each.what == "caller.forgotten"]
    assert (entry.who, entry.details["caller"], entry.details["facts"]) == ("support", "ursula", 2)
    again = await rt.forget(caller="ursula")
    assert (again.threads, again.calls, again.facts, again.artifacts, again.messages) == (0, 0, 0, 0, 0)


async def test_the_caller_begins_anew(rt: Runtime) -> None:
    model = ScriptedModel([*answers(), "hello", *answers()], position="counter")
    agent = await live(rt, "ursula", model)
    await rt.forget(caller="ursula")
    result = await agent.run("Who are you?", thread="t", id="one")
    assert (result.turn, result.text) == (1, "hello")
    assert SECRET not in repr(model.requests[-1])
    assert [message.content for message in await agent.messages("t")] == ["Who are you?", "hello"]
    named = await rt.acting_for("ursula").call("save", {"text": "new"}, thread="plain", id="named")
    assert named.output == "saved: new", "the id is free again"


async def test_the_cache_of_another_process_does_not_answer_for_what_was_forgotten(tmp_path: Path) -> None:
    def agent(rt: Runtime) -> ReActAgent:
        return ReActAgent(rt.acting_for("ursula"), ScriptedModel(["one", "two"]))

    url = f"sqlite:///{tmp_path / 'calls.db'}"
    async with make([], store=url) as here, make([], store=url) as there:
        first, second = agent(here), agent(there)
        await first.run(SECRET, thread="t")
        assert len(await first.messages("t")) == 2
        await there.forget(caller="ursula")
        await second.run("hello", thread="t")  # as many turns as before
        assert [message.content for message in await first.messages("t")] == ["hello", "one"]
        result = await first.run("and now?", thread="t")
        assert SECRET not in repr(result.messages)


async def test_bytes_go_with_their_last_reader(rt: Runtime, url: str) -> None:
    await live(rt, "ursula")
    await live(rt, "bob")
    both = await rt.acting_for("ursula").put_artifact(b"a file of both")
    alone = await rt.acting_for("ursula").put_artifact(b"a file of ursula")
    await rt.forget(caller="ursula")
    for name in (both, alone):
        with pytest.raises(NotFound):
            await rt.acting_for("ursula").artifact(name)
    assert await rt.acting_for("bob").artifact(both) == b"a file of both"
    pins = rt.engine.store
    await pins.sweep(Keep(since=0.0), 100)
    if url == "memory://":  # other stores spare bytes that are younger than an hour
        with pytest.raises(NotFound):
            await rt.artifact(alone)
    assert await rt.artifact(both) == b"a file of both"


@pytest.mark.parametrize("kind", ["turn", "call"])
async def test_nothing_is_removed_while_something_runs(rt: Runtime, kind: str) -> None:
    await live(rt, "ursula")
    mine = rt.acting_for("ursula")
    later = await mine.submit("save", {"text": "later"}, thread="u", not_before=rt.engine.clock.now() + 1_000)
    before = await dump(rt)
    if kind == "call":
        with pytest.raises(Conflict, match="save in thread 'u'"):
            await rt.forget(caller="ursula")
    else:
        asked = asyncio.Event()

        async def wait(request: Any) -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        slow = ReActAgent(mine, ScriptedModel([wait]), name="slow")
        await slow.begin("go", thread="v")
        await asked.wait()
        await slow.send("and then", thread="v")
        before = await dump(rt)
        with pytest.raises(AgentBusy, match="agent:slow in thread 'v'"):
            await mine.forget()
        assert [message.text for message in await slow.queued("v")] == ["and then"]
    assert await dump(rt) == before
    await later.cancel()
    if kind == "turn":
        await slow.stop("v")
        await slow.wait("v")
        report = await mine.forget()
        assert report.messages == 1
    else:
        await mine.forget()
    assert re.sub(r"\('ursula', \[.*", "", await dump(rt, "ursula")).strip() == ""


async def test_only_the_caller_itself_or_the_program_forgets(rt: Runtime) -> None:
    with pytest.raises(PermissionDenied):
        await rt.acting_for("mallory").forget(caller="ursula")
    with pytest.raises(UsageError, match="name the caller"):
        await rt.forget()


async def test_callers_whose_names_are_alike(rt: Runtime) -> None:
    names = ["a", "a/b", "a/sha256-x", "a%2Fb", "a-", ""]
    kept: dict[str, str] = {}
    for name in names:
        await rt.acting_for(name).memory.add(f"of {name!r}")
        await rt.acting_for(name).call("save", {"text": name or "none"}, thread="t")
        kept[name] = await rt.acting_for(name).put_artifact(f"file of {name!r}".encode())
    for name in ("a", ""):
        await rt.forget(caller=name)
        names.remove(name)
        for other in names:
            assert [fact.text for fact in await rt.memory.list(caller=other)] == [f"of {other!r}"]
            assert len((await rt.acting_for(other).history()).items) == 1
            assert await rt.acting_for(other).artifact(kept[other])


async def test_rights_stay_and_are_named(url: str) -> None:
    options: Callable[..., Runtime] = make
    async with options([save], store=url, secret_key="k" * 40) as rt:
        await rt.credentials.put("github", "token-of-ann", caller="ursula")
        await rt.acting_for("ursula").schedule("daily", "0 9 * * *", "save", {"text": "x"})
        report = await rt.forget(caller="ursula")
        assert report.remaining == {"credentials": 1, "schedules": 1}
        assert len(await rt.credentials.list(caller="ursula")) == 1


async def test_keys_that_are_not_ended_calls_are_not_removed(rt: Runtime) -> None:
    store = rt.engine.store
    later = await rt.submit("save", {"text": "later"}, not_before=rt.engine.clock.now() + 1_000)
    (stored,) = await store.load(later.id)
    assert (await store.remove([stored.key, 10_000_000])).calls == 0
    assert await store.load(later.id)
    await store.unpin(["sha256-" + "0" * 64])
    await later.cancel()
    assert (await store.remove([stored.key])).calls == 1
    assert await store.load(later.id) == []
