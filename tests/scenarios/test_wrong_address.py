"""The address of another kind of server, and a runtime that is entered the wrong way: the error says which, and what to write."""

from __future__ import annotations

import asyncio

import pytest
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer, free_port

import clicket.sync
from clicket import Runtime
from clicket.agents import Agent, Limits, PlanExecuteAgent, ReActAgent
from clicket.client import Client, SyncClient
from clicket.errors import StoreUnavailable, UsageError
from clicket.server import serving
from clicket.stores.foreign_server import refuse_foreign_server
from clicket.testing import ScriptedModel, memory_runtime

LONG = 60.0


async def test_another_kind_of_server_is_named(redis: RedisServer, postgres: PostgresServer) -> None:
    async with serving(Runtime(store="memory://"), port=0) as it:
        ports = {"Redis": redis.port, "PostgreSQL": postgres.port, "HTTP": it.port}
        schemes = {"redis": "Redis", "postgresql": "PostgreSQL"}
        for scheme, kind in schemes.items():
            for other, port in ports.items():
                url = f"{scheme}://127.0.0.1:{port}/0"
                if other == kind:
                    await refuse_foreign_server(url, url, LONG)
                    continue
                with pytest.raises(
                    StoreUnavailable, match=rf"{other} server answers at 127.0.0.1:{port}, not {kind}"
                ) as refused:
                    await refuse_foreign_server(url, url, LONG)
                assert not refused.value.transient
    await refuse_foreign_server(f"redis://127.0.0.1:{free_port()}/0", "", LONG)  # nothing answers
    for none in ("sqlite:///x.db", "postgresql:///local", "postgresql://a:1,b:2/x"):
        await refuse_foreign_server(none, none, LONG)


async def test_a_runtime_does_not_wait_for_a_server_of_another_kind(postgres: PostgresServer) -> None:
    with pytest.raises(
        StoreUnavailable, match=r"a PostgreSQL server answers at .* begins with postgresql://"
    ) as refused:
        await Runtime(store=f"redis://127.0.0.1:{postgres.port}/0", open_timeout=3_600).open()
    assert "waited" not in str(refused.value)


def test_a_runtime_that_is_entered_the_wrong_way_says_the_right_one() -> None:
    for thing, said in (
        (
            Runtime(store="memory://"),
            r"write `async with clicket.Runtime\(...\) as rt:`, or `with clicket.sync.Runtime",
        ),
        (
            Client("http://127.0.0.1:1"),
            r"write `async with clicket.client.Client\(...\) as rt:`, or `with clicket.client.SyncClient",
        ),
    ):
        with pytest.raises(UsageError, match=said), thing:  # type: ignore[union-attr]  # type checkers refuse it
            raise AssertionError("entered")

    async def enter(thing: object) -> None:
        async with thing:  # type: ignore[attr-defined]  # type checkers refuse it
            raise AssertionError("entered")

    with pytest.raises(
        UsageError, match=r"write `with clicket.sync.Runtime\(...\) as rt:`, or `async with clicket.Runtime"
    ):
        asyncio.run(enter(clicket.sync.Runtime(store="memory://")))
    with pytest.raises(
        UsageError, match=r"write `with clicket.client.SyncClient\(...\) as rt:`, or `async with clicket.client.Client"
    ):
        asyncio.run(enter(SyncClient("http://127.0.0.1:1")))


async def test_an_agent_names_the_keyword_that_was_meant() -> None:
    async with memory_runtime() as rt:
        for kind in (ReActAgent, PlanExecuteAgent):
            with pytest.raises(
                UsageError,
                match=rf"{kind.__name__} has no keyword 'max_step'. Did you mean 'max_steps'.* Known: rt, model",
            ):
                kind(rt, ScriptedModel([]), max_step=3)  # type: ignore[call-arg]  # the point
        with pytest.raises(UsageError, match=r"Agent has no keyword 'limit'. Did you mean 'limits'"):
            Agent(rt, None, name="a", limit=Limits())  # type: ignore[call-arg,arg-type]  # the point
        assert ReActAgent(rt, ScriptedModel([]), max_steps=3).limits.max_steps == 3
