"""Groups are found and made in both cgroup versions, below our own or beside it, and never contain our own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE

from clicket.interpreter.sandbox import cgroup
from clicket.interpreter.sandbox.cgroup import Group, Parents

MIB = 1 << 20
OWN = Path("/proc/self/cgroup")


@pytest.fixture
def parents() -> Parents:
    found = cgroup.find()
    if not found.bounds:
        pytest.skip("no cgroup can be made on this machine")
    return found


def make(parents: Parents) -> Group:
    return Group(parents, f"clicket-test-{os.getpid()}", memory=64 * MIB, processes=5)


async def test_a_group_holds_freezes_kills_and_goes(parents: Parents) -> None:
    before = OWN.read_text()
    group = make(parents)
    process = subprocess.Popen(["sleep", "1000"])
    with process:
        group.join(process.pid)
        assert group.holds(process.pid)
        assert group.pids() == [process.pid]
        assert group.memory() is not None
        assert group.freeze(True)
        group.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
    assert group.out_of_memory() == 0
    await group.dissolve()
    assert [path for parent in parents.folders for path in parent.glob(f"clicket-test-{os.getpid()}*")] == []
    assert OWN.read_text() == before


async def test_the_first_version_freezes_and_kills_what_is_frozen(parents: Parents) -> None:
    mounts, own = cgroup._mounts(Path("/proc/self/mountinfo").read_text()), cgroup._own(OWN.read_text())
    freezer = cgroup._writable(cgroup._below(mounts, own, "freezer"))
    if freezer is None or parents.controlled:
        pytest.skip("this machine has no freezer of the first version")
    first = Parents(memory=parents.memory, pids=parents.pids, freezer=freezer)
    group = make(first)
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            group.join(process.pid)
            assert group.freeze(True)
            state = freezer / f"clicket-test-{os.getpid()}" / "freezer.state"
            assert state.read_text() in ("FREEZING\n", "FROZEN\n")
            group.kill()
            assert process.wait(PATIENCE) == -signal.SIGKILL
        finally:
            process.kill()
            await group.dissolve()
    assert not [path for parent in first.folders for path in parent.glob(f"clicket-test-{os.getpid()}*")]


def test_a_group_that_cannot_be_bounded_is_not_left_half_made(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    with pytest.raises(FileNotFoundError):  # no kernel here that would fill the folder with files
        make(Parents(memory=tmp_path / "memory"))
    assert list((tmp_path / "memory").iterdir()) == []


async def test_processes_are_bounded(parents: Parents) -> None:
    group = make(parents)
    code = (
        "import os, sys\nsys.stdin.read(1)\ntry:\n  while os.fork(): pass\nexcept OSError: print('bounded', flush=True)"
    )
    code += "\nos.read(sys.stdin.fileno(), 1)"
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        group.join(process.pid)
        process.stdin.write(b"g")
        process.stdin.flush()
        assert process.stdout.readline() == b"bounded\n"
        group.kill()
    await group.dissolve()


async def test_groups_of_the_dead_are_swept(parents: Parents) -> None:
    group = Group(parents, "clicket-sandbox-dead-program-1", memory=64 * MIB, processes=5)
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with process:
        group.join(process.pid)
        for parent in parents.folders:
            cgroup.sweep(parent, "clicket-sandbox-dead")
        assert process.wait(PATIENCE) == -signal.SIGKILL
        for parent in parents.folders:
            cgroup.sweep(parent, "clicket-sandbox-dead")
    assert not [path for parent in parents.folders for path in parent.glob("clicket-sandbox-dead*")]


def test_groups_whose_home_is_gone_are_swept_when_they_are_empty_and_old(parents: Parents) -> None:
    prefix = f"clicket-test-{os.getpid()}-forgotten"
    group = Group(parents, f"{prefix}-1", memory=64 * MIB, processes=5)
    made = [parent / f"{prefix}-1" for parent in parents.folders]
    with subprocess.Popen(["sleep", "1000"]) as process:
        group.join(process.pid)
        for folder in made:
            os.utime(folder, (1, 1))
        cgroup.sweep_forgotten(parents, prefix)
        assert all(folder.exists() for folder in made)
        process.kill()
    cgroup.sweep_forgotten(parents, prefix)
    assert not any(folder.exists() for folder in made)
    young = Group(parents, f"{prefix}-2", memory=64 * MIB, processes=5)
    cgroup.sweep_forgotten(parents, prefix)
    assert all((parent / f"{prefix}-2").exists() for parent in parents.folders)
    young.remove()
    assert not any((parent / f"{prefix}-2").exists() for parent in parents.folders)


def second_version(root: Path, path: str, *, controllers: str, handed_down: str) -> Path:
    """A fake of the kernel's folders: plain files, which accept what is written to them."""
    folder = root
    for part in ("", *path.split("/")):
        folder = folder / part
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").touch()
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(handed_down)
    return folder


def look(monkeypatch: pytest.MonkeyPatch, root: Path, mounts: str, own: str) -> Parents:
    for name, text in (("_MOUNTS", mounts), ("_OWN", own)):
        (root / name).write_text(text)
        monkeypatch.setattr(cgroup, name, root / name)
    return cgroup.find()


def test_version_two_is_used_beside_our_own_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = tmp_path / "cgroup"
    second_version(mounted, "user.slice/app.scope", controllers="memory pids", handed_down="memory pids")
    refuses = mounted / "user.slice/app.scope/cgroup.subtree_control"  # like the kernel: our process is in that group
    refuses.unlink()
    refuses.mkdir()
    line = f"30 23 0:26 / {mounted} rw,nosuid - cgroup2 cgroup2 rw\n"
    found = look(monkeypatch, tmp_path, line, "0::/user.slice/app.scope\n")
    assert found == Parents(unified=mounted / "user.slice", controlled=True)
    assert found.bounds


def test_version_two_without_controllers_still_freezes_and_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = tmp_path / "cgroup"
    own = second_version(mounted, "a", controllers="hugetlb", handed_down="")
    line = f"30 23 0:26 / {mounted} rw - cgroup2 cgroup2 rw\n"
    found = look(monkeypatch, tmp_path, line, "1:name=systemd:/\n0::/a\n")
    assert found == Parents(unified=own)
    assert not found.bounds


def test_the_first_version_is_found_where_only_a_part_of_it_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = {"memory": "memory", "pids": "pids", "freezer": "freezer", "cpu": "cpu,cpuacct"}
    for name in mounted:
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    lines = "".join(
        f"3 2 0:2 /docker/1 {tmp_path / name} rw - cgroup cgroup rw,{options}\n" for name, options in mounted.items()
    )
    own = "".join(f"4:{options}:/docker/1\n" for options in mounted.values())
    found = look(monkeypatch, tmp_path, lines, own)
    assert found == Parents(**{name: tmp_path / name for name in mounted})
    assert found.folders == [tmp_path / name for name in mounted]


def test_where_nothing_may_be_made_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert look(monkeypatch, tmp_path, line, "0::/gone\n") == Parents()
    assert look(monkeypatch, tmp_path, "", "") == Parents()
    monkeypatch.setattr(cgroup, "_OWN", tmp_path / "nowhere")
    assert cgroup.find() == Parents()


def test_a_group_of_version_two_writes_its_bounds(tmp_path: Path) -> None:
    parent = second_version(tmp_path, "a", controllers="memory pids", handed_down="memory pids")
    (parent / "one").mkdir()
    for name in ("memory.max", "memory.swap.max", "pids.max", "cgroup.procs", "cgroup.freeze", "cgroup.kill"):
        (parent / "one" / name).touch()
    (parent / "one" / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (parent / "one" / "memory.current").write_text("123\n")
    Path.rename(parent / "one", parent / "kept")

    class Ready(Group):
        """The kernel fills a new group with files; here the test does."""

        def _bound(self, memory: int, processes: int) -> None:
            (parent / "one").rmdir()
            (parent / "kept").rename(parent / "one")
            super()._bound(memory, processes)

    group = Ready(Parents(unified=parent, controlled=True), "one", memory=64 * MIB, processes=7)
    group.join(41)
    assert group.freeze(True)
    written = {path.name: path.read_text() for path in (parent / "one").iterdir()}
    assert written["memory.max"] == str(64 * MIB)
    assert (written["memory.swap.max"], written["pids.max"], written["cgroup.procs"]) == ("0", "7", "41")
    assert written["cgroup.freeze"] == "1"
    assert (group.out_of_memory(), group.memory(), group.bounds_memory) == (1, 123, True)
