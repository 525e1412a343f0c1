"""The kernel's limits: set for good, and enforced."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from pathlib import Path

import pytest
from tests.unit.interpreter.sandbox.bound import run

from clicket.interpreter.sandbox import rlimits

MIB = 1 << 20
USER = 54323


def rules(**changes: int) -> dict[str, int]:
    return rlimits.rules(**{"memory": 256 * MIB, "processes": 20, "file_size": MIB, "open_files": 32} | changes)


def test_what_is_set() -> None:
    assert rules() == {
        "CORE": rlimits.core_size(),
        "FSIZE": MIB,
        "NOFILE": 32,
        "AS": 1024 * MIB,
        "SIGPENDING": 1024,
        "NPROC": 20,
    }
    assert "NPROC" not in rules(alone=False, uid=0), "for root the kernel counts no processes"


@pytest.mark.parametrize(("pattern", "bound"), [("core", 0), ("|/usr/lib/systemd/systemd-coredump %P", 1), (None, 0)])
def test_no_dump_is_handed_to_a_program_of_the_host(
    pattern: str | None, bound: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pattern is not None:
        (tmp_path / "core_pattern").write_text(pattern)
    monkeypatch.setattr(rlimits, "_CORE_PATTERN", str(tmp_path / "core_pattern"))
    assert rules()["CORE"] == bound


def test_no_address_space_where_libraries_reserve_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert "AS" not in rules()


def test_a_shared_user_keeps_what_it_runs_already() -> None:
    with subprocess.Popen(["sleep", "60"], user=USER, group=USER, extra_groups=[]) as child:
        try:
            assert rlimits.tasks_of(USER) == 1
            assert rules(alone=False, uid=USER)["NPROC"] == 21
        finally:
            child.kill()
    assert rlimits.tasks_of(USER) == 0


def test_they_hold(library: Path, tmp_path: Path) -> None:
    os.chown(tmp_path, USER, USER)
    code = f"""
        import mmap, resource, threading
        os.chdir({str(tmp_path)!r})
        os.setgroups([]); os.setresgid({USER}, {USER}, {USER}); os.setresuid({USER}, {USER}, {USER})
        rlimits.apply({rules()!r})
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        def forks():
            made = []
            try:
                for _ in range(40):
                    pid = os.fork()
                    if not pid:
                        signal.pause()
                    made.append(pid)
            except OSError as error:
                return [len(made), error.errno]
            finally:
                for pid in made:
                    os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
        def fill():
            file = os.open("big", os.O_WRONLY | os.O_CREAT)
            for _ in range(3):
                os.write(file, bytes(700_000))
        def files():
            return [os.open("/dev/null", 0) for _ in range(40)]
        def raise_again(name):
            try:
                resource.setrlimit(getattr(resource, name), (10**9, 10**9))
            except ValueError:
                return "refused"
        def take():
            try:
                return len(bytearray(1200 << 20))
            except MemoryError:
                return "refused"
        answer([forks(), tried(fill), tried(files), take(), [raise_again("RLIMIT_" + name) for name in
            ("FSIZE", "NOFILE", "NPROC", "CORE")]])
    """
    # Reaching the folder: pytest closes its parents to other users, but the working folder is open already.
    forked, filled, opened, taken, again = run(library, code)
    assert forked == [19, errno.EAGAIN]
    assert filled == -errno.EFBIG
    assert opened == -errno.EMFILE
    assert taken == "refused"
    assert again == ["refused"] * 4
    assert (tmp_path / "big").stat().st_size == MIB


def test_a_stricter_bound_that_is_there_stays(library: Path) -> None:
    code = f"""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 24))
        rlimits.apply({rules()!r})
        answer([resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)])
    """
    assert run(library, code) == [[24, 24], [rlimits.core_size()] * 2]


def test_a_name_that_is_no_bound_is_an_error(library: Path) -> None:
    with pytest.raises(AttributeError):
        rlimits.apply({"NOSUCH": 1})
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] != 1
