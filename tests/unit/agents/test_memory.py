"""A thread's memory: a document for each turn, a head with their number, and damaged documents that are skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.scenarios.kit import make, sqlite_url

from clicket import Runtime
from clicket.agents.memory import HEAD, TURN, Memory, TurnDocument, key_of
from clicket.errors import StoreUnavailable
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, ToolUse, Usage
from clicket.ports import AgentHost

KEY = key_of("", "t", "a")


@pytest.fixture(params=["memory", "sqlite"])
async def rt(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with make([], "memory://" if request.param == "memory" else sqlite_url(tmp_path)) as made:
        yield made


@pytest.fixture
def host(rt: Runtime) -> AgentHost:
    return rt.host


def turn(number: int, *, text: str = "", messages: tuple[ChatMessage, ...] | None = None) -> TurnDocument:
    said = (ChatMessage(role="user", content=f"q{number}"), ChatMessage(role="assistant", content=text or f"a{number}"))
    return TurnDocument(
        turn=number,
        messages=said if messages is None else messages,
        state=AgentState.FINISHED,
        stopped="finished",
        text=text or f"a{number}",
        usage=Usage(input_tokens=1),
        at=float(number),
    )


async def filled(host: AgentHost, turns: int, memory: Memory | None = None) -> Memory:
    memory = memory or Memory("a")
    for number in range(1, turns + 1):
        await memory.save(host, "t", turn(number))
    return memory


async def texts(memory: Memory, host: AgentHost) -> list[str]:
    return [message.content for message in (await memory.load(host, "t")).messages]


async def test_what_is_saved_is_loaded_here_and_by_others(host: AgentHost) -> None:
    memory = await filled(host, 3)
    wanted = ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert await texts(memory, host) == wanted
    assert await texts(Memory("a"), host) == wanted
    head, version = await memory.head(host, "t")
    assert (head.turns, head.text, head.usage.input_tokens, head.updated_at, version) == (3, "a3", 3, 3.0, 3)
    assert await texts(Memory("b"), host) == []
    assert (await memory.head(host, "u"))[0].turns == 0


async def test_what_another_wrote_is_seen(host: AgentHost) -> None:
    mine, theirs = Memory("a"), Memory("a")
    await filled(host, 1, mine)
    assert await texts(theirs, host) == ["q1", "a1"]
    await theirs.save(host, "t", turn(2))
    assert (await texts(mine, host))[-1] == "a2"
    await mine.save(host, "t", turn(3))
    assert (await texts(theirs, host))[-1] == "a3"


async def test_a_turn_is_written_once_and_the_first_one_counts(host: AgentHost) -> None:
    memory = await filled(host, 1)
    kept = await Memory("a").save(host, "t", turn(1, text="another"))
    assert kept.text == "a1"
    assert (await memory.head(host, "t"))[0].turns == 1
    # The process died between the two writes: the turn is stored, but the thread's head does not count it.
    await host.records.put_document(
        TURN, f"{KEY}/{2:010d}", host.protect(TURN, "", b'{"turn":2,"messages":[],"state":"idle"}'), 0
    )
    kept = await memory.save(host, "t", turn(2, text="another"))
    assert (kept.state, kept.messages) == (AgentState.IDLE, ())
    assert (await memory.head(host, "t"))[0].turns == 2


async def test_a_thread_of_many_turns_is_loaded_whole(host: AgentHost) -> None:
    await filled(host, 450)
    assert len(await texts(Memory("a"), host)) == 900
    memory = Memory("a")
    seen, after = [], 0
    while True:
        page = await memory.page(host, "t", after=after, limit=100)
        seen += [each.turn for each in page.turns]
        if page.after is None:
            break
        after = page.after
    assert seen == list(range(1, 451))
    assert len(await memory.until(host, "t", 7)) == 14
    assert (await memory.until(host, "t", 7))[-1].content == "a7"
    assert await memory.forget(host, "t") == 450
    assert (await memory.page(host, "t")).turns == []


async def test_pages_end_where_they_should(host: AgentHost) -> None:
    memory = await filled(host, 4)
    for limit, after in ((4, None), (3, 3), (5, None)):
        page = await memory.page(host, "t", limit=limit)
        assert ([each.turn for each in page.turns], page.after) == (list(range(1, min(limit, 4) + 1)), after)
    assert (await memory.page(host, "t", after=4)).turns == []


async def test_damaged_turns_are_passed_over_and_pages_go_on(host: AgentHost) -> None:
    await filled(host, 250)
    for number, body in (
        (2, b"{"),
        (3, b'{"turn":3}'),
        (4, b'{"sealed":"nobody opens it"}'),
        (150, b"[]"),
        (200, b"null"),
    ):
        await host.records.put_document(TURN, f"{KEY}/{number:010d}", body, None)
    memory = Memory("a")
    assert len(await texts(memory, host)) == 490
    assert (await memory.page(host, "t", limit=3)).after == 3
    assert await memory.turn(host, "t", 2) is None
    # Unreadable documents are removed with the rest.
    assert await memory.forget(host, "t") == 250
    assert await host.records.documents(TURN) == []


async def test_a_damaged_turn_is_paired_when_it_is_read(host: AgentHost) -> None:
    call = ChatMessage(role="assistant", uses=(ToolUse(id="u", name="x"),))
    stray = ChatMessage(role="tool", use_id="nobody", content="?")
    await Memory("a").save(host, "t", turn(1, messages=(ChatMessage(role="user", content="q"), stray, call)))
    messages = (await Memory("a").load(host, "t")).messages
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert messages[2].use_id == "u"
    assert messages[2].failed


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"turns":"many"}', b'{"sealed":"x"}', b'{"state":"asleep"}'])
async def test_a_damaged_head_says_so_and_can_be_forgotten(host: AgentHost, body: bytes) -> None:
    memory = await filled(host, 3)
    await host.records.put_document(HEAD, KEY, body, None)
    with pytest.raises(StoreUnavailable, match="forget the thread"):
        await memory.load(host, "t")
    with pytest.raises(StoreUnavailable):
        await memory.save(host, "t", turn(4))
    assert await memory.forget(host, "t") >= 3
    head, _ = await memory.head(host, "t")
    assert head.turns >= 3  # no new turn reuses an old name
    await memory.save(host, "t", turn(head.turns + 1))
    assert len(await texts(memory, host)) == 2


async def test_threads_whose_names_look_alike_are_apart(host: AgentHost) -> None:
    memory = Memory("a")
    names = ["t", "t/1", "t%2F1", "t/0000000001", "T", "t ", "é", "t\n"]
    for name in names:
        await memory.save(host, name, turn(1, text=f"of {name}"))
    for name in names:
        assert [each.text for each in (await Memory("a").page(host, name)).turns] == [f"of {name}"]
    assert await memory.forget(host, "t") == 1
    assert len((await memory.load(host, "t/1")).messages) == 2


async def test_the_cache_of_threads_is_bounded(host: AgentHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.agents.memory._MAX_THREADS", 5)
    memory = Memory("a")
    for number in range(20):
        await memory.load(host, f"t{number}")
    assert len(memory.cached) == 5
