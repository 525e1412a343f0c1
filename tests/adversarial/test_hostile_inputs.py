"""Each input of the page benchmarks/HOSTILE.md costs a bounded number of function calls on the event loop's thread.

The page has the times. A count does not depend on the machine: an input that makes work multiply makes millions of calls.
"""

from __future__ import annotations

import sys

import pytest
from benchmarks.hostile_cases import CASES, TOOLS, Case

from clicket import Runtime

_MOST = 150_000


def test_every_case_has_a_name_of_its_own() -> None:
    names = [(case.group, case.name) for case in CASES]
    assert len(set(names)) == len(names) > 50


@pytest.mark.parametrize("group", sorted({case.group for case in CASES}))
async def test_hostile_inputs_cost_a_bounded_number_of_calls(group: str) -> None:
    counts = {case.name: await _calls(case) for case in CASES if case.group == group}
    print(counts)
    assert {name: count for name, count in counts.items() if count > _MOST} == {}


async def _calls(case: Case) -> int:
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    async with Runtime(list(TOOLS), store="memory://") as rt:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await case.run(rt)
        finally:
            sys.setprofile(before)
    return count
