"""The tools that the conformance suite expects of a server, as a clicket user would write them."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged
from pydantic import Field
from tests.mcp.fixture_extras import PNG, bus

from clicket import ToolContext, tool
from clicket.mcp import ProtocolError, answers, audio, elicit, image, list_roots, need, reply, resource, sample, text

WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NAME = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
MANY = 1_000_000


# Content.


@tool(read_only=True)
async def test_simple_text() -> str:
    """Tests simple text content."""
    return "This is a simple text response for testing."


@tool(tags={"mcp"})
async def test_image_content() -> Any:
    """Tests image content."""
    return reply(image(PNG))


@tool(tags={"mcp"})
async def test_audio_content() -> Any:
    """Tests audio content."""
    return reply(audio(WAV))


@tool(tags={"mcp"})
async def test_embedded_resource() -> Any:
    """Tests an embedded resource."""
    return reply(resource("test://embedded-resource", "This is an embedded resource content."))


@tool(tags={"mcp"})
async def test_multiple_content_types() -> Any:
    """Tests several kinds of content."""
    return reply(
        text("Multiple content types test:"),
        image(PNG),
        resource("test://mixed-content-resource", json.dumps({"test": "data", "value": 123}), "application/json"),
    )


@tool(failure_threshold=MANY)
async def test_error_handling() -> str:
    """Always fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_logging(ctx: ToolContext) -> str:
    """Makes remarks while it works."""
    ctx.note("Tool execution started")
    await asyncio.sleep(0.05)
    ctx.note("Tool processing data")
    await asyncio.sleep(0.05)
    ctx.note("Tool execution completed")
    return "Tool with logging executed successfully"


@tool
async def test_logging_tool(ctx: ToolContext) -> str:
    """Makes a remark."""
    ctx.note("a remark")
    return "done"


@tool
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Reports progress."""
    for step in (0, 50, 100):
        ctx.progress(step, 100, f"Completed step {step} of 100")
        await ctx.drain()
        await asyncio.sleep(0.05)
    return "done"


@tool
async def greet(name: str) -> str:
    """Says hello."""
    return f"Hello, {name}!"


# Questions.


@tool(tags={"mcp"})
async def test_sampling(prompt: str, ctx: ToolContext) -> Any:
    """Asks the client's model."""
    given = answers(ctx).get("completion")
    if given is None:
        return need(completion=sample(prompt, max_tokens=100))
    return f"LLM response: {given['content']['text']}"


@tool(tags={"mcp"})
async def test_elicitation(message: str, ctx: ToolContext) -> Any:
    """Asks the user."""
    form = {
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    return _asked(ctx, message, form, "User response")


@tool(tags={"mcp"})
async def test_elicitation_sep1034_defaults(ctx: ToolContext) -> Any:
    """Asks the user, with defaults."""
    form = {
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
        "required": [],
    }
    return _asked(ctx, "Please provide user information", form, "Elicitation completed")


@tool(tags={"mcp"})
async def test_elicitation_sep1330_enums(ctx: ToolContext) -> Any:
    """Asks the user to choose."""
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    plain = ["option1", "option2", "option3"]
    names = ["Option One", "Option Two", "Option Three"]
    form = {
        "properties": {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
        "required": [],
    }
    return _asked(ctx, "Please choose", form, "Elicitation completed")


def _asked(ctx: ToolContext, message: str, form: dict[str, Any], says: str) -> Any:
    given = answers(ctx).get("form")
    if given is None:
        return need(form=elicit(message, form))
    return f"{says}: action={given['action']}, content={json.dumps(given.get('content', {}))}"


@tool(tags={"mcp"})
async def test_input_required_result_elicitation(ctx: ToolContext) -> Any:
    """Asks for a name."""
    given = answers(ctx).get("user_name")
    if given is None:
        return need(user_name=elicit("What is your name?", NAME))
    return f"Hello, {given['content']['name']}!"


@tool(tags={"mcp"})
async def test_input_required_result_sampling(ctx: ToolContext) -> Any:
    """Asks the model for a capital."""
    given = answers(ctx).get("capital_question")
    if given is None:
        return need(capital_question=sample("What is the capital of France?", max_tokens=100))
    return str(given["content"]["text"])


@tool(tags={"mcp"})
async def test_input_required_result_list_roots(ctx: ToolContext) -> Any:
    """Asks for the client's folders."""
    given = answers(ctx).get("client_roots")
    if given is None:
        return need(client_roots=list_roots())
    return "Roots: " + ", ".join(root["uri"] for root in given["roots"])


@tool(tags={"mcp"})
async def test_input_required_result_request_state(ctx: ToolContext) -> Any:
    """Asks, and wants its state back."""
    if "confirm" not in answers(ctx):
        form = {"properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        return need(confirm=elicit("Please confirm", form))
    return "state-ok"


@tool(tags={"mcp"})
async def test_input_required_result_tampered_state(ctx: ToolContext) -> Any:
    """Asks; an answer with another state is refused."""
    if "confirm" not in answers(ctx):
        return need(confirm=elicit("Please confirm", {"properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}))
    return "state-ok"


@tool(tags={"mcp"})
async def test_input_required_result_multiple_inputs(ctx: ToolContext) -> Any:
    """Asks three things at once."""
    given = answers(ctx)
    asks = {
        "user_name": elicit("What is your name?", NAME),
        "greeting": sample("Generate a greeting", max_tokens=50),
        "client_roots": list_roots(),
    }
    open_ = {key: ask for key, ask in asks.items() if key not in given}
    return need(**open_) if open_ else f"Thank you, {given['user_name']['content']['name']}."


@tool(tags={"mcp"})
async def test_input_required_result_multi_round(ctx: ToolContext) -> Any:
    """Asks twice."""
    given = answers(ctx)
    if "step1" not in given:
        return need(step1=elicit("Step 1: What is your name?", NAME))
    if "step2" not in given:
        form = {"properties": {"color": {"type": "string"}}, "required": ["color"]}
        return need(step2=elicit("Step 2: What is your favorite color?", form))
    return f"{given['step1']['content']['name']} likes {given['step2']['content']['color']}"


@tool(tags={"mcp"})
async def test_input_required_result_capabilities(ctx: ToolContext) -> Any:
    """Asks whatever the client can answer."""
    if not answers(ctx):
        return need(a=elicit("What is your name?", NAME), b=sample("Say hello", max_tokens=50))
    return "done"


@tool(tags={"mcp"})
async def test_missing_capability(ctx: ToolContext) -> Any:
    """Needs a client with a model."""
    return "done" if answers(ctx) else need(completion=sample("Say hello", max_tokens=50))


@tool(tags={"mcp"})
async def test_streaming_elicitation(ctx: ToolContext) -> Any:
    """Asks while it streams."""
    ctx.progress(1, 2)
    return "done" if answers(ctx) else need(user_name=elicit("What is your name?", NAME))


# Tasks.


@tool(tags={"mcp:task"}, timeout=120)
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return f"slow_compute {label} took {seconds:g} s"


@tool(tags={"mcp:task-required"}, failure_threshold=MANY)
async def failing_job() -> str:
    """Fails after a while."""
    await asyncio.sleep(0.5)
    raise RuntimeError("the job failed")


@tool(tags={"mcp:task"}, failure_threshold=MANY)
async def protocol_error_job() -> str:
    """Breaks in a way that is not a tool's affair."""
    raise ProtocolError("the job's machinery broke")


@tool(tags={"mcp:task"})
async def confirm_delete(filename: str, ctx: ToolContext) -> Any:
    """Asks before it deletes."""
    given = answers(ctx).get("confirm")
    if given is None:
        form = {"properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
        return need(confirm=elicit(f"Delete {filename}?", form))
    return f"deleted {filename}" if given.get("content", {}).get("confirm") else f"kept {filename}"


@tool(tags={"mcp:task"})
async def multi_input(ctx: ToolContext) -> Any:
    """Asks two things at once."""
    given = answers(ctx)
    open_ = {key: elicit(f"The {key}?", NAME) for key in ("first", "second") if key not in given}
    return need(**open_) if open_ else f"{given['first']['content']['name']} and {given['second']['content']['name']}"


@tool(tags={"mcp:task-after-input"})
async def test_tool_with_task(ctx: ToolContext) -> Any:
    """Asks first, then works."""
    given = answers(ctx).get("user_name")
    if given is None:
        return need(user_name=elicit("What is your name?", NAME))
    await asyncio.sleep(0.1)
    return f"Hello, {given['content']['name']}!"


# Tools with a hand-written schema.


@tool
async def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Wants its region in a header, too."""
    return f"{region}"


class Schema2020:
    """A tool whose schema is written by hand, with keywords that type hints cannot express."""

    name = "json_schema_2020_12_tool"
    description = "Tool with JSON Schema 2020-12 features"
    is_async = True
    options = test_simple_text.options
    input_schema = {  # noqa: RUF012  # a constant
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return bound


# Changes of lists.


@tool
async def test_trigger_tool_change() -> str:
    """Says that the list of tools has changed."""
    await bus.publish(ToolsListChanged())
    return "changed"


@tool
async def test_trigger_prompt_change() -> str:
    """Says that the list of prompts has changed."""
    await bus.publish(PromptsListChanged())
    return "changed"


TOOLS = [
    test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types,
    test_error_handling, test_tool_with_logging, test_logging_tool, test_tool_with_progress, greet, test_sampling,
    test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums,
    test_input_required_result_elicitation, test_input_required_result_sampling,
    test_input_required_result_list_roots, test_input_required_result_request_state,
    test_input_required_result_tampered_state, test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round, test_input_required_result_capabilities, test_missing_capability,
    test_streaming_elicitation, slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input,
    test_tool_with_task, test_x_mcp_header, test_trigger_tool_change, test_trigger_prompt_change, Schema2020(),
]  # fmt: skip
