"""Arguments that a model wrote as text are judged as the mapping would be."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from clicket import Runtime, ToolContext, tool
from clicket.engine.stages import validate
from clicket.model.arguments import parse_arguments
from clicket.runtime.settings import Settings
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import make_options


@tool
async def order(item: str, count: int = 1, price: float | None = None) -> dict[str, Any]:
    return {"item": item, "count": count, "price": price}


@pytest.mark.parametrize(
    "arguments",
    [
        {"item": "tea"},
        {"item": "tea", "count": 3, "price": 0.5},
        {"item": "tea", "price": None},
        {"item": "tea", "price": 2},
        {"item": "Käse", "count": 2},
        {"item": "a longer name than a token"},
        {"item": "with: a colon"},
        {},
        {"count": 1},
        {"item": 1},
        {"item": "tea", "count": 1.5},
        {"item": "tea", "count": True},
        {"item": "tea", "count": 2**70},
        {"item": "tea", "size": 1},
        {"item": "\x00"},
        {"item": ["tea"]},
    ],
)
async def test_text_is_judged_as_the_mapping(arguments: dict[str, Any]) -> None:
    async with Runtime([order], store="memory://") as rt:
        by_mapping = await rt.call("order", arguments)
        by_text = await rt.call("order", json.dumps(arguments))
        assert (by_text.state, by_text.output, by_text.content) == (
            by_mapping.state, by_mapping.output, by_mapping.content,
        )  # fmt: skip
        assert (await rt.get(by_text.id)).arguments == (await rt.get(by_mapping.id)).arguments


@pytest.mark.parametrize(
    "form", [dict, json.dumps, lambda given: json.dumps(given).encode()], ids=["mapping", "text", "bytes"]
)
async def test_big_arguments_are_judged_in_a_thread(
    form: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_in: list[threading.Thread] = []

    def parse(given: Any, **limits: Any) -> dict[str, Any]:
        judged_in.append(threading.current_thread())
        return parse_arguments(given, **limits)

    monkeypatch.setattr(validate, "parse_arguments", parse)
    async with Runtime([order], store="memory://") as rt:
        assert (await rt.call("order", form({"item": "x" * 300_000}))).success
    assert judged_in
    assert threading.main_thread() not in judged_in, "the loop goes on meanwhile"


@pytest.mark.parametrize("text", ['{"item": "tea", "item": "milk"}', '{"item": "tea"', "[]", '{"item": "tea"} x'])
async def test_text_that_is_no_single_object_is_refused(text: str) -> None:
    async with Runtime([order], store="memory://") as rt:
        result = await rt.call("order", text)
        assert result.error is not None
        assert result.error.code == "invalid_input"


async def test_text_is_measured_with_its_spaces() -> None:
    async with Runtime([order], store="memory://", settings=Settings(max_arguments_size=100)) as rt:
        long = await rt.call("order", '{"item":' + " " * 200 + '"tea"}')
        assert long.error is not None
        assert "100" in long.content
        assert (await rt.call("order", '{"item":' + " " * 50 + '"tea"}')).success


async def test_a_token_in_text_is_found() -> None:
    token = "sk-" + "Ab1" * 12
    async with Runtime([order], store="memory://") as rt:
        result = await rt.call("order", json.dumps({"item": token}))
        assert result.success
        assert token not in repr(await rt.get(result.id))


async def test_arguments_with_a_secret_are_judged_by_the_tools_present_schema() -> None:
    """A server may change its tool. The check that hides secrets in errors must then be another one, too."""
    ran: list[dict[str, Any]] = []

    class Remote(ToolDefaults):
        name = "remote"
        description = ""
        is_async = True
        input_schema: Mapping[str, Any] = {"properties": {"key": {"type": "string"}, "size": {"type": "string"}}}
        options = make_options("remote", {})

        def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return arguments

        async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> str:
            ran.append(arguments)
            return "ran"

    token, remote = "sk-" + "Ab1" * 12, Remote()
    async with Runtime([remote], store="memory://") as rt:
        assert "/size" in (await rt.call("remote", {"key": token, "size": 1})).content
        remote.input_schema = {"properties": {"key": {"type": "string"}, "size": {"type": "integer"}}}
        rt.add(remote)
        result = await rt.call("remote", {"key": token, "size": "1"})
        assert "/size" in result.content
        assert token not in result.content
        assert ran == []
