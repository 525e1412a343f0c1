"""langchain: `create_agent`. Variants `memory` (no checkpointer: the caller keeps the messages), `sqlite`
(AsyncSqliteSaver as shipped) and `sqlite-normal` (WAL/NORMAL, as our process mode)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks import timing
from benchmarks.turns import PLANS, TOOL, Counted, Plan, measured

counted = Counted()


@tool(TOOL)
async def noop(a: int) -> dict:
    """Return a small dict."""
    counted.ran += 1
    return {"a": a}


class Instant(BaseChatModel):
    """Makes the tool calls of the plan."""

    plan: Any

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        counted.asked += 1
        last = messages[-1]
        wanted = self.plan.wanted(json.loads(last.content)["a"] if last.type == "tool" else None)
        calls = [{"name": TOOL, "args": {"a": a}, "id": f"call_{a}", "type": "tool_call"} for a in wanted]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        message = AIMessage(content="" if calls else "done", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *rest: Any, **kwargs: Any) -> Any:
        return self._generate(messages)  # on the loop: a thread for each answer would slow the peer


async def main() -> None:
    arguments = timing.budget()
    with timing.scratch() as folder:
        async with AsyncExitStack() as stack:
            saver = None
            if arguments.variant != "memory":
                saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")))
                await saver.setup()
                if arguments.variant == "sqlite-normal":
                    await saver.conn.execute("PRAGMA synchronous=NORMAL")
            agents = {plan: create_agent(Instant(plan=plan), [noop], checkpointer=saver) for plan in PLANS}
            kept: dict[str, list[BaseMessage]] = {}

            async def run(plan: Plan, thread: str) -> str:
                config = {"configurable": {"thread_id": thread}, "recursion_limit": 1_000}
                before = kept.get(thread, []) if saver is None else []
                state = await agents[plan].ainvoke({"messages": [*before, ("user", "go")]}, config)
                if saver is None:
                    kept[thread] = state["messages"]
                return state["messages"][-1].content

            figures = await measured(run, counted, arguments.seconds)
    timing.report(figures, timing.versions("langchain", "langgraph", "langgraph-checkpoint-sqlite", "langchain-core"))


asyncio.run(main())
