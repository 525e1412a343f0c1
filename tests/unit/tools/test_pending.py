"""Tokens of external calls: they name their call, cannot be guessed, and are not shown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket import tool
from clicket.errors import UsageError
from clicket.safety.vault import hide_text
from clicket.tools.pending import Pending, digest_of, fits, id_in, new_token


@given(id=st.text(min_size=1, max_size=300).filter(lambda text: text.isprintable()))
def test_a_token_names_its_call(id: str) -> None:
    token, other = new_token(id), new_token(id)
    assert id_in(token) == id
    assert token != other
    assert fits(token, digest_of(token))
    assert not fits(other, digest_of(token))
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)
    assert token[:40] not in digest_of(token)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "ckx_",
        "ckx_" + "a" * 43,
        "ckx_" + "a" * 42 + "-Yw",
        "ckx_" + "a" * 43 + "-\u00e9",
        "ckx_" * 999,
        None,
        7,
    ],
)
def test_what_is_no_token(text: Any) -> None:
    assert id_in(text) is None


def test_a_token_is_masked_like_a_key() -> None:
    token = new_token("c")
    assert hide_text(f"use {token}, please") == "use [secret], please"
    assert token not in repr(Pending(token))


def test_an_external_tool_needs_the_context() -> None:
    with pytest.raises(UsageError, match="ctx: ToolContext"):

        @tool(external=True)
        async def job() -> None: ...

    class Job:
        async def run(self, name: str) -> None: ...

    with pytest.raises(UsageError, match="ctx: ToolContext"):
        tool(external=True)(Job)
    options: Any = {"external": 1}
    with pytest.raises(UsageError, match="True or False"):
        tool(**options)(Job)
