"""Calls that end elsewhere: a token completes, fails or streams into them, from any process, once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, sqlite_url, states

from clicket import DidNotHappen, Runtime, State, ToolContext, tool
from clicket.errors import Conflict, NotFound, RetryableError, UsageError
from clicket.tools.pending import Pending, id_in

tokens: list[str] = []


@tool(external=True, timeout=60.0)
async def render(video: str, ctx: ToolContext) -> None:
    """Starts a job; the render farm ends the call."""
    tokens.append(ctx.pending(token_for="render farm").token)


@tool(timeout=60.0)
def sign(document: str, ctx: ToolContext) -> Pending:
    """A person signs, elsewhere."""
    pending = ctx.pending(token_for="ann")
    tokens.append(pending.token)
    return pending


@tool(timeout=60.0)
async def order(item: str, ctx: ToolContext) -> Any:
    if item == "here":
        return "in stock"
    pending = ctx.pending()
    await ctx.drain()
    tokens.append(pending.token)
    return pending


@tool(external=True, sensitive=["password"], max_result_size=200)
async def log_in(password: str, ctx: ToolContext) -> None:
    tokens.append(ctx.pending().token)


@tool(external=True)
async def forgetful(ctx: ToolContext) -> None:
    """Sends its token to nobody."""


@tool
async def leaky(ctx: ToolContext) -> str:
    return f"the token is {ctx.pending().token}"


@tool(depends_on=["render"])
async def publish() -> str:
    return "published"


ALL = [render, sign, order, log_in, forgetful, leaky, publish]


@pytest.fixture(autouse=True)
def _no_tokens() -> None:
    tokens.clear()


async def waiting(rt: Runtime, id: str) -> str:
    """Wait until the call waits outside; returns its token."""
    await eventually(lambda: _waits(rt, id))
    return tokens[-1]


async def _waits(rt: Runtime, id: str) -> bool:
    try:
        return (await rt.get(id)).waiting_for == "external"
    except NotFound:
        return False


@pytest.mark.parametrize(
    ("name", "arguments"), [("render", {"video": "a"}), ("sign", {"document": "d"}), ("order", {"item": "x"})]
)
async def test_a_token_completes_its_call(store: str, name: str, arguments: dict[str, str]) -> None:
    async with make(ALL, store) as rt:
        handle = await rt.submit(name, arguments, id="c")
        token = await waiting(rt, "c")
        record = await rt.get("c")
        assert (record.state, rt.activity().slots_used) == (State.RUNNING, 0), "it holds no slot while it waits"
        assert record.external is not None
        assert record.external["for"] == {"render": "render farm", "sign": "ann", "order": ""}[name]
        assert id_in(token) == "c"
        assert await rt.complete(token, {"url": "u"}) == "c"
        result = await handle.result(timeout=PATIENCE)
        assert (result.state, result.output, result.attempts) == (State.COMPLETED, {"url": "u"}, 1)
        record = await rt.get("c")
        assert_sound(record)
        assert [*record.stages] == ["find", "authorize", "validate", "execute", "process", "persist"]
        with pytest.raises(Conflict, match="works once"):
            await rt.complete(token, "again")
        assert (await rt.get("c")).output == {"url": "u"}


async def test_call_waits_in_place(store: str) -> None:
    async with make(ALL, store) as rt:
        running = asyncio.ensure_future(rt.call("order", {"item": "x"}, id="c"))
        await rt.complete(await waiting(rt, "c"), 7)
        assert (await asyncio.wait_for(running, PATIENCE)).output == 7
        assert (await rt.call("order", {"item": "here"})).output == "in stock", "a body may also just return"


async def test_a_caller_that_leaves_cancels_the_wait(store: str) -> None:
    async with make(ALL, store) as rt:
        running = asyncio.ensure_future(rt.call("order", {"item": "x"}, id="c"))
        token = await waiting(rt, "c")
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        await eventually(lambda: _is(rt, "c", State.CANCELLED))
        with pytest.raises(Conflict, match="cancelled"):
            await rt.complete(token, 1)


async def _is(rt: Runtime, id: str, state: State) -> bool:
    return await rt.state(id) is state


async def test_failures_count_for_the_tool_and_completions_for_dependencies(store: str) -> None:
    async with make(ALL, store) as rt:
        handle = await rt.submit("render", {"video": "a"}, id="c", thread="t")
        await rt.fail(await waiting(rt, "c"), "the farm is on fire", type="Fire")
        result = await handle.result(timeout=PATIENCE)
        assert result.error is not None
        assert (result.state, result.error.code, result.error.type) == (State.FAILED, "tool_error", "Fire")
        hub = rt.hub("t")
        assert (await hub.status("render")).failures == 1
        assert "publish" not in await hub.available()
        handle = await rt.submit("render", {"video": "a"}, id="d", thread="t")
        await rt.complete(await waiting(rt, "d"), "ok")
        await handle.result(timeout=PATIENCE)
        assert "publish" in await hub.available()


async def test_output_is_streamed_with_progress(store: str) -> None:
    async with make(ALL, store) as rt:
        handle = await rt.submit("render", {"video": "a"}, id="c")
        token = await waiting(rt, "c")
        await rt.emit(token, "one ")
        await rt.report_progress(token, 1, 4, "a quarter")
        await rt.emit(token, "two")
        await eventually(lambda: _is(rt, "c", State.STREAMING))
        record = await rt.get("c")
        assert (record.waiting_for, record.progress and record.progress["percentage"]) == ("external", 25)
        await rt.heartbeat(token)
        await rt.heartbeat(token)
        await rt.complete(token)
        result = await handle.result(timeout=PATIENCE)
        assert (result.state, result.output) == (State.COMPLETED, "one two")
        record = await rt.get("c")
        assert_sound(record)
        assert states(record.events)[-2:] == ["streaming", "completed"]
        assert sum(event.type == "heartbeat" for event in record.events) == 1, "one within a second is enough"


async def test_too_much_output_is_refused(store: str) -> None:
    async with make(ALL, store) as rt:
        await rt.submit("render", {"video": "a"}, id="c")
        token = await waiting(rt, "c")
        await rt.emit(token, "x" * 1_000_000)
        with pytest.raises(UsageError, match="1,048,576 bytes"):
            await rt.emit(token, "y" * 100_000)
        with pytest.raises(UsageError, match="put_artifact"):
            await rt.complete(token, "x" * 20_000_000)
        assert await rt.cancel("c")


async def test_the_same_stages(store: str) -> None:
    """Secrets are masked, and a big output is cut and kept as an artifact."""
    async with make(ALL, store) as rt:
        handle = await rt.submit("log_in", {"password": "correct horse battery"}, id="c")
        token = await waiting(rt, "c")
        await rt.emit(token, "the password is correct horse battery")
        await rt.complete(token, {"text": "correct horse battery " * 40})
        result = await handle.result(timeout=PATIENCE)
        record = await rt.get("c")
        assert result.truncated
        assert len(result.content) <= 200
        assert result.artifact is not None
        assert b"horse" not in await rt.artifact(result.artifact)
        assert "horse" not in str(record.events)


async def test_the_token_is_nowhere(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as rt:
        await rt.submit("render", {"video": "a"}, id="c")
        token = await waiting(rt, "c")
        assert re.fullmatch(r"[A-Za-z0-9_-]+", token), "it fits into a URL"
        await rt.emit(token, f"I have {token}")
        result = await rt.call("leaky", id="d")
        assert result.output == "the token is [secret]"
        await rt.complete(token, f"I had {token}")
        await eventually(lambda: _is(rt, "c", State.COMPLETED))
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.encode() not in stored
    assert tokens[0][:30].encode() not in stored


async def test_wrong_tokens_have_one_answer(store: str) -> None:
    async with make(ALL, store) as rt:
        await rt.submit("render", {"video": "a"}, id="c")
        token = await waiting(rt, "c")
        swapped = ("B" if token[10] == "A" else "A").join((token[:10], token[11:]))
        wrong = [
            "",
            "x",
            "ckx_",
            token[:-1],
            token + "A",
            swapped,
            "ckx_" + "a" * 43 + "-Yw",
            "ckx_" + "a" * 43 + "-\udcff",
        ]
        answers = set()
        for each in wrong:
            with pytest.raises(NotFound) as refused:
                await rt.complete(each, 1)
            answers.add(str(refused.value))
        assert len(answers) == 1
        assert await rt.state("c") is State.RUNNING
        await rt.complete(token, 1)


async def test_a_token_is_dead_after_a_cancel_and_a_timeout(store: str) -> None:
    async with make(ALL, store) as rt:
        await rt.submit("render", {"video": "a"}, id="c")
        token = await waiting(rt, "c")
        assert await rt.cancel("c", reason="not needed")
        with pytest.raises(Conflict, match="cancelled"):
            await rt.complete(token, 1)
        record = await rt.get("c")
        assert_sound(record)
        assert record.error is not None
        assert "not needed" in record.error.message

        handle = await rt.submit("render", {"video": "a"}, id="d", timeout=0.2)
        token = await waiting(rt, "d")
        result = await handle.result(timeout=PATIENCE)
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "attempt")
        with pytest.raises(Conflict, match="timeout"):
            await rt.emit(token, 1)
        assert_sound(await rt.get("d"))


async def test_silence_ends_the_wait() -> None:
    @tool(external=True, timeout=60.0, idle_timeout=0.3)
    async def job(ctx: ToolContext) -> None:
        tokens.append(ctx.pending().token)

    async with make([job]) as rt:
        handle = await rt.submit("job", id="c")
        token = await waiting(rt, "c")
        await asyncio.sleep(0.2)
        await rt.heartbeat(token)
        await asyncio.sleep(0.2)
        assert await rt.state("c") is State.RUNNING
        result = await handle.result(timeout=PATIENCE)
        assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "idle")


async def test_an_external_tool_must_hand_its_token_out() -> None:
    async with make(ALL) as rt:
        result = await rt.call("forgetful")
        assert result.error is not None
        assert "ctx.pending()" in result.error.message


@pytest.mark.parametrize("end", ["raises", "is retried", "returns", "is cancelled"])
async def test_a_result_that_was_acknowledged_while_the_body_runs_is_the_outcome(store: str, end: str) -> None:
    began, ends = 0, asyncio.Event()

    @tool(external=True, timeout=60.0, max_retries=2, retry_delay=0.0)
    async def job(ctx: ToolContext) -> Any:
        nonlocal began
        began += 1
        pending = ctx.pending()
        await ctx.drain()
        tokens.append(pending.token)
        await ends.wait()
        if end == "returns":
            return "by the body"
        raise RetryableError("not yet") if end == "is retried" else ValueError("broken")

    async with make([job], store) as rt:
        handle = await rt.submit("job", id="c")
        await eventually(lambda: bool(tokens))
        await rt.complete(tokens[0], "from outside")
        if end == "is cancelled":
            await rt.cancel("c")
        else:
            ends.set()
        result = await handle.result(timeout=PATIENCE)
        assert (result.state, result.output, began) == (State.COMPLETED, "from outside", 1)
        record = await rt.get("c")
        assert_sound(record)
        with pytest.raises(Conflict):
            await rt.complete(tokens[0], "again")


class Lost(Exception):
    code = "outcome_unknown"


async def test_each_attempt_has_a_token_of_its_own(store: str) -> None:
    """The first one is closed when its attempt is over; that does not close the second one."""
    fails = asyncio.Event()

    async def had_none(call: Any, ctx: ToolContext) -> DidNotHappen:
        return DidNotHappen()

    @tool(external=True, timeout=60.0, max_retries=1, reconcile=had_none)
    async def job(ctx: ToolContext) -> None:
        pending = ctx.pending()
        await ctx.drain()
        tokens.append(pending.token)
        if len(tokens) == 1:
            await fails.wait()
            raise Lost("the farm does not answer")

    async with make([job], store) as rt:
        handle = await rt.submit("job", id="c")
        await eventually(lambda: len(tokens) == 1)
        fails.set()
        await eventually(lambda: len(tokens) == 2)
        with pytest.raises(Conflict):
            await rt.complete(tokens[0], "of the first")
        await rt.complete(tokens[1], "of the second")
        assert (await handle.result(timeout=PATIENCE)).output == "of the second"
        assert_sound(await rt.get("c"))


async def test_a_result_that_comes_in_the_pause_before_a_retry_is_the_outcome(store: str) -> None:
    began = 0

    @tool(external=True, timeout=60.0, max_retries=2, retry_delay=60.0)
    async def job(ctx: ToolContext) -> None:
        nonlocal began
        began += 1
        pending = ctx.pending()
        await ctx.drain()
        tokens.append(pending.token)
        raise RetryableError("not yet")

    async with make([job], store) as rt:
        handle = await rt.submit("job", id="c")
        await eventually(lambda: _is_retrying(rt))
        await rt.emit(tokens[0], "streamed")
        await rt.complete(tokens[0], None)
        await rt.cancel("c")  # ends the pause
        result = await handle.result(timeout=PATIENCE)
        assert (result.state, result.output, began) == (State.COMPLETED, "streamed", 1)
        assert_sound(await rt.get("c"))


async def test_a_cancel_counts_that_comes_while_an_attempt_with_a_token_is_decided_about(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = 0

    @tool(external=True, idempotent=True, timeout=0.05, max_retries=2, retry_delay=0.0)
    async def job(ctx: ToolContext) -> None:
        nonlocal began
        began += 1
        ctx.pending()
        await ctx.drain()
        await asyncio.Event().wait()

    async with make([job], store) as rt:
        journal, stopping = rt.engine.journal, rt.engine.stopping
        flush = journal.flush

        async def flushed(entry: Any) -> None:
            (call,) = rt.engine.live.named("c")
            if call.stopping == "attempt":
                stopping.cancel(call, "enough")
            await flush(entry)

        monkeypatch.setattr(journal, "flush", flushed)
        result = await (await rt.submit("job", id="c")).result(timeout=PATIENCE)
        assert (result.state, began) == (State.CANCELLED, 1)
        assert_sound(await rt.get("c"))


async def _is_retrying(rt: Runtime) -> bool:
    return (await rt.get("c")).state is State.RETRYING


async def test_another_runtime_over_the_store_completes(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as rt, make((), url) as other:
        handle = await rt.submit("render", {"video": "a"}, id="c")
        token = await waiting(rt, "c")
        await other.emit(token, "x")
        await other.complete(token, "from afar")
        assert (await handle.result(timeout=PATIENCE)).output == "from afar"
        assert_sound(await rt.get("c"))


async def test_the_wait_outlives_its_runtime(tmp_path: Path) -> None:
    """Closing hands the wait over; the body is not run again; a result that came meanwhile is the outcome."""
    url = sqlite_url(tmp_path)
    async with make(ALL, url) as rt:
        for id in ("a", "b", "c"):
            await rt.submit("render", {"video": id}, id=id)
            await waiting(rt, id)
    async with make((), url) as rt:
        await rt.complete(tokens[0], "meanwhile")
        await rt.cancel("b")
        assert await rt.state("a") is State.RUNNING
    async with make(ALL, url) as rt:
        await eventually(lambda: _is(rt, "a", State.COMPLETED))
        await eventually(lambda: _is(rt, "b", State.CANCELLED))
        await rt.complete(tokens[2], "later")
        await eventually(lambda: _is(rt, "c", State.COMPLETED))
        assert ((await rt.get("a")).output, (await rt.get("c")).output) == ("meanwhile", "later")
        for id in "abc":
            record = await rt.get(id)
            assert_sound(record)
            assert len(record.attempts) == 1
    assert len(tokens) == 3, "each body ran once"


@settings(max_examples=examples(12), deadline=None)
@given(kinds=st.lists(st.sampled_from(["complete", "fail", "cancel", "emit"]), min_size=2, max_size=10))
async def test_of_many_completers_one_wins(kinds: list[str]) -> None:
    tokens.clear()
    async with make(ALL) as rt:
        handle = await rt.submit("order", {"item": "x"}, id="c")
        token = await waiting(rt, "c")

        async def act(number: int, kind: str) -> int | str | None:
            try:
                if kind == "cancel":
                    return "cancel" if await rt.cancel("c") else None
                if kind == "emit":
                    await rt.emit(token, str(number))
                    return None
                await (rt.complete(token, number) if kind == "complete" else rt.fail(token, str(number)))
            except Conflict:
                return None
            return number

        won = [each for each in await asyncio.gather(*(act(n, k) for n, k in enumerate(kinds))) if each is not None]
        if not won:
            await rt.complete(token, 99)
            won = [99]
        result = await handle.result(timeout=PATIENCE)
        numbers = [each for each in won if each != "cancel"]
        assert len(numbers) <= 1
        if numbers:
            assert numbers[0] == (result.output if result.success else int(result.error.message))  # type: ignore[union-attr]
        else:
            assert result.state is State.CANCELLED
        assert_sound(await rt.get("c"))


async def test_a_wait_is_cheap() -> None:
    async with make(ALL, max_queue=20_000) as rt:
        handles = [await rt.submit("order", {"item": "x"}) for _ in range(1_000)]
        await eventually(lambda: _all_wait(rt, 1_000))
        tasks = len(asyncio.all_tasks())
        assert tasks < 20, "no task per wait"
        assert rt.activity().slots_used == 0
        await asyncio.gather(*(rt.complete(token, 1) for token in tokens))
        assert {(await handle.result(timeout=PATIENCE)).state for handle in handles} == {State.COMPLETED}


async def _all_wait(rt: Runtime, count: int) -> bool:
    return sum(call.waiting_for == "external" for call in rt.held_calls()) == count
