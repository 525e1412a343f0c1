"""matplotlib's font list comes from the sandbox: only a valid list with a valid name is saved for other sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clicket.interpreter.session.block_run import BlockEnd
from clicket.interpreter.session.capture import Capture, Captured
from clicket.interpreter.setup import font_cache

LIST = '{"_version": 390, "ttflist": []}'


class Saying:
    """A fake session whose block prints this."""

    def __init__(self, text: str, status: Any = "ok", *, cut: bool = False) -> None:
        self.ended = BlockEnd(status=status, stdout=Captured(text=text, size=len(text), cut=cut))

    def begin(self, code: str, *, name: str, timeout: float | None) -> None:
        compile(code, name, "exec")

    async def watch(self) -> AsyncIterator[BlockEnd]:
        yield self.ended


async def kept(folder: Path, session: Saying) -> list[str]:
    await font_cache.save_font_list(session, folder)  # type: ignore[arg-type]  # a stand-in
    return sorted(path.name for path in folder.parent.rglob("*") if path.is_file())


async def test_a_list_is_kept_for_everybody_to_read(tmp_path: Path) -> None:
    folder = tmp_path / "fonts"
    folder.mkdir()
    (folder / "fontlist-v330.json").write_text("of the matplotlib before")
    assert await kept(folder, Saying(f"fontlist-v390.json\n{LIST}\n")) == ["fontlist-v390.json"]
    (path,) = folder.iterdir()
    assert path.read_text().strip() == LIST
    assert path.stat().st_mode & 0o777 == 0o644


async def test_a_long_list_is_taken_from_where_the_whole_output_is(tmp_path: Path) -> None:
    capture = Capture(kept=100, max_spooled=1_000_000)
    capture.feed(f'fontlist-v390.json\n{LIST[:-1]}, "more": "{"x" * 10_000}"}}'.encode())
    session = Saying("")
    session.ended = BlockEnd(status="ok", stdout=capture.finish())
    folder = tmp_path / "fonts"
    folder.mkdir()
    assert session.ended.stdout.cut
    assert await kept(folder, session) == ["fontlist-v390.json"]


@pytest.mark.parametrize(
    "session",
    [
        Saying(f"../fontlist-v390.json\n{LIST}"),
        Saying(f"fontlist-v390.json/../../x.json\n{LIST}"),
        Saying(f"matplotlibrc\n{LIST}"),
        Saying("fontlist-v390.json\n{no list"),
        Saying("fontlist-v390.json\n"),
        Saying(""),
        Saying(f"fontlist-v390.json\n{LIST}", "error"),
        Saying(f"fontlist-v390.json\n{LIST}", cut=True),
    ],
)
async def test_anything_else_is_not(tmp_path: Path, session: Saying) -> None:
    folder = tmp_path / "fonts"
    folder.mkdir()
    assert await kept(folder, session) == []


def test_without_a_place_for_it_each_session_makes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = font_cache.cache_folder("/usr/bin/python3")
    assert found is not None
    assert found.is_relative_to(tmp_path)
    assert font_cache.cache_folder("/opt/python") != found, "another Python has other fonts"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert font_cache.cache_folder(None) is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/work/cache")
    assert font_cache.cache_folder(None) is None, "in the sandbox that is the program's own folder"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert font_cache.cache_folder(None) is None, "a user without a home"


def test_a_folder_that_the_sandbox_hides_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/work/cache")  # where every program has its own folder
    assert font_cache.cache_folder(None) is None
    assert not Path("/work/cache").exists()
