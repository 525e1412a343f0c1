"""The temporary store of artifacts has a size limit and survives a failing disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from clicket.errors import NotFound, StoreUnavailable
from clicket.interpreter.files.artifacts import TemporaryArtifacts
from clicket.system.bridge import ThreadPool

# --- kept ---------------------------------------------------------------------------------------------------------------


async def test_a_temporary_store_is_bounded_and_the_oldest_goes_first(thread_pool: ThreadPool, tmp_path: Path) -> None:
    artifacts = TemporaryArtifacts(thread_pool, max_size=250, temp=tmp_path)
    first, second = await artifacts.put(b"a" * 100), await artifacts.put(b"b" * 100)
    assert await artifacts.put(b"a" * 100) == first
    third = await artifacts.put([b"c" * 50, b"c" * 50])
    assert await artifacts.get(first) == b"a" * 100
    assert await artifacts.get(third) == b"c" * 100
    with pytest.raises(NotFound):
        await artifacts.get(second)
    artifacts.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFound):
        await artifacts.get(first)


async def test_a_temporary_store_that_cannot_write_says_so_and_stays_usable(
    thread_pool: ThreadPool, tmp_path: Path
) -> None:
    artifacts = TemporaryArtifacts(thread_pool, temp=tmp_path / "missing")
    with pytest.raises(StoreUnavailable):
        await artifacts.put(b"x")
    (tmp_path / "missing").mkdir()
    name = await artifacts.put(b"x")
    assert await artifacts.get(name) == b"x"
    next((tmp_path / "missing").iterdir()).joinpath(name).unlink()
    with pytest.raises(NotFound, match="cannot be read any more"):
        await artifacts.get(name)
    artifacts.close()
