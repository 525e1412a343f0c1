"""The adapters for a type checker: awaited with an async runtime, plain with a blocking one."""

from __future__ import annotations

from typing import Any, assert_type

from anthropic.types import Message, ToolParam, ToolResultBlockParam
from openai.types.chat import ChatCompletion, ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam

import clicket.sync
from clicket import Runtime
from clicket.adapters import anthropic, openai
from clicket.client import Client


async def awaited(rt: Runtime, client: Client, message: Message, completion: ChatCompletion) -> None:
    assert_type(await anthropic.tool_params(rt, "t1", strict=True), list[ToolParam])
    assert_type(await anthropic.run(rt, message, "t1", response_id="7"), list[ToolResultBlockParam])
    assert_type(await anthropic.run(client, message, "t1"), list[ToolResultBlockParam])
    assert_type(await openai.tool_params(rt, "t1"), list[ChatCompletionFunctionToolParam])
    assert_type(await openai.tool_params(client, "t1", api="responses"), list[FunctionToolParam])
    assert_type(await openai.run(rt, completion, "t1"), list[Any])


def plain(rt: clicket.sync.Runtime, message: Message) -> None:
    assert_type(anthropic.tool_params(rt, "t1"), list[ToolParam])
    assert_type(anthropic.run(rt, message, "t1"), list[ToolResultBlockParam])
    assert_type(openai.tool_params(rt, "t1", api="responses"), list[FunctionToolParam])
