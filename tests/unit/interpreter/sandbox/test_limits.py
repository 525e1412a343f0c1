"""Limits are whole numbers that leave a program enough to run; sizes may have units."""

from __future__ import annotations

from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.sandbox import Limits, size_of


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("64KiB", 65536),
        ("1.5 MiB", 3 << 19),
        (" 2gib ", 2 << 30),
        ("500 MB", 500_000_000),
        ("1kB", 1000),
        ("10B", 10),
    ],
)
def test_sizes(given: Any, size: int) -> None:
    assert size_of(given, "memory") == size


@pytest.mark.parametrize(
    "given", ["", "much", "1 XiB", "-1MiB", "1,5MiB", "0x10", "0", "0.2B", 0, -1, 1.5, True, None, ["1MiB"]]
)
def test_what_is_no_size_is_refused_by_the_name_of_the_option(given: Any) -> None:
    with pytest.raises(UsageError, match="memory must be a number of bytes or text like '512MiB'"):
        size_of(given, "memory")


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1GiB", None])
def test_limits_are_whole_numbers_above_zero(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"limit {name} must be a whole number above 0"):
        Limits(**{name: value})


def test_python_itself_needs_some_memory() -> None:
    with pytest.raises(UsageError, match="at least 64MiB"):
        Limits(memory=(64 << 20) - 1)
    assert Limits(memory=64 << 20).memory == 64 << 20


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_what_no_program_could_be_started_with_is_refused_before(name: str) -> None:
    with pytest.raises(UsageError, match=rf"limit {name} may be [\d,]+ at most"):
        Limits(**{name: 1 << 62})
    for least in ({"processes": 1}, {"open_files": 15}):
        with pytest.raises(UsageError, match="at least"):
            Limits(**least)
