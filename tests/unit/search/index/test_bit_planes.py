"""Sums of all members at once are the same as sums one by one."""

from __future__ import annotations

import random

from clicket.search.index.bit_planes import BitPlanes, members


def test_sums_are_those_of_counting_one_by_one() -> None:
    chance = random.Random(3)
    planes, sums = BitPlanes((1 << 300) - 1), [0] * 300
    assert planes.highest_sum == 0
    for _ in range(12):
        some, weight = chance.getrandbits(300), chance.randrange(40)
        planes.add(some, weight)
        for one in members(some):
            sums[one] += weight
    for value in (0, 1, 50, max(sums), max(sums) + 1, 10_000):
        assert list(members(planes.at_least(value))) == [one for one in range(300) if sums[one] >= value]
    assert planes.highest_sum == max(sums)
    best = list(planes.highest(7))
    assert len(best) >= 7
    assert sorted((sums[one] for one in best), reverse=True)[:7] == sorted(sums, reverse=True)[:7]


def test_members_are_the_bits_that_are_set() -> None:
    assert list(members(0)) == []
    assert list(members(1 | 1 << 8 | 1 << 4000)) == [0, 8, 4000]
