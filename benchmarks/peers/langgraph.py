"""LangGraph: a graph of one ToolNode; variants `graph`, `sqlite` (as shipped) and `sqlite-normal` (WAL/NORMAL, as our process mode).

Each call gets a thread id of its own, so that no conversation grows while we measure: the cheapest case for the peer.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from benchmarks import timing


@tool
async def noop(a: int) -> dict:
    """Return a small dict."""
    return {"a": a}


async def main() -> None:
    arguments = timing.budget()
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([noop]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    with timing.scratch() as folder:
        async with AsyncExitStack() as stack:
            saver = None
            if arguments.variant != "graph":
                saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")))
                await saver.setup()
                if arguments.variant == "sqlite-normal":
                    await saver.conn.execute("PRAGMA synchronous=NORMAL")
            app = graph.compile(checkpointer=saver)
            numbers = count()

            async def call() -> dict:
                asked = {"name": "noop", "args": {"a": 1}, "id": "1", "type": "tool_call"}
                return await app.ainvoke(
                    {"messages": [AIMessage(content="", tool_calls=[asked])]},
                    {"configurable": {"thread_id": str(next(numbers))}},
                )

            assert (await call())["messages"][-1].content == '{"a": 1}'
            figures = await timing.at_once(call, seconds=arguments.seconds)
    timing.report(figures, timing.versions("langgraph", "langgraph-checkpoint-sqlite", "langchain-core"))


asyncio.run(main())
