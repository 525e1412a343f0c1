"""clicket's tools in LangChain and LangGraph, and LangChain's tools in clicket."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from tests.adapters.kit import PNG, RUNS, draw, runtime

import clicket.sync
import clicket.system.bridge
from clicket import QueueFull, Runtime, tool
from clicket.adapters.langchain import as_langchain_tools, from_langchain
from clicket.errors import UsageError


class Model(GenericFakeChatModel):
    """Returns the given messages, and records its tools."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        for each in tools:
            convert_to_openai_tool(each)
        return self


def calling(*calls: tuple[str, str, dict[str, Any]]) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": id, "name": name, "args": args} for id, name, args in calls])


def graph_of(tools: list[BaseTool], *answers: AIMessage, **options: Any) -> Any:
    model = Model(messages=iter(answers)).bind_tools(tools)

    async def think(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def think_sync(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", think_sync if options.pop("sync", False) else think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "agent")
    return graph.compile(**options)


def tool_messages(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


async def test_an_agent_in_langgraph() -> None:
    async with runtime() as rt:
        tools = await as_langchain_tools(rt, "t1")
        wire = next(t.name for t in tools if t.name.startswith("files_read"))
        calls = calling(
            ("c1", "add", {"a": 1}), ("c2", wire, {"path": "é"}), ("c3", "fail", {}), ("c4", "add", {"a": "x"})
        )
        state = await graph_of(tools, calls, AIMessage("done")).ainvoke({"messages": [HumanMessage("go")]})
        records = (await rt.history(thread="t1")).items
    messages = tool_messages(state)
    assert state["messages"][-1].content == "done"
    assert [(m.tool_call_id, m.status) for m in messages] == [
        ("c1", "success"), ("c2", "success"), ("c3", "error"), ("c4", "error"),
    ]  # fmt: skip
    assert messages[0].content == "2"
    assert messages[1].content == "Größe von é: 3 €"
    assert messages[2].content == "tool_error: ValueError: out of paper"
    assert str(messages[3].content).startswith("invalid_input: ")
    assert {r.id for r in records} >= {messages[0].artifact["call_id"], messages[1].artifact["call_id"]}
    assert len(records) == 4


async def test_a_step_that_is_taken_again_repeats_no_call() -> None:
    """A step breaks after its tool ran and before its checkpoint; the graph resumes from its last checkpoint."""
    saver, broken = InMemorySaver(), True

    class Dying(ToolNode):
        async def _afunc(self, *args: Any, **kwargs: Any) -> Any:
            made = await super()._afunc(*args, **kwargs)
            if broken:
                raise RuntimeError("the machine went down")
            return made

    async with runtime() as rt:
        tools = await as_langchain_tools(rt)
        answers = iter([calling(("c1", "add", {"a": 1})), calling(("c1", "add", {"a": 1})), AIMessage("done")])

        async def think(state: MessagesState) -> Any:
            return {"messages": [next(answers)]}

        graph = StateGraph(MessagesState)
        graph.add_node("agent", think)
        graph.add_node("tools", Dying(tools))
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "agent")
        app = graph.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "talk"}}
        with pytest.raises(RuntimeError, match="went down"):
            await app.ainvoke({"messages": [HumanMessage("go")]}, config)
        assert len(RUNS) == 1
        broken = False
        state = await app.ainvoke(None, config)
        records = (await rt.history(thread="talk")).items
    assert [m.content for m in tool_messages(state)] == ["2", "2"]
    assert len(RUNS) == 2, "one run per step that called it, though the first step ran twice"
    assert len(records) == 2


async def test_tools_by_hand() -> None:
    async with runtime() as rt:
        (add, *_) = await as_langchain_tools(rt, "t1")
        assert isinstance(add, BaseTool)
        assert add.args == {"a": {"type": "integer"}, "b": {"default": 1, "type": "integer"}}
        assert await add.ainvoke({"a": 1}) == "2"
        assert await add.ainvoke({"a": 1}) == "2"
        assert len(RUNS) == 2, "no id relates the two calls"
        message = await add.ainvoke({"type": "tool_call", "id": "c1", "name": "add", "args": {"a": None, "b": None}})
        assert message.status == "error"
        assert (await add.ainvoke("1")).startswith("invalid_input")


async def test_arguments_may_have_any_name() -> None:
    @tool
    async def odd(config: str, run_manager: int, asked: int, callbacks: int) -> str:
        return f"{config}{run_manager}{asked}{callbacks}"

    async with runtime(tools=[odd]) as rt:
        (made,) = await as_langchain_tools(rt, "t1")
        given = {"config": "c", "run_manager": 1, "asked": 2, "callbacks": 3}
        assert await made.ainvoke(given) == "c123"
        assert await asyncio.to_thread(made.invoke, given) == "c123"


async def test_invoke_from_another_thread_and_from_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with runtime() as rt:
        (add, *_) = await as_langchain_tools(rt, "t1")
        assert await asyncio.to_thread(add.invoke, {"a": 1}) == "2"
        with pytest.raises(UsageError, match="event loop"):
            add.invoke({"a": 1})
        # A sync graph inside the loop runs its tools in threads that wait for the loop, which waits for the graph.
        monkeypatch.setattr(clicket.system.bridge, "_PATIENCE", 0.05)
        graph = graph_of([add], calling(("c1", "add", {"a": 1})), AIMessage("done"), sync=True)
        with pytest.raises(UsageError, match="blocked"):
            graph.invoke({"messages": [HumanMessage("go")]})
        assert len(RUNS) == 1
    with pytest.raises(UsageError, match="not open"):
        await add.ainvoke({"a": 1})


def test_invoke_when_the_loop_is_gone() -> None:
    async def make() -> Any:
        async with runtime() as rt:
            return (await as_langchain_tools(rt, "t1"))[0]

    add = asyncio.run(make())
    with pytest.raises(UsageError, match="not running"):
        add.invoke({"a": 1})


def test_the_blocking_runtime_serves_both() -> None:
    @tool
    def double(n: int) -> int:
        return 2 * n

    with clicket.sync.Runtime(tools=[double], store="memory://") as rt:
        tools = as_langchain_tools(rt, "t1")
        assert tools[0].invoke({"n": 2}) == "4"
        assert asyncio.run(tools[0].ainvoke({"n": 3})) == "6"
        state = graph_of(tools, calling(("c1", "double", {"n": 4})), AIMessage("done"), sync=True).invoke(
            {"messages": [HumanMessage("go")]}
        )
        assert tool_messages(state)[0].content == "8"


async def test_refusals_of_the_runtime_are_messages() -> None:
    class Door:
        def __init__(self, rt: Runtime) -> None:
            self.tools = rt.tools

        async def call(self, *_: Any, **__: Any) -> Any:
            raise QueueFull("full")

    async with runtime() as rt:
        door: Any = Door(rt)
        (add, *_) = await as_langchain_tools(door, "t1")
        assert await add.ainvoke({"a": 1}) == "queue_full: full"


# LangChain's tools in clicket.


@langchain_tool
def multiply(a: int, b: int = 2) -> int:
    """Multiply."""
    return a * b


@langchain_tool
async def where() -> str:
    """The thread it runs in."""
    return threading.current_thread().name


@langchain_tool
def name_of_call(text: str, call: Annotated[str, InjectedToolCallId]) -> str:
    """Wants the id of its call."""
    return f"{text} {call}"


@langchain_tool
def breaks() -> str:
    """Fails."""
    raise ToolException("no luck")


async def test_their_tools_run_as_ours() -> None:
    tools = [from_langchain(multiply, timeout=5), from_langchain(where), from_langchain(name_of_call)]
    tools += [from_langchain(breaks, max_retries=0, name="it.breaks", description="It does.")]
    async with Runtime(tools, store="memory://") as rt:
        result = await rt.call("multiply", {"a": 4})
        assert (result.output, result.content) == (8, "8")
        assert (await rt.call("where")).output == threading.current_thread().name
        named = await rt.call("name_of_call", {"text": "x"}, id="call-7")
        assert named.output == "x call-7"
        broken = await rt.call("it.breaks")
        assert broken.error is not None
        assert (broken.error.code, broken.error.type, broken.error.message) == (
            "tool_error",
            "ToolException",
            "no luck",
        )
        for wrong in ({"a": "x"}, {}, {"a": 1, "z": 2}):
            refused = await rt.call("multiply", wrong)
            assert refused.error is not None
            assert refused.error.code == "invalid_input"
        infos = {info.name: info for info in await rt.tools()}
    assert infos["multiply"].description == "Multiply."
    assert infos["multiply"].timeout == 5
    assert infos["it.breaks"].description == "It does."
    assert not infos["multiply"].is_async
    assert infos["where"].is_async
    assert list(infos["name_of_call"].input_schema["properties"]) == ["text"]


async def test_their_sync_tools_leave_the_loop_free() -> None:
    seen: list[str] = []
    made = StructuredTool.from_function(lambda: seen.append(threading.current_thread().name), name="s", description="d")
    async with Runtime([from_langchain(made)], store="memory://") as rt:
        assert (await rt.call("s")).success
    assert seen != [threading.current_thread().name]


async def test_there_and_back_again() -> None:
    async with Runtime([from_langchain(multiply)], store="memory://") as rt:
        (made,) = await as_langchain_tools(rt, "t1")
        assert await made.ainvoke({"a": 3}) == "6"


def test_what_is_no_tool_of_theirs() -> None:
    with pytest.raises(UsageError, match="LangChain tool"):
        from_langchain(print)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="isolation"):
        from_langchain(multiply, isolation="process")
    with pytest.raises(UsageError, match="unknown option"):
        from_langchain(multiply, tmeout=3)


async def test_images_of_a_result_are_shown() -> None:
    async with runtime(tools=[draw]) as rt:
        [tool] = await as_langchain_tools(rt, "t1")
        call = {"type": "tool_call", "id": "call_1", "name": "draw", "args": {}}
        message = await tool.ainvoke(call)
        text, picture = message.content_blocks
        assert text["text"].startswith("a square")
        assert (picture["type"], picture["mime_type"], base64.b64decode(picture["base64"])) == (
            "image",
            "image/png",
            PNG,
        )
        assert message.artifact["state"] == "completed"
