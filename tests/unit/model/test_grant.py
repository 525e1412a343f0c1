"""The terms of a grant: what is accepted, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.model.grant import Grant, read_terms


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"uses": 1},
        {"seconds": 0.5, "thread": "t"},
        {"arguments": {"type": "object"}, "caller": "*"},
        {"caller": ""},
        {"uses": 1_000_000, "seconds": 3_600},
    ],
)
def test_terms(terms: dict[str, Any]) -> None:
    assert read_terms(terms) == terms
    assert read_terms({**terms, "thread": terms.get("thread"), "uses": terms.get("uses")}) == terms, "None is left out"


@pytest.mark.parametrize(
    ("terms", "wrong"),
    [
        ({"use": 1}, "Did you mean 'uses'"),
        ({"uses": 0}, "uses"),
        ({"uses": True}, "uses"),
        ({"uses": 1.0}, "uses"),
        ({"uses": 10**9}, "uses"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"seconds": "1h"}, "seconds"),
        ({"thread": ""}, "thread"),
        ({"thread": 5}, "thread"),
        ({"caller": "x" * 600}, "caller"),
        ({"caller": "\ud800"}, "caller"),
        ({"arguments": []}, "JSON Schema"),
        ({"arguments": {"const": object()}}, "not JSON"),
        ({"arguments": {"enum": ["x" * 20_000]}}, "bytes"),
        ("all", "table"),
    ],
)
def test_no_terms(terms: Any, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        read_terms(terms)


def test_states() -> None:
    grant = Grant(id="g", tool="pay", caller="", by="ann", call="c", given_at=0.0, uses=1, expires_at=10.0)
    assert [grant.state_at(now) for now in (0.0, 9.9, 10.0)] == ["active", "active", "expired"]
