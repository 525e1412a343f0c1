"""Files that a program made or changed: what is stored, what is left out, and how far the folder is scanned."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE
from tests.security.as_user import as_user
from tests.unit.interpreter.files.conftest import SECRET, Place, taken

import clicket
from clicket.errors import ClicketError, NotFound
from clicket.interpreter.files import outputs as files
from clicket.interpreter.files.artifacts import TemporaryArtifacts
from clicket.interpreter.files.outputs import collect, scan
from clicket.system.bridge import ThreadPool

# --- out ----------------------------------------------------------------------------------------------------------------


async def test_new_and_changed_files_come_out(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    (place.path / "plots").mkdir()
    (place.path / "plots" / "a.png").write_bytes(b"png")
    (place.path / "same.txt").write_bytes(b"same")
    (place.path / "big.bin").write_bytes(b"x" * 600_000)
    first = await taken(place, artifacts, thread_pool)
    assert [file.name for file in first.files] == ["big.bin", "plots/a.png", "same.txt"]
    big = first.files[0]
    assert (big.size, big.sha256) == (600_000, hashlib.sha256(b"x" * 600_000).hexdigest())
    assert big.artifact == f"sha256-{big.sha256}"
    assert await artifacts.get(big.artifact) == b"x" * 600_000

    (place.path / "plots" / "a.png").write_bytes(b"PNG")
    (place.path / "big.bin").unlink()
    second = await taken(place, artifacts, thread_pool, first.signatures)
    assert [file.name for file in second.files] == ["plots/a.png"]
    assert second.skipped == ()


async def test_what_is_no_plain_file_is_named_and_left(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    work = place.path
    (work.parent / "secret").write_bytes(SECRET)
    (work.parent / "folder").mkdir()
    (work.parent / "folder" / "secret").write_bytes(SECRET)
    (work / "link").symlink_to(work.parent / "secret")
    (work / "dangling").symlink_to("/nowhere")
    (work / "folder").symlink_to(work.parent / "folder")
    os.link(work.parent / "secret", work / "hard")
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(work / "socket"))
        Path(os.fsdecode(os.fsencode(work) + b"/\xff\xfe")).write_bytes(b"x")
        (work / "line\nbreak").write_bytes(b"x")
        (work / "good").write_bytes(b"x")
        (work / "__pycache__").mkdir()
        (work / "__pycache__" / "m.pyc").write_bytes(b"x")
        (work / ".config").mkdir()
        (work / ".config" / "rc").write_bytes(b"x")
        found = await taken(place, artifacts, thread_pool)
    assert [file.name for file in found.files] == ["good"]
    why = {skipped.what: skipped.why for skipped in found.skipped}
    assert set(why) == {
        "link", "dangling", "folder", "hard", "pipe", "socket", "\\xff\\xfe", "line\\x0abreak"
    }  # fmt: skip
    assert "link" in why["link"]
    assert "hard link" in why["hard"]
    assert "UTF-8" in why["\\xff\\xfe"]
    again = await taken(place, artifacts, thread_pool, found.signatures)
    assert again.skipped == (), "earlier files are not reported again"


async def test_a_file_that_becomes_a_link_meanwhile_is_not_read(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.path.parent / "secret").write_bytes(SECRET)
    (place.path / "a").write_bytes(b"x")
    (place.path / "d").write_bytes(b"x")
    (place.path / "b").mkdir()
    (place.path / "b" / "c").write_bytes(b"x")
    (place.path.parent / "outside").mkdir()
    (place.path.parent / "outside" / "c").write_bytes(SECRET)

    def swapped(*arguments: object) -> object:
        seen = scan(*arguments)  # type: ignore[arg-type]
        (place.path / "a").unlink()
        (place.path / "a").symlink_to(place.path.parent / "secret")
        (place.path / "b").rename(place.path / "was_b")
        (place.path / "b").symlink_to(place.path.parent / "outside")
        (place.path / "d").unlink()
        os.link(place.path.parent / "secret", place.path / "d")
        return seen

    monkeypatch.setattr("clicket.interpreter.files.outputs.scan", swapped)
    found = await taken(place, artifacts, thread_pool)
    assert found.files == ()
    assert [skipped.what for skipped in found.skipped] == ["a", "b/c", "d"]


def test_a_folder_that_its_owner_shut_is_named() -> None:
    """As an ordinary user: root can read every folder."""
    script = """
        import os, stat, tempfile
        from clicket.interpreter.files.outputs import OutputLimits, scan
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/open/shut")
            os.chmod(f"{folder}/open/shut", 0)
            fd = os.open(folder, os.O_RDONLY)
            print({name: stat.S_ISDIR(entry.mode) for name, entry in scan(fd, OutputLimits()).entries.items()})
            os.chmod(f"{folder}/open/shut", 0o700)
    """
    source = str(Path(clicket.__file__).parents[1])
    done = as_user([sys.executable, "-c", textwrap.dedent(script)], env={"PYTHONPATH": source})
    assert (done.stdout, done.stderr) == ("{'open/shut': True}\n", "")


async def test_caps(place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool) -> None:
    for number in range(6):
        (place.path / f"{number}.txt").write_bytes(b"x" * 100)
    few = await taken(place, artifacts, thread_pool, count=4)
    assert (len(few.files), len(few.skipped)) == (4, 2)
    whole = await taken(place, artifacts, thread_pool, whole=250)
    assert (len(whole.files), len(whole.skipped)) == (2, 4)
    each = await taken(place, artifacts, thread_pool, each=99)
    assert (len(each.files), len(each.skipped)) == (0, 6)
    entries = await taken(place, artifacts, thread_pool, entries=3)
    assert len(entries.files) == 3
    assert "3 entries" in entries.skipped[-1].why
    deep = place.path
    for number in range(12):
        deep = deep / f"d{number}"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x")
    below = await taken(place, artifacts, thread_pool)
    assert len(below.files) == 6
    assert "deep" in below.skipped[-1].why


async def test_thousands_of_entries_are_bounded_and_summarised(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    for number in range(1_500):
        (place.path / f"{number}").symlink_to("/etc/passwd")
    (place.path / "sparse").touch()
    os.truncate(place.path / "sparse", 10**12)
    found = await taken(place, artifacts, thread_pool)
    assert found.files == ()
    assert len(found.skipped) == 51
    assert found.skipped[-1].what == "1451 more"


async def test_others_have_their_turn_while_many_files_are_taken(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool
) -> None:
    for number in range(100):
        (place.path / f"{number}.txt").write_text("x")
    turns = 0

    async def look_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    looking = asyncio.create_task(look_on())
    assert len((await taken(place, artifacts, thread_pool)).files) == 100
    looking.cancel()
    assert turns >= 8


async def test_a_store_that_fails_costs_one_file_only(place: Place, thread_pool: ThreadPool) -> None:
    class Full:
        async def put(self, pieces: object) -> str:
            raise ClicketError("no room")

        async def get(self, name: str) -> bytes:
            raise NotFound(name)

    (place.path / "a").write_bytes(b"x")
    found = await collect(place.work_fd, {}, Full(), thread_pool)
    assert found.files == ()
    assert "no room" in found.skipped[0].why


# --- an empty folder ------------------------------------------------------------------------------------------------------


async def test_a_folder_that_stays_empty_is_not_walked_again(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.path / ".cache").mkdir()  # ignored
    fresh = await taken(place, artifacts, thread_pool)
    assert fresh.empty_at is None, "its next change could have the same time"
    monkeypatch.setattr(files, "_SETTLED", -(10**18))
    settled = await taken(place, artifacts, thread_pool)
    assert settled.empty_at is not None
    with monkeypatch.context() as patched:
        patched.setattr(files, "scan", None)
        again = await collect(place.work_fd, {}, artifacts, thread_pool, empty_at=settled.empty_at)
    assert again == settled

    deadline = time.monotonic() + PATIENCE
    while os.stat(place.work_fd).st_ctime_ns == settled.empty_at:  # file times have a coarse resolution
        assert time.monotonic() < deadline
        (place.path / "new.txt").unlink(missing_ok=True)
        (place.path / "new.txt").write_text("1")
    found = await collect(place.work_fd, {}, artifacts, thread_pool, empty_at=settled.empty_at)
    assert ([file.name for file in found.files], found.empty_at) == (["new.txt"], None)


@pytest.mark.parametrize("name", ["a.txt", "folder/a.txt", "folder/.keep"])
async def test_a_folder_with_anything_in_it_is_walked(
    place: Place, artifacts: TemporaryArtifacts, thread_pool: ThreadPool, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A change inside a file, or in a subfolder, does not change the time of the folder itself."""
    monkeypatch.setattr(files, "_SETTLED", -(10**18))
    (place.path / name).parent.mkdir(exist_ok=True)
    if name.endswith(".txt"):
        (place.path / name).write_text("1")
    first = await taken(place, artifacts, thread_pool)
    assert first.empty_at is None
    (place.path / name).write_text("longer")
    second = await collect(place.work_fd, first.signatures, artifacts, thread_pool, empty_at=first.empty_at)
    assert [(file.name, file.size) for file in second.files] == [(name, 6)]
