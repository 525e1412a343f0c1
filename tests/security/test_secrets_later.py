"""Secrets of calls that run later: after a crash, in another process, after an approval. With the key they run with the
real value, without it they end as `arguments_lost`. No call ever runs with the mask."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.children import ROOT, environment
from tests.kit.forks import forked
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import make
from tests.security.secrets_child import POLICY, TOOLS
from tests.security.secrets_kit import Canary, assert_clean, assert_folder_clean, got, hash_of

from clicket import ClicketError, Policy, State
from clicket.errors import InvalidInput, PermissionDenied
from clicket.safety.vault import MASK

KEY, OTHER = "the first key of this test", "quite another key altogether"


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'calls.db'}"


def arguments(canary: Canary, folder: Path, **more: Any) -> dict[str, Any]:
    given = {"name": canary.name, "password": canary.password, "amount": 3, "folder": str(folder)}
    return {**given, "header": f"{canary.name} {canary.token}", **more}


async def crash(folder: Path, canary: Canary, key: str | None) -> None:
    """Calls that wait, wait for approval, and run, in a process that is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *forked("tests.security.secrets_child"), "-m", "tests.security.secrets_child", url(folder), str(folder), cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        given = {"arguments": arguments(canary, folder), "key": key, "metadata": {"auth": f"Bearer {canary.token}"}}
        process.stdin.write(json.dumps(given).encode() + b"\n")
        wanted = {"started again", "submitted"}
        while wanted:
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            assert line, "the child ended"
            wanted.discard(line.decode().strip())
    finally:
        process.kill()
        await process.communicate()
    (folder / "second").touch()


async def outcome(rt: Any, id: str) -> Any:
    return await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)


@pytest.mark.parametrize("key", [KEY, f"{OTHER},{KEY}"], ids=["the same key", "a rotated key"])
async def test_after_a_crash_calls_run_with_the_real_thing(tmp_path: Path, key: str) -> None:
    canary = Canary()
    await crash(tmp_path, canary, KEY)
    async with make(TOOLS, url(tmp_path), policy=POLICY, secret_key=key) as rt:
        await rt.approve("guarded", by="somebody")
        for id in ("pay", "again", "guarded"):
            result = await outcome(rt, id)
            assert result.success, result.error
            assert got(tmp_path, id) == hash_of(canary, 3)
            record = await rt.get(id)
            assert record.arguments["password"] == MASK
            assert_clean(canary, record, result)
        assert (await rt.get("pay")).metadata == {"auth": f"Bearer {MASK}"}
    assert_folder_clean(canary, tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, None), (None, KEY), (KEY, None), (KEY, OTHER)],
    ids=["none", "too late", "gone", "wrong"],
)
async def test_without_the_key_they_are_lost_and_never_run(
    tmp_path: Path, before: str | None, after: str | None
) -> None:
    canary = Canary()
    await crash(tmp_path, canary, before)
    async with make(TOOLS, url(tmp_path), policy=POLICY, secret_key=after) as rt:
        for id in ("pay", "again", "guarded"):
            result = await outcome(rt, id)
            assert result.state is State.FAILED
            assert result.error is not None
            assert result.error.code == "arguments_lost"
            assert "CLICKET_SECRET_KEY" in result.error.message
            assert got(tmp_path, id) is None
        assert not await rt.approve("guarded")
    assert_folder_clean(canary, tmp_path)


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
async def test_calls_for_other_runtimes(tmp_path: Path, key: str | None) -> None:
    """engine="workers": the runtime that accepts a call never runs it."""
    canary = Canary()
    async with make(TOOLS, url(tmp_path), engine="workers", secret_key=key) as front:
        handle = await front.submit("pay", arguments(canary, tmp_path))
        async with make(TOOLS, url(tmp_path), secret_key=key):
            result = await asyncio.wait_for(handle.result(), PATIENCE)
    if key is None:
        assert result.error is not None
        assert result.error.code == "arguments_lost"
        assert got(tmp_path, canary.name) is None
    else:
        assert result.output == 3
        assert got(tmp_path, canary.name) == hash_of(canary, 3)


async def test_what_is_handed_back_at_closing_goes_on_with_the_key(tmp_path: Path) -> None:
    canary = Canary()
    async with make(TOOLS, url(tmp_path), policy=Policy(ask=["pay"]), secret_key=KEY) as rt:
        await rt.submit("pay", arguments(canary, tmp_path), id="one")
    async with make(TOOLS, url(tmp_path), secret_key=KEY) as rt:
        assert await rt.approve("one")
        assert (await outcome(rt, "one")).output == 3
    assert got(tmp_path, canary.name) == hash_of(canary, 3)


# Approvals by people to whom clicket shows masks.


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
async def test_a_mask_that_an_approver_left_means_what_it_stands_for(tmp_path: Path, key: str | None) -> None:
    canary = Canary()
    async with make(TOOLS, url(tmp_path), policy=Policy(ask=["pay"]), secret_key=key) as rt:
        await rt.submit("pay", arguments(canary, tmp_path), id="one")
        shown = (await rt.get("one")).arguments
        assert shown["password"] == MASK
        assert await rt.approve("one", arguments={**shown, "amount": 7}, reason=f"see {canary.token} {canary.password}")
        assert (await outcome(rt, "one")).output == 7
        record = await rt.get("one")
        assert_clean(canary, record, await rt.audit())
    assert record.arguments["amount"] == 7
    assert record.events[0].data["arguments"]["amount"] == 3
    assert got(tmp_path, canary.name) == hash_of(canary, 7)
    assert_folder_clean(canary, tmp_path)


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
async def test_a_new_secret_of_an_approver_is_hidden_too(tmp_path: Path, key: str | None) -> None:
    canary, new = Canary(), Canary()
    async with make(TOOLS, url(tmp_path), policy=Policy(ask=["pay"]), secret_key=key) as rt:
        await rt.submit("pay", arguments(canary, tmp_path), id="one")
        shown = (await rt.get("one")).arguments
        assert await rt.approve("one", arguments={**shown, "password": new.password})
        assert (await outcome(rt, "one")).output == 3
        for each in (canary, new):
            assert_clean(each, await rt.get("one"), await rt.audit())
    assert got(tmp_path, canary.name) == hash_of(new, 3)
    new.name = canary.name
    assert_folder_clean(canary, tmp_path)
    assert_folder_clean(new, tmp_path)


async def test_an_approval_in_one_runtime_runs_in_another(tmp_path: Path) -> None:
    canary, new = Canary(), Canary()
    policy = Policy(ask=["pay"])
    async with (
        make(TOOLS, url(tmp_path), policy=policy, secret_key=KEY) as runs,
        make(TOOLS, url(tmp_path), policy=policy, secret_key=KEY) as decides,
    ):
        handle = await runs.submit("pay", arguments(canary, tmp_path), id="one")
        shown = (await decides.get("one")).arguments
        assert await decides.approve("one", arguments={**shown, "password": new.password, "amount": 9})
        assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == 9
    assert got(tmp_path, canary.name) == hash_of(new, 9)


async def test_a_process_without_the_tool_masks_the_same_values(tmp_path: Path) -> None:
    canary, new = Canary(), Canary()
    policy = Policy(ask=["pay"])
    async with make(TOOLS, url(tmp_path), policy=policy, secret_key=KEY) as runs:
        handle = await runs.submit("pay", arguments(canary, tmp_path), id="one")
        cancelled = await runs.submit("pay", arguments(canary, tmp_path), id="two")
        async with make((), url(tmp_path), policy=policy, secret_key=KEY) as decides:
            shown = (await decides.get("one")).arguments
            edited = {**shown, "password": new.password}
            assert await decides.approve("one", arguments=edited, reason=f"not {canary.password}", by=canary.password)
            assert await decides.cancel("two", reason=f"it says {canary.password}")
            assert (await asyncio.wait_for(handle.result(), PATIENCE)).output == 3
            assert (await asyncio.wait_for(cancelled.result(), PATIENCE)).state is State.CANCELLED
    assert got(tmp_path, canary.name) == hash_of(new, 3)
    new.name = canary.name
    assert_folder_clean(canary, tmp_path)
    assert_folder_clean(new, tmp_path)


async def test_a_mask_that_stands_for_nothing_is_refused(tmp_path: Path) -> None:
    canary = Canary()
    async with make(TOOLS, url(tmp_path), policy=Policy(ask=["pay"]), secret_key=KEY) as rt:
        await rt.submit("pay", arguments(canary, tmp_path), id="one")
        shown = (await rt.get("one")).arguments
        with pytest.raises(InvalidInput, match="mask"):
            await rt.approve("one", arguments={**shown, "name": f"to {MASK}"})
        assert (await rt.get("one")).waiting_for == "approval"
        assert await rt.deny("one")
    assert got(tmp_path, canary.name) is None


async def test_a_weak_key_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ClicketError, match="16 characters"):
        async with make(TOOLS, url(tmp_path), secret_key="short"):
            pass
    assert not (tmp_path / "calls.db").exists()


async def test_an_approver_does_not_see_secrets_that_a_policy_quotes(tmp_path: Path) -> None:
    """Masks that the approver did not change stand for the real values, and a failing policy may quote those."""
    canary = Canary()

    def rule(request: Any) -> Any:
        if request.arguments["amount"] > 100:
            raise ValueError(f"cannot judge {request.arguments}")
        return "ask"

    async with make(TOOLS, url(tmp_path), policy=Policy(rule=rule)) as rt:
        waiting = await rt.submit("again", arguments(canary, tmp_path))
        shown = (await rt.get(waiting.id)).arguments
        with pytest.raises(PermissionDenied) as refused:
            await rt.approve(waiting.id, arguments={**shown, "amount": 1_000})
        said = f"{refused.value} {refused.value.message} {refused.value.details} {refused.value.__cause__}"
        assert "cannot judge" in said
        assert canary.password not in said
        assert canary.token not in said
        await rt.deny(waiting.id)


@pytest.mark.parametrize("when", ["at once", "after a restart"])
async def test_the_record_does_not_have_secrets_that_the_runners_policy_quotes(tmp_path: Path, when: str) -> None:
    canary, new = Canary(), Canary()

    def rule(request: Any) -> Any:
        if request.arguments["amount"] > 100:
            raise ValueError(f"cannot judge {request.arguments}")
        return "ask"

    def runner() -> Any:
        return make(TOOLS, url(tmp_path), policy=Policy(rule=rule), secret_key=KEY)

    async def approve() -> None:
        async with make((), url(tmp_path), secret_key=KEY) as decides:
            shown = (await decides.get("one")).arguments
            assert await decides.approve("one", arguments={**shown, "password": new.password, "amount": 1_000})

    async with runner() as rt:
        await rt.submit("pay", arguments(canary, tmp_path), id="one")
        if when == "at once":
            await approve()
            result = await outcome(rt, "one")
    if when != "at once":
        await approve()
        async with runner() as rt:
            result = await outcome(rt, "one")
    assert result.error.code == "permission_denied"
    assert "cannot judge" in result.error.message
    new.name = canary.name
    assert_folder_clean(canary, tmp_path)
    assert_folder_clean(new, tmp_path)
