"""Artifacts in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.contract.postgres.kit import Make

from clicket.errors import NotFound
from clicket.ports import Keep
from clicket.testing.store_kit import ended, opened

_NAME = "sha256-" + "0123456789abcdef" * 4


async def test_ranges_of_a_big_artifact(make: Make, sql: Any) -> None:
    data = bytes(range(251)) * 25_000  # 5.98 MiB, and no two mebibytes alike
    async with opened(make) as store:
        await store.put_artifact(_NAME, [data[:1], b"", data[1:3_000_000], data[3_000_000:]])
        assert sql("SELECT count(*), max(length(body)) FROM pieces") == [(6, 1024 * 1024)]
        mebibyte = 1024 * 1024
        for start, end in (
            (0, None),
            (0, 1),
            (mebibyte - 1, mebibyte + 1),
            (mebibyte, 2 * mebibyte),
            (3_000_000, 5_000_000),
            (len(data) - 1, None),
            (len(data), None),
            (5, 3),
        ):
            assert await store.read_artifact(_NAME, start, end) == data[start:end]
        await store.put_artifact("sha256-" + "0" * 64, [])
        assert await store.read_artifact("sha256-" + "0" * 64, 0, None) == b""
        assert await store.size() > len(data)


async def test_an_artifact_goes_with_the_last_call_that_names_it(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        for _ in range(3):
            await store.put_artifact(_NAME, [b"x" * 5000])
        await ended(store, "a", at=200.0, artifacts=((_NAME, 5000),))
        await ended(store, "b", at=300.0, artifacts=((_NAME, 5000),))
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 0, "put three times: a third call may still name it"
        assert await store.read_artifact(_NAME, 0, 1) == b"x"
        await ended(store, "c", at=300.0, artifacts=((_NAME, 5000),))
        swept = await store.sweep(Keep(calls=0), 10)
        assert (swept.calls, swept.artifacts) == (1, 1)
        with pytest.raises(NotFound):
            await store.read_artifact(_NAME, 0, 1)
        assert sql("SELECT (SELECT count(*) FROM pieces), (SELECT count(*) FROM puts)") == [(0, 0)]


async def test_what_was_put_and_never_named_goes_in_time(make: Make, sql: Any) -> None:
    async with opened(make) as store:
        await store.put_artifact(_NAME, [b"x"])
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 0
        sql("UPDATE puts SET at = at - interval '2 hours'")
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 1
    async with opened(make) as left:
        await left.put_artifact(_NAME, [b"x"])
    async with opened(make) as store:
        assert (await store.sweep(Keep(calls=0), 10)).artifacts == 1, "its owner has closed"


async def test_the_same_artifact_from_two_sides(make: Make, sql: Any) -> None:
    async with opened(make) as one, opened(make) as two:
        await asyncio.gather(*(store.put_artifact(_NAME, [b"x" * 3_000_000]) for store in (one, two, one, two)))
        assert sql("SELECT count(*) FROM pieces") == [(3,)]
        assert sql("SELECT sum(number) FROM puts") == [(4,)]
