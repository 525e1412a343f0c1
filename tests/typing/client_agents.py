"""Read by mypy and pyright, never run: agents of a server have the types of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from clicket.agents import AgentEvent, AgentResult, AgentState, Page, ThreadView
from clicket.client import AgentInfo, Client, RemoteAgent, SyncAgent, SyncClient
from clicket.model.chat import ChatMessage


async def remote(client: Client) -> None:
    agent = client.agent("helper")
    assert_type(agent, RemoteAgent)
    assert_type(await client.agents(), list[AgentInfo])
    assert_type(await agent.run("question", thread="t"), AgentResult)
    assert_type(await agent.begin("question"), int)
    assert_type(agent.stream("question"), AsyncIterator[AgentEvent])
    assert_type(agent.events("t", follow=True), AsyncIterator[AgentEvent])
    assert_type(await agent.stop("t"), bool)
    assert_type(await agent.state("t"), AgentState)
    assert_type(await agent.look("t"), ThreadView)
    assert_type(await agent.messages("t"), list[ChatMessage])
    assert_type(await agent.history("t", after=3), Page)
    await agent.run(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def blocking(client: SyncClient) -> None:
    agent = client.agent()
    assert_type(agent, SyncAgent)
    assert_type(agent.run("question"), AgentResult)
    assert_type(agent.stream("question"), Iterator[AgentEvent])
    assert_type(agent.look(), ThreadView)
