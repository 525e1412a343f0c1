"""Introspection: answers are kept for a bounded time, judged strictly, and asked for once for each token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clicket.safety.oauth.config import declared_oauth
from clicket.safety.oauth.introspection import Introspection
from clicket.safety.oauth.refusals import IssuerUnavailable, TokenRefused

ISSUER = "https://login.example"
NOW = 1_000_000.0
GOOD = {"active": True, "sub": "ann", "aud": "a", "scope": "x", "exp": NOW + 100}
GIVEN = {"issuer": ISSUER, "audience": "a", "introspection": True, "client_id": "c", "client_secret": "s"}


class Source:
    def __init__(self, **more: Any) -> None:
        self.answers: dict[str, Any] = {"t": GOOD}
        self.asked: list[str] = []
        self.elapsed = 0.0
        self.gate: asyncio.Event | None = None
        config = declared_oauth({**GIVEN, **more})
        self.tokens = Introspection(config, self.ask, clock=lambda: self.elapsed, now=lambda: NOW + self.elapsed)

    async def ask(self, token: str) -> dict[str, Any]:
        self.asked.append(token)
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.get(token, {"active": False})
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    made = Source()
    yield made
    await made.tokens.close()


async def test_a_revoked_token_is_refused_after_the_documented_time(source: Source) -> None:
    assert (await source.tokens.validate("t")).sub == "ann"
    source.answers["t"] = {"active": False}
    source.elapsed = 29.9
    assert (await source.tokens.validate("t")).sub == "ann"
    source.elapsed = 30.0
    for _ in range(3):
        with pytest.raises(TokenRefused, match="revoked"):
            await source.tokens.validate("t")
    assert source.asked == ["t", "t"]


async def test_without_a_cache_each_request_asks() -> None:
    source = Source(introspection_cache=0)
    await source.tokens.validate("t")
    source.answers["t"] = {"active": False}
    with pytest.raises(TokenRefused):
        await source.tokens.validate("t")


async def test_the_end_of_a_token_counts_within_the_cache() -> None:
    source = Source(leeway=0)
    source.answers["t"] = {**GOOD, "exp": NOW + 5}
    await source.tokens.validate("t")
    source.elapsed = 5.0
    with pytest.raises(TokenRefused, match="expired"):
        await source.tokens.validate("t")
    assert source.asked == ["t"]


async def test_equal_tokens_share_a_question(source: Source) -> None:
    source.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(source.tokens.validate("t")) for _ in range(10)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    source.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["CancelledError", *["Claims"] * 9]
    assert source.asked == ["t"]


async def test_a_flood_of_tokens_is_refused_and_asks_a_few_at_once(source: Source) -> None:
    source.gate = asyncio.Event()
    waiting = [asyncio.ensure_future(source.tokens.validate(f"t{number}")) for number in range(1_000)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(source.asked) == 16
    source.gate.set()
    found = [type(each).__name__ for each in await asyncio.gather(*waiting, return_exceptions=True)]
    assert {name: found.count(name) for name in set(found)} == {"TokenRefused": 256, "IssuerUnavailable": 744}


@pytest.mark.parametrize(
    "lie",
    [
        {"active": "true"},
        {"active": 1},
        {"active": False},
        {},
        {"iss": "https://evil.example"},
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 256},
        {"sub": "a\nb"},
        {"sub": " ann"},
        {"exp": NOW - 100},
        {"nbf": NOW + 100},
        {"iat": NOW + 100},
        {"token_type": "refresh_token"},
        {"cnf": {"jkt": "x"}},
    ],
)
async def test_what_an_answer_may_not_say(source: Source, lie: dict[str, Any]) -> None:
    source.answers["t"] = {**GOOD, **lie} if lie else {}
    with pytest.raises(TokenRefused):
        await source.tokens.validate("t")


@pytest.mark.parametrize("lie", [{"sub": 5}, {"aud": {"a": 1}}, {"exp": "tomorrow"}, {"scope": 7}, {"exp": [1]}])
async def test_an_answer_of_wrong_types_says_nothing(source: Source, lie: dict[str, Any]) -> None:
    source.answers["t"] = {**GOOD, **lie}
    with pytest.raises(IssuerUnavailable):
        await source.tokens.validate("t")


async def test_an_outage_is_no_answer_and_is_not_kept(source: Source) -> None:
    source.answers["t"] = IssuerUnavailable("down")
    with pytest.raises(IssuerUnavailable):
        await source.tokens.validate("t")
    source.answers["t"] = GOOD
    assert (await source.tokens.validate("t")).sub == "ann"
