"""fastjsonschema: the schema becomes Python code; it stops at the first mistake."""

from __future__ import annotations

import fastjsonschema

from benchmarks import timing
from benchmarks.people import GOOD, SCHEMA, WRONG

check = fastjsonschema.compile(SCHEMA)


def wrong() -> str:
    try:
        check(WRONG)
    except fastjsonschema.JsonSchemaValueException as error:
        return error.message
    raise AssertionError


assert check(GOOD) == GOOD
seconds = timing.budget().seconds
timing.report(
    {
        "good_us": timing.p50_sync(lambda: check(GOOD), seconds=seconds, batch=50),
        "wrong_us": timing.p50_sync(wrong, seconds=seconds, batch=20),
        "compile_us": timing.p50_sync(lambda: fastjsonschema.compile(SCHEMA), seconds=seconds / 4),
    },
    timing.versions("fastjsonschema"),
)
