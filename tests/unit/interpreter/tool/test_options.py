"""Options of the tool are checked by name."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.interpreter.tool.options import parse_options
from clicket.sandbox import Limits

# Options.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeot": 5}, "Did you mean 'timeout'"),
        ({"require": "total"}, "full, partial, process, none"),
        ({"max_sessions": 0}, "at least 1"),
        ({"session": "forever"}, "session"),
        ({"warm": "yes"}, "warm"),
        ({"packages": "numpy"}, "packages"),
        ({"timeout": -1}, "code_interpreter: timeout must be a number of seconds above 0"),
        ({"idle_after": 0}, "idle_after"),
        ({"max_use_wait": 0}, "max_use_wait must be a number of seconds above 0"),
        ({"memory": "lots"}, "memory must be a number of bytes"),
        ({"max_output": 0}, "max_output"),
        ({"limits": {"disk": -5}}, r"disk must be a whole number above 0, not -5\.$"),
        ({"without": ["seccom"]}, "Did you mean 'seccomp'"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_options(given)


def test_memory_that_is_named_counts_beside_limits_and_else_theirs() -> None:
    limits = Limits(memory=2 * 1024**3, processes=10)
    for given, memory in (
        ({}, 1024**3),
        ({"limits": limits}, 2 * 1024**3),
        ({"limits": limits, "memory": "1GiB"}, 1024**3),
    ):
        assert parse_options(given).factory().limits.memory == memory
    assert parse_options({"limits": limits, "memory": "1GiB"}).factory().limits.processes == 10
    assert parse_options({"limits": {"disk": "2GiB", "files": 5}}).limits == Limits(disk=2 * 1024**3, files=5)
    with pytest.raises(UsageError, match=r"limits\.disk must be a number of bytes"):
        parse_options({"limits": {"disk": "much"}})
