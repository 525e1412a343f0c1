"""Arguments that a model wrote as text are judged as the mapping would be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clicket import Runtime, tool
from clicket.settings import Settings


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
