"""A subject's caller is stable, of its issuer, and never that of an API key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.safety.oauth.subjects import caller_of, subject_of
from clicket.server import keys

NAMES = st.text(min_size=1, max_size=30)


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_subjects_are_two_callers(issuer: str, subject: str, other_issuer: str, other: str) -> None:
    same = (issuer, subject) == (other_issuer, other)
    assert (caller_of(issuer, subject) == caller_of(other_issuer, other)) is same
    assert subject_of(caller_of(issuer, subject)) == subject


@given(NAMES)
def test_no_key_of_the_settings_can_have_such_a_caller(name: str) -> None:
    try:
        made = keys.parse_static([f"{name}:read:0123456789abcdef0123"])
    except Exception:
        return
    assert not any(key.id.startswith("oauth:") for key in made.values())


@pytest.mark.parametrize("caller", ["", "oauth", "ann", "0123456789ab", "xoauth:a:b"])
def test_other_callers_have_no_subject(caller: str) -> None:
    assert subject_of(caller) == ""


def test_it_does_not_change() -> None:
    """Calls on record belong to these callers: another form would take them away from their people."""
    assert caller_of("https://login.example", "ann") == "oauth:ced4229bf4ad:ann"
