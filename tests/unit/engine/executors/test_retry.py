"""Which errors are transient, and how an exception is reported: its code, its class, a message that is safe to store."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from clicket.engine.executors.retry import MAX_DELAY, backoff, describe, transient
from clicket.errors import (
    ClicketError,
    Conflict,
    InvalidTransition,
    NotFound,
    ResultUnserializable,
    RetryableError,
    StoreUnavailable,
    UsageError,
)
from clicket.tools.options import Options


class Answer:
    def __init__(self, status: Any) -> None:
        self.status_code = status


def error(**attributes: Any) -> Exception:
    made = Exception("x")
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RetryableError("x"), True),
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (error(retryable=True), True),
        (error(retryable=False, status_code=503), False),
        (error(retryable="yes"), False),  # only True counts
        (error(retryable=lambda: True), False),
        *((error(status_code=s), True) for s in (429, 502, 503, 504)),
        *((error(status_code=s), False) for s in (200, 400, 401, 404, 408, 500, 501, None, "503")),
        (error(status=503), True),
        (error(response=Answer(429)), True),
        (error(response=Answer(500)), False),
        (error(response=None), False),
        (TimeoutError(), False),
        (OSError(), False),
        (ValueError(), False),
        (SystemExit(), False),
    ],
)
def test_transient(raised: BaseException, expected: bool) -> None:
    assert transient(raised, Options()) is expected


def test_retry_on_adds_classes_and_their_children() -> None:
    options = Options(retry_on=(LookupError,))
    assert transient(KeyError(), options)
    assert not transient(ValueError(), options)
    assert not transient(KeyError(), Options())


def test_the_delay_doubles_and_is_capped() -> None:
    class Most(random.Random):
        def random(self) -> float:
            return 1.0

    options = Options(retry_delay=0.5)
    assert [backoff(n, options, ValueError(), Most()) for n in range(1, 6)] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert backoff(50, options, ValueError(), Most()) == MAX_DELAY
    assert backoff(5_000, options, ValueError(), Most()) == MAX_DELAY  # no overflow
    assert backoff(3, Options(retry_delay=0), ValueError(), Most()) == 0


@pytest.mark.parametrize("asked", [float("inf"), float("nan"), True, -1, 0, "5", None])
def test_a_retry_after_that_makes_no_sense_is_passed_over(asked: Any) -> None:
    delay = backoff(1, Options(retry_delay=2.0), error(retry_after=asked), random.Random(1))
    assert 1.0 <= delay <= 2.0


@pytest.mark.parametrize(
    ("raised", "code", "kind", "message"),
    [
        (ValueError("no"), "tool_error", "ValueError", "no"),
        (ValueError(), "tool_error", "ValueError", "ValueError"),
        (KeyError("k"), "tool_error", "KeyError", "k"),
        (RetryableError("later"), "tool_error", "RetryableError", "later"),
        (StoreUnavailable("disk"), "store_unavailable", "StoreUnavailable", "disk"),
        (ResultUnserializable("r"), "result_unserializable", "ResultUnserializable", "r"),
        (Conflict("c"), "conflict", "Conflict", "c"),
        (UsageError("u"), "tool_error", "UsageError", "u"),
        (NotFound("n"), "tool_error", "NotFound", "n"),
        (InvalidTransition("t"), "tool_error", "InvalidTransition", "t"),
        (ClicketError("e"), "tool_error", "ClicketError", "e"),
        (SystemExit(3), "tool_error", "SystemExit", "sys.exit(3)"),
        (RecursionError("maximum recursion depth exceeded"), "tool_error", "RecursionError", "recursed"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_describe(raised: BaseException, code: str, kind: str, message: str) -> None:
    error = describe(raised, retryable=False)
    assert (error.code, error.type) == (code, kind)
    assert message in error.message
    assert "Traceback" not in error.message


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class OddText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307  # the point


RUDE = [
    NoText(),
    OddText(),
    ValueError("\ud800"),
    ValueError("x" * 10**6),
    ValueError("\x00"),
    ExceptionGroup("g", [ValueError("i")]),
]


@pytest.mark.parametrize("raised", RUDE, ids=lambda value: type(value).__name__)
def test_any_exception_can_be_shown_and_stored(raised: BaseException) -> None:
    error = describe(raised, retryable=True)
    assert error.retryable
    assert 0 < len(error.message) <= 4_100
    assert json.loads(msgspec.json.encode(error))["message"] == error.message


def test_details_that_are_not_plain_are_left_out() -> None:
    error = describe(StoreUnavailable("x", path="p", what=object(), n=1, deep={"a": 1}), retryable=False)
    assert error.details == {"path": "p", "n": 1}
    odd = ValueError("x")
    odd.details = 5  # type: ignore[attr-defined]  # somebody else's attribute of the same name
    assert describe(odd, retryable=False).details == {}
    odd.type = "mine"  # type: ignore[attr-defined]
    assert describe(odd, retryable=False).message == "x"
