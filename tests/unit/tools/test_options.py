"""Options are checked where the tool is declared; the error names the wrong option and the expected value."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clicket import tool
from clicket.errors import UsageError
from clicket.tools.options import Options, make_options


def test_the_defaults_are_the_documented_ones() -> None:
    options = tool(name="x")(lambda: None).options
    assert options == Options()
    assert (options.timeout, options.max_retries, options.retry_delay) == (30.0, 3, 1.0)
    assert options.max_result_size == 1024 * 1024
    assert options.isolation == "auto"
    assert options.idle_timeout is None
    assert (options.failure_threshold, options.cooldown) == (3, 300.0)
    assert options.retry_on == ()
    assert not options.idempotent
    assert not options.read_only


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"retry_delay": -0.1}, "retry_delay"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"max_retries": None}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_result_size": 0}, "max_result_size"),
        ({"failure_threshold": 0}, "failure_threshold"),
        ({"cooldown": 0}, "cooldown"),
        ({"isolation": "sandbox"}, "inline, thread, process"),
        ({"recovery": "guess"}, "rerun"),
        ({"retry_on": "ValueError"}, "retry_on"),
        ({"retry_on": [ValueError, "x"]}, "retry_on"),
        ({"retry_on": ValueError("x")}, "retry_on"),
        ({"tags": 5}, "tags"),
        ({"permissions": [1]}, "permissions"),
        ({"timeouts": 5}, "Did you mean 'timeout'"),
        ({"retries": 5}, "retries"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError, match=part) as refused:
        make_options("tool 'x'", given)
    assert "tool 'x'" in refused.value.message


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"timeout": None}, "timeout", None),
        ({"timeout": 5}, "timeout", 5),
        ({"retry_delay": 0}, "retry_delay", 0),
        ({"max_retries": 0}, "max_retries", 0),
        ({"max_concurrency": None}, "max_concurrency", None),
        ({"retry_on": ValueError}, "retry_on", (ValueError,)),
        ({"retry_on": [ValueError, KeyError]}, "retry_on", (ValueError, KeyError)),
        ({"tags": "one"}, "tags", frozenset({"one"})),
        ({"tags": ["one", "two", "one"]}, "tags", frozenset({"one", "two"})),
        ({"permissions": ("net",)}, "permissions", frozenset({"net"})),
        ({"recovery": None}, "recovery", "auto"),
        ({"version": 2}, "version", "2"),
    ],
)
def test_options_are_taken_in_the_spellings_that_people_use(given: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(make_options("tool 'x'", given), name) == value


@pytest.mark.parametrize(
    ("given", "repeatable"),
    [({}, False), ({"idempotent": True}, True), ({"read_only": True}, True), ({"recovery": "rerun"}, False)],
)
def test_what_may_be_repeated_is_what_says_so(given: dict[str, Any], repeatable: bool) -> None:
    assert make_options("tool 'x'", given).repeatable is repeatable


def test_options_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Options().timeout = 3  # type: ignore[misc]  # the point
    assert msgspec.structs.replace(Options(), timeout=3).timeout == 3
