"""Sums of all members at once are the same as sums one by one."""

from __future__ import annotations

import random

from clicket.search.index.bit_planes import BitPlanes, members, planes_of


def test_sums_are_those_of_counting_one_by_one() -> None:
    chance = random.Random(3)
    planes, sums = BitPlanes((1 << 300) - 1), [0] * 300
    assert planes.highest_sum == 0
    for most in (40, 7, 0, 1, 90, 3, 40, 40):
        numbers = [chance.randrange(most + 1) for _ in sums]
        sets = {value: sum(1 << at for at, one in enumerate(numbers) if one == value) for value in set(numbers)}
        planes.add(planes_of(sets))
        sums = [one + more for one, more in zip(sums, numbers, strict=True)]
        assert planes.highest_sum == max(sums)
    for value in (0, 1, 50, max(sums), max(sums) + 1, 10_000):
        assert list(members(planes.at_least(value))) == [one for one in range(300) if sums[one] >= value]


def test_members_are_the_bits_that_are_set() -> None:
    assert list(members(0)) == []
    assert list(members(1 | 1 << 8 | 1 << 4000)) == [0, 8, 4000]
