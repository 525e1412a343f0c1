"""A home belongs to one process, shows that the process lives, and is swept after its death."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE, eventually_sync

from clicket.interpreter.sandbox import workdirs
from clicket.interpreter.sandbox.workdirs import WorkdirRoot

DEAD = """
import os, sys
from pathlib import Path
from clicket.interpreter.sandbox.workdirs import WorkdirRoot
home = WorkdirRoot(Path(sys.argv[1]))
(home.new_workdir(None) / "work" / "left").write_text("x")
os._exit(0)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_closed_to_others_and_goes_with_its_files(tmp_path: Path) -> None:
    home = WorkdirRoot(tmp_path)
    folder = home.new_workdir(None, scratch=True)
    assert (mode(home.path), mode(folder / "work"), mode(folder / "scratch")) == (0o700, 0o700, 0o700)
    assert home.new_workdir(None) != folder
    home.let_through()
    assert mode(home.path) == 0o711
    home.close()
    home.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_program_of_another_user_owns_its_folders(tmp_path: Path) -> None:
    home = WorkdirRoot(tmp_path)
    folder = home.new_workdir(71_717, scratch=True)
    assert [(folder / name).stat().st_uid for name in ("work", "scratch", "etc")] == [71_717, 71_717, 0]
    home.close()


def test_homes_of_the_dead_are_swept_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DEAD, str(tmp_path)], check=True)
    (dead,) = tmp_path.iterdir()
    assert (dead / "program-1" / "work" / "left").exists()
    living = WorkdirRoot(tmp_path)
    assert not dead.exists()
    another = WorkdirRoot(tmp_path)
    assert living.path.exists()
    for home in (living, another):
        home.close()


def test_a_process_that_was_left_alone_at_its_birth_is_found_by_its_name(tmp_path: Path) -> None:
    dead = tmp_path / f"{workdirs.PREFIX}dead"
    dead.mkdir()
    (dead / "lock").touch()
    orphan = subprocess.Popen([f"{workdirs.BWRAP_NAME}{dead.name}", "1000"], executable="/bin/sleep")
    other = subprocess.Popen([f"{workdirs.BWRAP_NAME}{dead.name}er", "1000"], executable="/bin/sleep")
    for process in (orphan, other):
        eventually_sync(Path(f"/proc/{process.pid}/cmdline").read_bytes)  # at first its command line is empty
    workdirs.sweep(tmp_path)
    assert orphan.wait(PATIENCE) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()
    assert not dead.exists()


def test_what_only_looks_like_a_home_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "program-1").mkdir(parents=True)
    (elsewhere / "lock").touch()
    (tmp_path / f"{workdirs.PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{workdirs.PREFIX}file").touch()
    (tmp_path / f"{workdirs.PREFIX}newborn").mkdir()
    workdirs.sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    assert (elsewhere / "program-1").exists()
    os.utime(tmp_path / f"{workdirs.PREFIX}newborn", (1, 1))
    workdirs.sweep(tmp_path)
    assert not (tmp_path / f"{workdirs.PREFIX}newborn").exists()


def test_removing_follows_no_link_and_stops_at_no_mode_and_no_depth(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    (kept / "inner").mkdir(parents=True)
    (kept / "inner" / "file").write_text("x")
    folder.mkdir()
    (folder / "link").symlink_to(kept)
    (folder / "closed").mkdir()
    (folder / "closed" / "link").symlink_to(kept)
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    fd = os.open(folder, os.O_RDONLY)
    for number in range(150):
        os.mkdir("deep", dir_fd=fd)
        inner = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(os.open("file", os.O_CREAT, 0, dir_fd=inner))
        if number % 20 == 0:
            os.fchmod(fd, 0o500)
        os.close(fd)
        fd = inner
    os.close(fd)
    workdirs.remove(folder)
    workdirs.remove(folder)
    assert not folder.exists()
    assert (kept / "inner" / "file").read_text() == "x"
