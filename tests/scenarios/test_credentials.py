"""Calls of tools that need credentials of their callers: they wait without one, go on when it is there, and use their caller's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.scenarios.kit import assert_sound, make, sqlite_url
from tests.scenarios.process_tools import whose_token

from clicket import Policy, Runtime, State, ToolContext, tool
from clicket.errors import CredentialMissing, NotFound, PermissionDenied, UsageError
from clicket.safety.credentials import ConnectRefused, CredentialBook
from clicket.sync import Runtime as SyncRuntime

KEY = "the key of the scenarios of credentials"
ran: list[str] = []


@tool(credentials=["github"], read_only=True)
async def whoami(ctx: ToolContext) -> str:
    """Whose token is it?"""
    ran.append(ctx.call_id)
    return ctx.credential("github").partition("-")[0]


@tool(credentials="github")
def whoami_thread(ctx: ToolContext) -> str:
    return ctx.credential("github").partition("-")[0]


@tool(credentials=["github", "slack"])
async def both(ctx: ToolContext) -> list[str]:
    return [ctx.credential(name).partition("-")[0] for name in ("github", "slack")]


@tool(credentials=["github"], cache=60, read_only=True)
async def cached(ctx: ToolContext) -> str:
    ran.append(ctx.call_id)
    return ctx.credential("github").partition("-")[0]


@tool(credentials=["github"])
async def picky(ctx: ToolContext) -> str:
    """Refuses tokens that say so."""
    if ctx.credential("github").endswith("bad"):
        await ctx.renew_credential("github")
    return ctx.credential("github").partition("-")[0]


@tool(credentials=["github"])
async def stubborn(ctx: ToolContext) -> str:
    """Says that its token is missing, whatever it gets."""
    raise CredentialMissing("github", "the service said 401")


@tool(credentials=["github"])
async def undeclared(ctx: ToolContext) -> str:
    return ctx.credential("slack")


@tool
async def plain(ctx: ToolContext) -> str:
    return ctx.credential("github")


ALL = [whoami, whoami_thread, whose_token, both, cached, picky, stubborn, undeclared, plain]


@pytest.fixture(autouse=True)
def _none_ran() -> None:
    ran.clear()


def here(store: str, **settings: Any) -> Runtime:
    return make(ALL, store, **{"secret_key": KEY, **settings})


async def waits(rt: Runtime, id: str) -> None:
    async def look() -> bool:
        try:
            return (await rt.get(id)).waiting_for == "credential"
        except NotFound:
            return False

    await eventually(look)


@pytest.mark.parametrize("name", ["whoami", "whoami_thread", "whose_token"])
async def test_a_call_waits_until_its_caller_has_the_credential(store: str, name: str) -> None:
    async with here(store) as rt:
        ann = rt.acting_for("ann")
        handle = await ann.submit(name, id="c")
        await waits(ann, "c")
        record = await ann.get("c")
        assert record.state is State.PENDING
        assert record.credential is not None
        assert record.credential["providers"] == ["github"]
        assert record.credential["reasons"] == {"github": "there is none"}
        assert rt.activity().slots_used == 0
        assert [call.id for call in (await rt.history(waiting_for="credential")).items] == ["c"]
        await rt.credentials.put("github", "bob-t0ken", caller="bob")
        assert (await ann.get("c")).waiting_for == "credential", "another caller's is not its own"
        await ann.credentials.put("github", "ann-t0ken")
        result = await handle.result()
        assert (result.output, result.attempts) == ("ann", 1)
        assert_sound(await ann.get("c"))
        assert (await rt.acting_for("bob").call(name)).output == "bob"
        assert [event.data["waiting_for"] for event in (await ann.get("c")).events if "waiting_for" in event.data] == [
            "credential",
            None,
        ]


async def test_a_caller_that_awaits_the_call_waits_with_it(store: str) -> None:
    async with here(store) as rt:
        call = asyncio.ensure_future(rt.call("whoami", id="c"))
        await waits(rt, "c")
        await rt.credentials.put("github", "me-t0ken")
        assert (await call).output == "me"


async def test_all_of_several_are_needed(store: str) -> None:
    async with here(store) as rt:
        handle = await rt.submit("both", id="c")
        await waits(rt, "c")
        await rt.credentials.put("github", "hub-t0ken")
        await eventually(lambda: _missing(rt, ["slack"]))
        await rt.credentials.put("slack", "talk-t0ken")
        assert (await handle.result()).output == ["hub", "talk"]


class Looks:
    """Every look at the credentials of a call, through `CredentialBook.look`. `gate`: they wait for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.callers: list[str] = []
        self.now = self.most = 0
        self.gate: asyncio.Event | None = None
        real = CredentialBook.look

        async def look(book: CredentialBook, caller: str, providers: Sequence[str]) -> Any:
            self.callers.append(caller)
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                if self.gate is not None:
                    await self.gate.wait()
                return await real(book, caller, providers)
            finally:
                self.now -= 1

        monkeypatch.setattr(CredentialBook, "look", look)


async def test_a_credential_that_is_put_concerns_the_calls_of_its_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    async with here("memory:") as rt:
        for number in range(40):
            await rt.acting_for("ann").submit("whoami", id=f"a{number}")
        for number in range(2):
            await rt.acting_for("bob").submit("whoami", id=f"b{number}")
        await rt.acting_for("bob").submit("whoami", id="b2")
        await eventually(lambda: looks.callers.count("ann") == 80)  # when they came, and the first look at all
        await eventually(lambda: not looks.now)
        looks.callers.clear()
        (put,) = rt.engine.credentials.on_put
        put("bob", "slack")
        put("bob", "github")
        await eventually(lambda: len(looks.callers) == 3 and not looks.now)
        assert looks.callers == ["bob"] * 3
        looks.callers.clear()
        looks.gate, looks.most = asyncio.Event(), 0
        for _ in range(50):
            put("ann", "github")
        await eventually(lambda: looks.now > 0)
        for _ in range(50):
            put("ann", "github")
        looks.gate.set()
        await eventually(lambda: len(looks.callers) >= 40 and not looks.now)
        assert looks.most <= 8
        assert len(looks.callers) <= 2 * 40, "one more look at most at those that were looked at when it came"


async def test_a_caller_has_a_limited_number_of_them(store: str) -> None:
    async with here(store, public_url="https://clicket.example") as rt:
        ann = rt.acting_for("ann")
        for number in range(100):
            await ann.credentials.put(f"p{number}", "ann-t0ken")
        with pytest.raises(UsageError, match="100 credentials"):
            await ann.credentials.put("github", "ann-t0ken")
        link = await ann.credentials.link("github")
        with pytest.raises(ConnectRefused, match="full"):
            await ann.credentials.connecting.put(link.url.rpartition("/")[2], "ann-t0ken")
        await ann.credentials.put("p7", "ann-other")
        await ann.credentials.revoke("p7")
        await ann.credentials.put("p7", "ann-third")
        await rt.acting_for("bob").credentials.put("github", "bob-t0ken")


async def _missing(rt: Runtime, names: list[str]) -> bool:
    record = await rt.get("c")
    return record.credential is not None and record.credential["providers"] == names


async def test_a_wait_ends_with_the_call(store: str) -> None:
    async with here(store, credential_timeout=0.05) as rt:
        late = await rt.call("whoami", id="late")
        assert (late.state, late.metadata["phase"]) == (State.TIMEOUT, "credential")
        assert late.error is not None
        assert "credential" in late.error.message
    async with here(store) as rt:
        handle = await rt.submit("whoami", id="c")
        await waits(rt, "c")
        assert await rt.cancel("c")
        assert (await handle.result()).state is State.CANCELLED
        due = await rt.call("whoami", deadline=0.05)
        assert (due.state, due.metadata["phase"]) == (State.TIMEOUT, "deadline")
        await rt.credentials.put("github", "me-t0ken")
        await rt.call("whoami")
        assert len(ran) == 1, "what has ended does not run"


async def test_a_wait_outlives_its_process(sqlite: str) -> None:
    async with here(sqlite, credential_timeout=3600.0) as rt:
        await rt.acting_for("ann").submit("whoami", id="c")
        await waits(rt, "c")
    async with make([], sqlite, secret_key=KEY) as other:
        await other.credentials.put("github", "ann-t0ken", caller="ann")
    async with here(sqlite) as rt:
        result = await (await rt.handle("c")).result()
        record = await rt.get("c")
    assert result.output == "ann"
    assert_sound(record)
    assert sum(event.data.get("waiting_for") == "credential" for event in record.events) == 1


async def test_a_wait_goes_on_in_the_next_process_for_the_rest_of_its_time(sqlite: str) -> None:
    async with here(sqlite, credential_timeout=0.3) as rt:
        await rt.submit("whoami", id="c")
        await waits(rt, "c")
    async with here(sqlite, credential_timeout=3600.0) as rt:
        result = await (await rt.handle("c")).result()
    assert (result.state, result.metadata["phase"]) == (State.TIMEOUT, "credential")


async def test_another_process_puts_it(tmp_path: Path) -> None:
    store = sqlite_url(tmp_path)
    async with here(store) as rt, make([], store, secret_key=KEY) as other:
        handle = await rt.submit("whoami", id="c")
        await waits(rt, "c")
        await other.credentials.put("github", "me-t0ken")
        assert (await handle.result()).output == "me"


async def test_a_worker_runs_it_with_the_caller_s_credential(tmp_path: Path) -> None:
    store = sqlite_url(tmp_path)
    async with here(store, engine="workers") as front, here(store) as worker:
        ann = front.acting_for("ann")
        handle = await ann.submit("cached", id="c")
        await waits(ann, "c")
        assert worker.is_held("c", caller="ann")
        await ann.credentials.put("github", "ann-t0ken")
        assert (await handle.result()).output == "ann"


async def test_revoking_stops_the_next_call_and_not_the_running_one(store: str) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @tool(credentials=["github"])
    async def slow(ctx: ToolContext) -> str:
        started.set()
        await go.wait()
        return ctx.credential("github").partition("-")[0]

    async with make([slow, *ALL], store, secret_key=KEY) as rt:
        await rt.credentials.put("github", "me-t0ken")
        running = await rt.submit("slow")
        await started.wait()
        await rt.credentials.revoke("github")
        await rt.submit("whoami", id="next")
        await waits(rt, "next")
        go.set()
        assert (await running.result()).output == "me"
        with pytest.raises(NotFound):
            await rt.credentials.revoke("github")


async def test_a_refused_credential_makes_the_call_wait_again(store: str) -> None:
    async with here(store) as rt:
        await rt.credentials.put("github", "old-bad")
        handle = await rt.submit("picky", id="c")
        await waits(rt, "c")
        record = await rt.get("c")
        assert (record.state, len(record.attempts)) == (State.RETRYING, 1)
        assert record.attempts[0].outcome == "credential_missing"
        (shown,) = await rt.credentials.list()
        assert (shown.status, shown.reason) == ("expired", "the service refused it")
        await rt.credentials.put("github", "new-good")
        result = await handle.result()
        assert (result.output, result.attempts) == ("new", 2)
        assert_sound(await rt.get("c"))
        assert (await rt.hub("default").status("picky")).consecutive_failures == 0


async def test_a_tool_that_misses_what_is_there_is_not_run_for_ever(store: str) -> None:
    async with here(store) as rt:
        await rt.credentials.put("github", "me-t0ken")
        result = await rt.call("stubborn", id="c")
        assert result.error is not None
        assert (result.error.code, result.attempts) == ("credential_missing", 4)
        assert "though its caller has one" in result.error.message
        assert "401" in result.error.message
        assert_sound(await rt.get("c"))
        assert rt.activity().slots_used == 0


async def test_a_call_that_waits_again_outlives_its_process(sqlite: str) -> None:
    async with here(sqlite) as rt:
        await rt.credentials.put("github", "old-bad")
        await rt.submit("picky", id="c")
        await waits(rt, "c")
    async with here(sqlite) as rt:
        await waits(rt, "c")
        await rt.credentials.put("github", "new-good")
        assert (await (await rt.handle("c")).result()).output == "new"
        assert_sound(await rt.get("c"))


async def test_a_cached_result_belongs_to_a_caller_and_a_credential(store: str) -> None:
    async with here(store) as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        await ann.credentials.put("github", "ann-t0ken")
        await bob.credentials.put("github", "bob-t0ken")
        assert [(await ann.call("cached")).cached for _ in range(2)] == [False, True]
        other = await bob.call("cached")
        assert (other.output, other.cached) == ("bob", False)
        await ann.credentials.put("github", "nan-t0ken")
        again = await ann.call("cached")
        assert (again.output, again.cached) == ("nan", False), "what another account saw is not served"
        await ann.credentials.revoke("github")
        await ann.submit("cached", id="c")
        await waits(ann, "c")


async def test_approval_comes_first_and_the_credential_after_it(store: str) -> None:
    async with make(ALL, store, policy=Policy(ask=["whoami"]), secret_key=KEY) as rt:
        handle = await rt.submit("whoami", id="c")
        await eventually(lambda: _waits_for(rt, "approval"))
        assert await rt.approve("c")
        await waits(rt, "c")
        await rt.credentials.put("github", "me-t0ken")
        assert (await handle.result()).output == "me"


async def _waits_for(rt: Runtime, what: str) -> bool:
    return (await rt.get("c")).waiting_for == what


async def test_a_tool_gets_what_it_declares_and_nothing_else(store: str) -> None:
    async with here(store) as rt:
        await rt.credentials.put("github", "me-t0ken")
        await rt.credentials.put("slack", "talk-t0ken")
        for name in ("undeclared", "plain"):
            result = await rt.call(name)
            assert result.error is not None
            assert "declares" in result.error.message
            assert "t0ken" not in result.error.message


async def test_a_view_of_one_caller_has_that_callers_alone(store: str) -> None:
    async with here(store) as rt:
        ann = rt.acting_for("ann")
        await rt.credentials.put("github", "bob-t0ken", caller="bob")
        await ann.credentials.put("github", "ann-t0ken")
        assert [each.caller for each in await ann.credentials.list()] == ["ann"]
        assert sorted(each.caller for each in await rt.credentials.list()) == ["ann", "bob"]
        for refused in (
            ann.credentials.put("github", "eve-t0ken", caller="bob"),
            ann.credentials.revoke("github", caller="bob"),
            ann.credentials.list(caller="bob"),
            ann.credentials.link("github", caller="bob"),
        ):
            with pytest.raises(PermissionDenied):
                await refused
        entries = [entry.what for entry in await rt.audit.list()]
        assert entries.count("credential.put") == 2


async def test_wrong_names_are_refused(store: str) -> None:
    async with here(store) as rt:
        for name in ("", "Git Hub", "../x", "x" * 65):
            with pytest.raises(UsageError, match="not a name of a provider"):
                await rt.credentials.put(name, "t0ken")
    for wrong in ("Git Hub", ["ok", "NO"], 7):
        with pytest.raises(UsageError, match="credentials"):
            tool(credentials=wrong)(whoami.run)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="Ray"):

        @tool(credentials=["github"], isolation="ray")
        def on_ray() -> None: ...


async def test_a_missing_credential_of_another_tool_is_a_plain_failure(store: str) -> None:
    @tool(credentials=["github"])
    async def confused(ctx: ToolContext) -> None:
        raise CredentialMissing("slack", "not mine")

    async with make([confused], store, secret_key=KEY) as rt:
        await rt.credentials.put("github", "me-t0ken")
        result = await rt.call("confused")
        assert (result.state, result.error and result.error.code) == (State.FAILED, "credential_missing")


def test_the_blocking_runtime_has_them_too(tmp_path: Path) -> None:
    with SyncRuntime(ALL, store=sqlite_url(tmp_path), secret_key=KEY) as rt:
        rt.credentials.put("github", "me-t0ken")
        assert rt.call("whoami").output == "me"
        assert [each.provider for each in rt.credentials.list()] == ["github"]
        assert rt.credentials.token("github") == "me-t0ken"
        rt.credentials.check_secret("me-t0ken")
        with pytest.raises(UsageError):
            rt.credentials.check_secret("")
        assert rt.credentials.revoke("github").provider == "github"
        with pytest.raises(CredentialMissing):
            rt.credentials.token("github")
        with pytest.raises(UsageError, match="public_url"):
            rt.credentials.link("github")


async def test_without_a_key_a_file_keeps_none(sqlite: str) -> None:
    async with make(ALL, sqlite) as rt:
        with pytest.raises(UsageError, match="CLICKET_SECRET_KEY"):
            await rt.credentials.put("github", "me-t0ken")
        await rt.submit("whoami", id="c")
        await waits(rt, "c")
