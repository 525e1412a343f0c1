"""Keys of calls, and what an ending call stores: no secret is part of a key, and only complete results are stored."""

from __future__ import annotations

import pytest
from tests.unit.engine.caching_kit import Parts

from clicket.kernel import State
from clicket.model.config import CacheOptions

# Keys.


async def test_equal_is_what_means_the_same() -> None:
    parts = Parts()
    key = parts.call("look", {"city": "Bonn", "day": 1}).cache_key
    assert key is not None
    assert parts.call("look", {"day": 1, "city": "Bonn"}, thread="t2").cache_key == key
    assert parts.call("look", '{"city": "Bonn", "day": 1}').cache_key == key
    assert parts.call("look", {"city": "Köln", "day": 1}).cache_key != key
    assert parts.call("look", {"city": "Bonn", "day": 1}, caller="ann").cache_key != key, "callers do not share results"
    assert parts.call("plain").cache_key is None


async def test_a_scope_and_a_window_are_part_of_the_key() -> None:
    parts = Parts()
    assert parts.call("own", thread="t1").cache_key != parts.call("own", thread="t2").cache_key
    before = parts.call("windowed").cache_key
    assert parts.call("windowed").cache_key == before
    parts.clock.advance(100.0)
    assert parts.call("windowed").cache_key != before


async def test_no_key_is_made_of_a_secret() -> None:
    parts = Parts()
    call = parts.admitted("look", {"city": "sk-" + "proj-4fQ9xLm2Vb7Zt1Rw8Yc3Kd6H"})
    assert call.secrets is not None
    parts.caching.fit(call)
    assert call.cache_key is None


async def test_a_cache_that_is_off_gives_no_key() -> None:
    assert Parts(options=CacheOptions(enabled=False)).call().cache_key is None


# What goes into the cache.


async def test_what_an_ending_call_leaves_there() -> None:
    parts = Parts()
    call = parts.call()
    call.outcome, call.output = State.COMPLETED, {"n": 1}
    use = parts.flights.use_of(call)
    assert use is not None
    assert use.item is not None
    assert (use.hit, use.item.body, use.item.tags) == (False, b'{"n":1}', ("tool:look",))
    assert use.item.expires_at == parts.clock.now() + 60
    assert parts.flights.use_of(parts.call("plain")) is None


@pytest.mark.parametrize("change", ["failed", "truncated", "masked", "artifacts", "too big"])
async def test_what_is_not_the_whole_output_or_not_for_all_is_not_left_there(change: str) -> None:
    parts = Parts(options=CacheOptions(max_bytes=100))
    call = parts.call()
    call.outcome, call.output = State.COMPLETED, "x"
    if change == "failed":
        call.outcome = State.FAILED
    elif change == "truncated":
        call.truncated = True
    elif change == "masked":
        call.is_masked = True
    elif change == "artifacts":
        call.tool_artifacts = frozenset({"sha256-x"})
    else:
        call.output = "x" * 200
    use = parts.flights.use_of(call)
    assert use is not None
    assert (use.hit, use.item) == (False, None)


async def test_a_served_call_counts_as_a_hit_and_leaves_nothing() -> None:
    parts = Parts()
    call = parts.call()
    call.outcome, call.cached = State.COMPLETED, True
    use = parts.flights.use_of(call)
    assert use is not None
    assert (use.hit, use.item) == (True, None)


async def test_a_call_that_started_before_is_excluded() -> None:
    parts = Parts()
    call = parts.call()
    parts.caching.exclude(call)
    assert (call.cache_key, parts.flights.use_of(call)) == (None, None)
