"""Deps for a type checker: a parameter with `Depends` has its own type. Read, never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, assert_type

import clicket.sync
from clicket import Depends, Runtime, ToolContext, tool
from clicket.agents import AgentResult, ReActAgent, Turn


class Pool:
    def read(self) -> str:
        return ""


async def connect() -> Pool:
    return Pool()


@tool
async def by_name(row: int, db: Annotated[Pool, Depends("db")]) -> str:
    assert_type(db, Pool)
    return db.read()


@tool
def by_context(ctx: ToolContext) -> str:
    assert_type(ctx.deps, Mapping[str, Any])
    return str(ctx.deps["db"])


async def runs(agent: ReActAgent, turn: Turn) -> None:
    Runtime([by_name], deps={"db": connect, "other": Pool})
    clicket.sync.Runtime([by_name], deps={"db": Pool})
    assert_type(await by_name(1, Pool()), str)
    assert_type(await agent.run("go", deps={"db": Pool()}), AgentResult[Any])
    assert_type(await agent.begin("go", deps={"db": Pool()}), int)
    agent.stream("go", deps={"db": Pool()})
    await agent.resume("t", deps={"db": Pool()})
    assert_type(turn.deps, Mapping[str, Any])

    await by_name(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await by_name(1, "db")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Runtime(deps={"db": Pool()})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    await agent.run("go", deps=["db"])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    Depends(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
