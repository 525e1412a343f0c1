"""The cost of the validate stage for arguments; variant `rs`: the schema check by jsonschema-rs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema_rs

from benchmarks import timing
from benchmarks.people import GOOD, SCHEMA, WRONG
from clicket.model.arguments import parse_arguments
from clicket.tools.check import compile_schema

Problems = Callable[[dict[str, Any]], list[Any]]


def ours() -> Problems:
    check = compile_schema(SCHEMA, "bench")
    return lambda value: check(parse_arguments(value, max_size=1024 * 1024))


def alone() -> Problems:
    validator = jsonschema_rs.Draft202012Validator(SCHEMA)

    def problems(value: dict[str, Any]) -> list[Any]:
        if validator.is_valid(value):
            return []
        return [(error.instance_path, error.message) for error in validator.iter_errors(value)]

    return problems


def main() -> None:
    arguments = timing.budget()
    make = alone if arguments.variant == "rs" else ours
    problems, seconds = make(), arguments.seconds
    assert problems(GOOD) == []
    assert len(problems(WRONG)) == 3
    timing.report(
        {
            "good_us": timing.p50_sync(lambda: problems(GOOD), seconds=seconds, batch=50),
            "wrong_us": timing.p50_sync(lambda: problems(WRONG), seconds=seconds, batch=20),
            "compile_us": timing.p50_sync(make, seconds=seconds / 4),
        },
        timing.versions("jsonschema-rs"),
    )


main()
