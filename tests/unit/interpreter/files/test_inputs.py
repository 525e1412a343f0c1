"""Files that go into the work folder: their names, their sizes, and links in the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.unit.interpreter.files.conftest import SECRET, Place, put, taken

from clicket.interpreter.files.artifacts import TemporaryArtifacts
from clicket.interpreter.files.inputs import FileRefused
from clicket.system.bridge import ThreadPool

# --- in -----------------------------------------------------------------------------------------------------------------


async def test_contents_paths_and_artifacts_go_in(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    (place.path.parent / "host.csv").write_bytes(b"a,b\n")
    name = await artifacts.put([b"kept ", b"bytes"])
    files = {"text.txt": "grüß", "raw.bin": b"\x00", "sub/deep/host.csv": place.path.parent / "host.csv"}
    written = await put(place, artifacts, thread_pool, name, f"data.bin={name}", **files)
    assert (place.path / "text.txt").read_text() == "grüß"
    assert (place.path / "sub/deep/host.csv").read_bytes() == b"a,b\n"
    assert (place.path / "data.bin").read_bytes() == (place.path / name).read_bytes() == b"kept bytes"
    assert stat.S_IMODE((place.path / "text.txt").stat().st_mode) == 0o600
    found = await taken(place, artifacts, thread_pool, written)
    assert found.files == (), "inputs are not outputs"
    (place.path / "text.txt").write_text("changed")
    assert [file.name for file in (await taken(place, artifacts, thread_pool, written)).files] == ["text.txt"]


async def test_names_in_the_folder_of_shared_files(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    folder = place.path.parent / "shared"
    (folder / "sub").mkdir(parents=True)
    (folder / "prices.csv").write_bytes(b"1")
    (folder / "sub" / "more.csv").write_bytes(b"2")
    (place.path.parent / "secret").write_bytes(SECRET)
    (folder / "link.csv").symlink_to(place.path.parent / "secret")
    (folder / "up").symlink_to(place.path.parent)
    os.mkfifo(folder / "pipe")
    await put(place, artifacts, thread_pool, "prices.csv", "sub/more.csv", folder=folder)
    assert (place.path / "prices.csv").read_bytes() == b"1"
    assert (place.path / "sub" / "more.csv").read_bytes() == b"2"
    (place.path / "prices.csv").write_bytes(b"the program's own")
    await put(place, artifacts, thread_pool, "prices.csv", folder=folder)
    assert (place.path / "prices.csv").read_bytes() == b"the program's own"
    for name in ("link.csv", "up/secret", "pipe", "sub", "prices.cvs"):
        with pytest.raises(FileRefused, match="no file") as refused:
            await put(place, artifacts, thread_pool, name, folder=folder)
        assert "prices.csv" in str(refused.value)
    assert "Did you mean 'prices.csv'" in str(refused.value)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", ".", "a/.", "x\0y", "a\nb", "\udcff", "x" * 300, "a/" * 9 + "a",
             "a\\b"],
)  # fmt: skip
async def test_names_that_are_none(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool, name: str
) -> None:
    with pytest.raises(FileRefused, match=r"name for a file|components") as refused:
        await put(place, artifacts, thread_pool, name, folder=place.path.parent)
    assert refused.value.kind == "ValueError"
    with pytest.raises(FileRefused):
        await put(place, artifacts, thread_pool, **{name: b"x"})
    assert list(place.path.iterdir()) == []


async def test_a_link_in_the_way_is_replaced_never_followed(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    target = place.path.parent / "target"
    target.write_bytes(SECRET)
    (place.path / "a.csv").symlink_to(target)
    os.link(target, place.path / "b.csv")
    await put(place, artifacts, thread_pool, **{"a.csv": b"new", "b.csv": b"new"})
    assert target.read_bytes() == SECRET
    assert (place.path / "a.csv").read_bytes() == (place.path / "b.csv").read_bytes() == b"new"
    (place.path / "dir").symlink_to(place.path.parent)
    with pytest.raises(FileRefused, match="cannot be written"):
        await put(place, artifacts, thread_pool, **{"dir/new.csv": b"x"})
    (place.path / "folder.csv").mkdir()
    with pytest.raises(FileRefused, match="cannot be written"):
        await put(place, artifacts, thread_pool, **{"folder.csv": b"x"})
    assert not (place.path.parent / "new.csv").exists()


async def test_artifacts_that_are_too_much_together_are_not_all_fetched(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fetched = await artifacts.put(b"x" * 900_000), []
    get = artifacts.get

    async def noted(name: str) -> bytes:
        fetched.append(name)
        return await get(name)

    monkeypatch.setattr(artifacts, "get", noted)
    with pytest.raises(FileRefused, match="together"):
        await put(place, artifacts, thread_pool, *(f"{n}.bin={name}" for n in range(100)))
    assert len(fetched) == 3
    assert list(place.path.iterdir()) == []


async def test_sizes_and_unknown_artifacts(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    (place.path.parent / "sparse").touch()
    os.truncate(place.path.parent / "sparse", 10**12)
    for value in (b"x" * 1_000_001, place.path.parent / "sparse"):
        with pytest.raises(FileRefused, match="a file may have 1,000,000"):
            await put(place, artifacts, thread_pool, a=b"ok", big=value)
    with pytest.raises(FileRefused, match="holds 2,000,000"):
        await put(place, artifacts, thread_pool, **{str(n): b"x" * 900_000 for n in range(3)})
    with pytest.raises(FileRefused, match="sha256-"):
        await put(place, artifacts, thread_pool, "sha256-" + "0" * 64)
    with pytest.raises(FileRefused, match="not a regular file"):
        await put(place, artifacts, thread_pool, dev=Path("/dev/zero"))
    with pytest.raises(FileRefused, match="cannot be read"):
        await put(place, artifacts, thread_pool, dev=Path("/nowhere"))
    assert list(place.path.iterdir()) == [], "no file is written if one is refused"


async def test_files_belong_to_the_programs_user(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    place.uid = 54321 if os.getuid() == 0 else os.getuid()
    await put(place, artifacts, thread_pool, **{"sub/a.csv": b"x"})
    assert {(place.path / name).stat().st_uid for name in ("sub", "sub/a.csv")} == {place.uid}
