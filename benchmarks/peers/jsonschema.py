"""jsonschema with a prebuilt validator: the way its manual recommends."""

from __future__ import annotations

from jsonschema import Draft202012Validator

from benchmarks import timing
from benchmarks.people import GOOD, SCHEMA, WRONG


def compile_schema() -> Draft202012Validator:
    Draft202012Validator.check_schema(SCHEMA)
    return Draft202012Validator(SCHEMA)


validator = compile_schema()


def problems(value: object) -> list[tuple[str, str]]:
    return [(error.json_path, error.message) for error in validator.iter_errors(value)]


assert problems(GOOD) == []
assert len(problems(WRONG)) == 3
seconds = timing.budget().seconds
timing.report(
    {
        "good_us": timing.p50_sync(lambda: problems(GOOD), seconds=seconds, batch=5),
        "wrong_us": timing.p50_sync(lambda: problems(WRONG), seconds=seconds, batch=5),
        "compile_us": timing.p50_sync(compile_schema, seconds=seconds / 4),
    },
    timing.versions("jsonschema"),
)
