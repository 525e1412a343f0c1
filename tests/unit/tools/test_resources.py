"""Resources of a tool: what is accepted, and that a wrong one is refused where the tool is declared."""

from __future__ import annotations

from typing import Any

import pytest

from clicket import NativeTool, tool
from clicket.errors import UsageError
from clicket.tools import Resources


def declared(resources: Any, isolation: str = "ray") -> Resources | None:
    @tool(isolation=isolation, resources=resources)  # type: ignore[call-overload, untyped-decorator]
    def sample() -> None: ...

    made: Resources | None = sample.options.resources
    return made


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Resources()),
        ({"cpu": 2, "gpu": 1}, Resources(cpu=2.0, gpu=1.0)),
        ({"gpu": 0.25, "cpu": 0}, Resources(cpu=0.0, gpu=0.25)),
        ({"memory": "2GB"}, Resources(memory=2_000_000_000)),
        ({"memory": "512 MiB"}, Resources(memory=512 * 1024**2)),
        ({"memory": "1.5g"}, Resources(memory=1_500_000_000)),
        ({"memory": 1024}, Resources(memory=1024)),
        ({"memory": None}, Resources()),
    ],
)
def test_taken(given: dict[str, Any], expected: Resources) -> None:
    assert declared(given) == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"cpus": 1}, "Did you mean 'cpu'"),
        ({"cpu": -1}, "cpu"),
        ({"cpu": 1.5}, "whole number"),
        ({"gpu": True}, "gpu"),
        ({"cpu": float("nan")}, "cpu"),
        ({"memory": "2 bananas"}, "2GB"),
        ({"memory": 0}, "memory"),
        ({"memory": 1.5}, "memory"),
        (4, "a table"),
        ({3: 1}, "no 3"),
    ],
)
def test_refused(given: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        declared(given)
    assert "sample" in str(refused.value)


def test_only_for_ray() -> None:
    with pytest.raises(UsageError, match="add isolation='ray'"):
        declared({"cpu": 1}, "process")

    class Stateful(NativeTool):
        isolation = "ray"

        async def run(self, arguments: Any, ctx: Any) -> None: ...

    from clicket.tools import as_tool

    with pytest.raises(UsageError, match="state of its own"):
        as_tool(Stateful)
