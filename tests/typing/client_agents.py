"""Read by mypy and pyright, never run: agents of a server, and blocking ones, have the types of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import msgspec

from clicket import sync
from clicket.agents import AgentEvent, AgentResult, AgentState, Page, Sent, ThreadView
from clicket.client import AgentInfo, Client, RemoteAgent, SyncAgent, SyncClient
from clicket.model.chat import ChatMessage
from clicket.model.ports import ChatModel


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


class Price(msgspec.Struct):
    amount: int


def local(rt: sync.Runtime, client: sync.Client, model: ChatModel) -> None:
    assert_type(client, SyncClient)
    agent = sync.ReActAgent(rt, model, output=Price, max_steps=3)
    assert_type(agent, sync.ReActAgent[Price])
    assert_type(agent.run("question").value, Price | None)
    assert_type(agent.run("question", output=int), AgentResult[int])
    assert_type(agent.acting_for(rt.acting_for("ann")), sync.ReActAgent[Price])
    assert_type(agent.begin("question"), int)
    assert_type(agent.stream("question"), Iterator[AgentEvent])
    assert_type(agent.send("question"), Sent)
    assert_type(agent.history("t", after=3), Page)
    assert_type(agent.state("t"), AgentState)
    sync.PlanExecuteAgent(rt, model, max_task_steps=3).run("question").text.upper()
    sync.ReActAgent(rt, model, max_step=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    agent.run(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
