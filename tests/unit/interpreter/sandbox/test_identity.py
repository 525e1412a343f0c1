"""When the host is root, every program gets its own user id, which exists here and is otherwise unused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clicket.interpreter.sandbox import identity


def test_numbers_are_free_and_never_given_twice() -> None:
    accounts = {int(line.split(":")[2]) for line in Path("/etc/passwd").read_text().splitlines()}
    found = [identity.allocate_uid() for _ in range(200)]
    assert len(set(found)) == 200
    assert not accounts & {uid for uid in found if uid is not None}


@pytest.mark.parametrize(
    ("mapped", "expected"),
    [
        ([(0, 2**32 - 1)], (0x7000_0000, 0x7FFF_FFF0)),
        ([(0, 65_536)], (30_592, 61_184)),
        ([(0, 1), (1, 65_537)], (32_769, 65_537)),
        ([(100_000, 200_000)], (150_000, 200_000)),
    ],
)
def test_numbers_come_from_the_upper_part_of_what_exists(
    mapped: list[tuple[int, int]], expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_mapped", lambda: mapped)
    uid = identity.allocate_uid()
    assert uid is not None
    assert expected[0] <= uid < expected[1]


def test_a_container_of_one_user_has_none_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_mapped", lambda: [(0, 1)])
    assert identity.allocate_uid() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_program_without_privileges_has_no_groups_and_no_capabilities() -> None:
    setpriv, uid = identity.tool(), identity.allocate_uid()
    assert setpriv is not None
    assert uid is not None
    command = ["cat", "/proc/self/status"]
    lines = subprocess.run(
        [*identity.run_as_prefix(setpriv, uid), *command], capture_output=True, text=True, check=True
    ).stdout
    status = dict(line.split(":\t", 1) for line in lines.splitlines())
    assert status["Uid"].split() == status["Gid"].split() == [str(uid)] * 4
    assert status["Groups"].split() == []
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    lines = subprocess.run(
        [*identity.no_capabilities_prefix(setpriv), *command], capture_output=True, text=True, check=True
    ).stdout
    status = dict(line.split(":\t", 1) for line in lines.splitlines())
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
