"""The prompts, resources and completions that the conformance suite expects, on the SDK's own server."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.subscriptions import InMemorySubscriptionBus

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NAME = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
MANY = 1_000_000

bus = InMemorySubscriptionBus()
extras: MCPServer[Any] = MCPServer("fixture", log_level="ERROR", subscriptions=bus)


@extras.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A static text."""
    return "This is the content of the static text resource."


@extras.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A static picture."""
    return base64.b64decode(PNG)


@extras.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    """A resource with a parameter."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@extras.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


@extras.prompt()
def test_simple_prompt() -> list[UserMessage]:
    """A prompt without arguments."""
    return [UserMessage("This is a simple prompt for testing.")]


@extras.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    """A prompt with arguments."""
    return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]


@extras.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # the suite's name
    """A prompt with a resource in it."""
    contents = types.TextResourceContents(
        uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [
        UserMessage(types.EmbeddedResource(resource=contents)),
        UserMessage("Please process the embedded resource above."),
    ]


@extras.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with a picture in it."""
    return [
        UserMessage(types.ImageContent(data=PNG, mime_type="image/png")),
        UserMessage("Please analyze the image above."),
    ]


@extras.prompt()
def test_input_required_result_prompt(ctx: Context[Any, Any]) -> Any:
    """A prompt that asks first."""
    given = ctx.input_responses or {}
    if "user_context" not in given:
        form = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
        asked = {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "What context should the prompt use?", "requestedSchema": form},
        }
        return types.InputRequiredResult.model_validate({"inputRequests": {"user_context": asked}}, by_name=False)
    return [UserMessage("the prompt, with context")]


@extras.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=["paris", "park"], total=2, has_more=False)


async def _subscribed(ctx: Any, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


_base = extras._lowlevel_server
_base.add_request_handler("resources/subscribe", types.SubscribeRequestParams, _subscribed)
_base.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, _subscribed)
