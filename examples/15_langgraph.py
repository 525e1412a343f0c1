"""clicket tools in LangGraph, and a LangChain tool in clicket. A step that LangGraph repeats does not repeat its effects.

Needs `pip install 'clicket[langchain]' langgraph`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from clicket import Runtime, tool
from clicket.adapters.langchain import as_langchain_tools, from_langchain

SENT: list[str] = []


@tool
async def send(text: str) -> str:
    """Send a letter. This effect must not happen twice."""
    SENT.append(text)
    return f"sent {text!r}"


@langchain_tool
def shout(text: str) -> str:
    """A LangChain tool. clicket adds a timeout, retries and a journal."""
    return text.upper()


def calls(*wanted: tuple[str, dict[str, Any]]) -> AIMessage:
    asked = [{"id": f"call_{n}", "name": name, "args": args} for n, (name, args) in enumerate(wanted)]
    return AIMessage("", tool_calls=asked)


async def main() -> None:
    answers = iter([calls(("send", {"text": "hi"}), ("shout", {"text": "hey"})), AIMessage("done")])
    down = [True]

    async def agent(state: MessagesState) -> Any:
        return {"messages": [next(answers)]}  # replaces a chat model with these tools bound

    async with Runtime(tools=[send, from_langchain(shout, timeout=5)], store="memory://") as rt:
        node = ToolNode(await as_langchain_tools(rt))

        async def tools(state: MessagesState, config: RunnableConfig) -> Any:
            made = await node.ainvoke(state, config)
            if down:
                down.clear()
                raise ConnectionError("the machine failed before LangGraph stored the step")
            return made

        graph = StateGraph(MessagesState)
        graph.add_node("agent", agent)
        graph.add_node("tools", tools)
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "agent")
        app = graph.compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t1"}}
        try:
            await app.ainvoke({"messages": [HumanMessage("write")]}, config)
        except ConnectionError as error:
            print("broke:", error)
        state = await app.ainvoke(None, config)  # LangGraph repeats the step
        for message in state["messages"]:
            print(f"{message.type}: {message.content}")
    print("letters sent:", SENT)
    assert SENT == ["hi"]


if __name__ == "__main__":
    asyncio.run(main())
