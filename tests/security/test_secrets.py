"""Only its tool sees a secret: the store, artifacts, cache, records, results, events and log lines do not contain it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server
from tests.scenarios.kit import make
from tests.scenarios.server_kit import served
from tests.security.secrets_kit import TOOLS, WAYS, Canary, assert_clean, assert_folder_clean

from clicket import Conflict, Policy, RestTool, Runtime, State, ToolContext, tool
from clicket.safety.vault import MASK
from clicket.telemetry import instrument

KEY = "a key of more than sixteen characters"


class Lines(logging.Handler):
    """Every line of our loggers, as a log file would contain it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, ours = Lines(), logging.getLogger("clicket")
    level = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    yield handler
    ours.removeHandler(handler)
    ours.setLevel(level)


@contextmanager
def a_store(kind: str, folder: Path) -> Iterator[tuple[str, Path, Callable[[], object]]]:
    """A store's URL, its folder, and a function that makes it write everything to disk."""
    if kind == "redis":
        with redis_server(folder / "redis", "--appendonly", "yes", "--rdbcompression", "no") as server:
            yield server.url, server.folder, lambda: (server.ask("SAVE"), server.stop())
    elif kind == "postgres":
        with postgres_server(wal_compression="off") as server:
            yield server.url(), server.folder, server.stop
    else:
        yield f"sqlite:///{folder / 'calls.db'}", folder, lambda: None


async def all_that_is_seen(rt: Runtime) -> AsyncIterator[Any]:
    cursor = None
    while True:
        page = await rt.history(limit=1_000, cursor=cursor)
        for record in page.items:
            yield await rt.get(record.id, thread=record.thread)
        cursor = page.cursor
        if cursor is None:
            break
    yield await rt.audit()
    yield await rt.report()


async def be_careless(rt: Runtime, canary: Canary) -> list[Any]:
    """Every way in which a tool may return a secret."""
    seen: list[Any] = []
    for name in ("echo", "threaded", "apart", "session"):
        for how in WAYS:
            given = canary.arguments(how)
            result = await rt.call(name, given, metadata={"password": canary.password, "h": canary.token})
            wrong = how in ("raise", "long", "group")
            assert result.success is not wrong, (name, how, result.error)
            seen.append(result)
    seen.append(await rt.call("echo", canary.arguments("hang"), timeout=0.01))
    seen.append(await rt.call("echo", canary.arguments("late"), timeout=0.01))
    seen.append(await rt.call("threaded", canary.arguments("slow"), timeout=0.05))
    handle = await rt.submit("echo", canary.arguments("late"))
    await _running(handle)
    await handle.cancel(f"because of {canary.token} and {canary.password}")
    seen.append(await handle.result())
    return seen


async def be_refused(rt: Runtime, canary: Canary) -> list[Any]:
    good = canary.arguments()
    refused = [
        {**good, "password": [canary.password]},
        {**good, "password": 5, "how": canary.password},
        {**good, canary.token: canary.password},
        {**good, "card": canary.password + "x" * 500},
        f'{{"password": "{canary.password}", ',
        f'{{"password": "{canary.token}"}}',
    ]
    seen = [await rt.call("echo", each, metadata={"password": canary.password}) for each in refused]
    assert {result.error.code for result in seen if result.error} == {"invalid_input"}
    seen.append(await rt.call("unknown", {"x": canary.token}, metadata={"m": canary.token}))
    return seen


async def _running(handle: Any) -> None:
    async for event in handle.events():
        if event.type == "attempt_started":
            return


# Each store, for what it writes; and each way to hide a secret, which happens before the store.
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        pytest.param("sqlite", None, id="sqlite-without a key"),
        pytest.param("sqlite", KEY, id="sqlite-with a key"),
        pytest.param("redis", KEY, id="redis-with a key"),
        pytest.param("postgres", KEY, id="postgres-with a key"),
        pytest.param("redis", None, id="redis-without a key", marks=pytest.mark.slow),
        pytest.param("postgres", None, id="postgres-without a key", marks=pytest.mark.slow),
    ],
)
async def test_a_canary_is_nowhere(kind: str, key: str | None, tmp_path: Path, lines: Lines) -> None:
    canary = Canary()
    with a_store(kind, tmp_path) as (url, folder, settle):
        policy = Policy(deny=["nobody"])
        spans = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(spans))
        runtime = make(TOOLS, url, policy=policy, secret_key=key)
        instrument(runtime, tracers, content=True)
        async with runtime as rt:
            seen = await be_careless(rt, canary)
            seen += await be_refused(rt, canary)
            for _ in range(2):
                await rt.call("plain", {"name": canary.name, "header": canary.token})
            assert (await rt.cache.stats()).items == 0
            seen += [each async for each in all_that_is_seen(rt)]
            if kind == "sqlite":  # while the store is open, the log beside the database holds the data
                assert_folder_clean(canary, folder)
        settle()
        assert_folder_clean(canary, folder)
    assert_clean(canary, *seen, "\n".join(lines.said))
    traced = [span.to_json(indent=None) for span in spans.get_finished_spans()]
    assert any(canary.name in span for span in traced)
    assert_clean(canary, *traced)


async def test_the_tool_gets_the_real_thing_and_everybody_else_the_mask(tmp_path: Path) -> None:
    canary = Canary()
    async with make(TOOLS, f"sqlite:///{tmp_path / 'calls.db'}") as rt:
        given = {"name": canary.name, "password": canary.password, "amount": 3, "folder": str(tmp_path)}
        result = await rt.call("pay", given)
        assert result.output == 3
        echoed = await rt.call("echo", canary.arguments())
        record = await rt.get(echoed.call_id)
    assert record.output == echoed.output
    assert record.content == echoed.content
    assert record.arguments["password"] == MASK
    assert record.arguments["header"] == f"x: {MASK}; y"
    assert record.arguments["card"] == {"number": MASK}
    assert record.arguments["name"] == canary.name
    assert echoed.output["said"] == f"{MASK} and x: {MASK}; y"
    assert echoed.output["password"] == MASK


async def test_a_result_that_was_hidden_is_not_cached_and_an_ordinary_one_is() -> None:
    canary = Canary()
    async with make(TOOLS) as rt:
        for _ in range(2):
            hidden = await rt.call("gives", {"name": "n", "token": canary.token[::-1]})
            assert not hidden.cached
            assert hidden.output == f"n: {MASK}"
        assert (await rt.cache.stats()).items == 0
        await rt.call("gives", {"name": "n", "token": "harmless"})
        assert (await rt.call("gives", {"name": "n", "token": "harmless"})).cached


async def test_no_cache_key_is_made_of_a_secret() -> None:
    canary = Canary()
    async with make(TOOLS) as rt:
        for _ in range(2):
            assert not (await rt.call("measure", {"text": canary.token})).cached
        stats = await rt.cache.stats()
        assert (stats.items, stats.hits, stats.misses) == (0, 0, 0)
        await rt.call("measure", {"text": "no secret"})
        assert (await rt.call("measure", {"text": "no secret"})).cached


async def test_complaints_say_what_is_wrong_and_not_with_what() -> None:
    canary = Canary()
    async with make(TOOLS) as rt:
        result = await rt.call("echo", {**canary.arguments(), "password": [canary.password], "nme": "x"})
    assert result.error is not None
    problems = {problem["path"]: problem["message"] for problem in result.error.details["problems"]}
    assert problems["/password"] == f'{MASK} is not of type "string"'
    assert "Did you mean 'name'" in problems["/nme"]


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
async def test_the_same_call_is_the_same_and_another_secret_is_a_conflict(tmp_path: Path, key: str | None) -> None:
    canary, other = Canary(), Canary()
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    async with make(TOOLS, url, secret_key=key) as rt:
        first = await rt.call("echo", canary.arguments(), id="one")
        again = await rt.call("echo", dict(reversed(canary.arguments().items())), id="one")
        assert again.output == first.output
        with pytest.raises(Conflict):
            await rt.call("echo", canary.arguments() | {"password": other.password}, id="one")
        with pytest.raises(Conflict):  # the mask does not count as the password
            await rt.call("echo", (await rt.get("one")).arguments, id="one")
        bad = {**canary.arguments(), "password": 5}
        await rt.call("echo", bad, id="bad")
        assert (await rt.call("echo", bad, id="bad")).error is not None
        with pytest.raises(Conflict):
            await rt.call("echo", {**bad, "password": 6}, id="bad")
    async with make(TOOLS, url, secret_key=key) as rt:  # stands for another process: it has the key only
        assert (await rt.call("echo", canary.arguments(), id="one")).output == first.output
        with pytest.raises(Conflict):
            await rt.call("echo", {**canary.arguments(), "how": "raise"}, id="one")
        if key is not None:  # without the key only masked values can be compared
            with pytest.raises(Conflict):
                await rt.call("echo", canary.arguments() | {"password": other.password}, id="one")
        assert (await rt.call("echo", bad, id="bad")).error is not None


async def test_our_own_keys_are_hidden_from_a_program_that_prints_the_environment(tmp_path: Path) -> None:
    key, old = f"our own key {secrets.token_hex(8)}", f"an older key {secrets.token_hex(8)}"

    @tool
    async def env(ctx: ToolContext) -> dict[str, str]:
        setting = f"{key},{old}"
        for letter in setting:
            ctx.emit(letter)
        return {"CLICKET_SECRET_KEY": setting}

    async with make([env], f"sqlite:///{tmp_path / 'calls.db'}", secret_key=f"{key}, {old}") as rt:
        result = await rt.call("env")
        record = await rt.get(result.call_id)
    assert result.output == {"CLICKET_SECRET_KEY": f"{MASK},{MASK}"}
    streamed = "".join(event.data["content"] for event in record.events if event.type == "output")
    assert streamed.count(MASK) == 2
    assert key[2:6] not in streamed
    assert old[-4:] not in streamed


async def test_what_is_no_secret_is_left_alone() -> None:
    async with make(TOOLS) as rt:
        header = (
            "task-force-one-two-three, sk-learn-compatible-estimators, https://localhost:8080/a@b, bearer of good news"
        )
        result = await rt.call("plain", {"name": "n", "header": header})
        assert result.output == f"n: {header}"
        assert (await rt.call("plain", {"name": "n", "header": header})).cached
        assert "arguments_hash" not in (await rt.get(result.call_id)).events[0].data


async def test_a_stream_shows_all_that_is_no_secret_in_its_order() -> None:
    canary = Canary()
    async with make(TOOLS) as rt:
        result = await rt.call("echo", canary.arguments("stream"))
        record = await rt.get(result.call_id)
    chunks = [event.data["content"] for event in record.events if event.type == "output"]
    texts = [chunk for chunk in chunks if isinstance(chunk, str)]
    assert "".join(texts) == f"{MASK} and x: {MASK}; y"
    assert chunks[-1]["password"] == MASK
    offsets = [event.data["offset"] for event in record.events if event.type == "output"]
    assert offsets == sorted(offsets)


async def test_what_was_held_back_is_part_of_what_was_streamed() -> None:
    canary = Canary()

    @tool
    async def tells(token: str) -> AsyncIterator[str]:
        for piece in ("it is ", token[:9], token[9:20], token[20:], " or sk-ant-"):
            yield piece

    async with make([tells]) as rt:
        result = await rt.call("tells", {"token": canary.token})
        record = await rt.get(result.call_id)
    assert result.output == record.output == result.content == f"it is {MASK} or sk-ant-"
    assert "".join(event.data["content"] for event in record.events if event.type == "output") == result.output


async def test_what_was_held_back_is_shown_when_the_call_is_stopped() -> None:
    canary = Canary()

    @tool
    async def stuck(ctx: ToolContext) -> None:
        ctx.emit("it begins with sk-ant-a")
        await asyncio.sleep(60)

    async with make([stuck]) as rt:
        result = await rt.call("stuck", {}, timeout=0.05)
        record = await rt.get(result.call_id)
    assert result.state is State.TIMEOUT
    texts = [event.data["content"] for event in record.events if event.type == "output"]
    assert texts == ["it begins with ", "sk-ant-a"]
    assert_clean(canary, record)


async def test_sensitive_true_hides_every_argument_and_caches_nothing() -> None:
    runs = []

    @tool(sensitive=True, cache=300)
    async def whole(word: str, number: int = 5) -> dict[str, str]:
        runs.append((word, number))
        return {"said": f"the word is {word}"}

    async with Runtime([whole], store="memory://") as rt:
        results = [await rt.call("whole", {"word": "xyzzy-42", "number": 12345}) for _ in range(2)]
        assert runs == [("xyzzy-42", 12345)] * 2
        assert results[0].output == {"said": "the word is [secret]"}
        record = await rt.get(results[0].call_id)
        assert record.arguments == {"word": "[secret]", "number": "[secret]"}
        assert "xyzzy" not in msgspec.json.encode(record).decode()


async def test_a_key_in_a_query_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """The HTTP client logs every address at INFO."""
    key = "query-key-4711"
    async with served() as it:
        ask = RestTool("ask", "GET", f"{it.url}/healthz?key={key}", allow_private=True, allow_hosts=["127.0.0.1"])
        other = RestTool("other", "GET", f"{it.url}/healthz", parameters={"token": {"in": "query"}}, allow_private=True)
        async with make([ask, other]) as rt:
            with caplog.at_level(logging.DEBUG):
                await rt.call("ask")  # the answer does not matter
                await rt.call("other", {"token": key})
    assert "/healthz?… " in caplog.text
    assert key not in caplog.text
