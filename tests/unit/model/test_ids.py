"""Ids of uses: made of the program's call, unique, short enough, and of the run that made the program."""

from __future__ import annotations

import pytest

from clicket.agents.task_threads import _ASKING
from clicket.engine.spend.lineage import spender_of_call
from clicket.model.ids import (
    agent_of,
    alias_of,
    asked_id,
    is_alias,
    is_of_turn,
    is_use_of,
    program_of,
    provider_of,
    use_id,
)


def test_a_use_has_its_parents_id_and_a_number() -> None:
    assert use_id("bill", 3) == "bill.u3"
    parent = asked_id("toolu_01", "react.1.2.1", "3f9c12ab")
    use = use_id(parent, 3)
    assert use == "react.1.2.1.u3~3f9c12ab"
    assert provider_of(use) == "", "the provider's id names the program's call alone"
    assert is_of_turn(use, "react.1")
    assert agent_of(use) == agent_of(parent) == "react"
    assert is_alias(alias_of(use)), "it is found by its short name"
    assert program_of(alias_of(use_id(use, 1))) == program_of(alias_of(parent)) == alias_of(parent)
    assert not is_alias("bill.u3")
    assert alias_of(use) != alias_of(use_id(parent, 4)), "two sub-agents that one program uses have two threads"


@pytest.mark.parametrize("parent", ["x" * 512, "é" * 500, "a:b~", "~", "toolu:" + "y" * 490 + "~t"])
def test_odd_parents_have_uses_too(parent: str) -> None:
    ids = {use_id(parent, number) for number in (1, 2, 10**6)}
    assert len(ids) == 3
    assert all(is_use_of(id, parent) and not is_use_of(id, f"{parent}x") for id in ids)
    assert all(0 < len(id) <= 512 for id in ids)


@pytest.mark.parametrize("id", ["bill", "bill.u", "bill.ux", "other.u1", "bill.u01", "bill.u1.u2"])
def test_other_calls_are_no_uses_of_the_program(id: str) -> None:
    assert not is_use_of(id, "bill")


def test_a_use_is_spent_by_the_run_of_its_program() -> None:
    parent = asked_id("toolu_01", "react.1.2.1", "3f9c12ab")
    assert spender_of_call("", "t", use_id(parent, 3)) == spender_of_call("", "t", parent)
    assert spender_of_call("", "t", "bill.u3")[1] == 0


def test_an_agent_that_a_program_uses_finds_the_agents_above_it() -> None:
    assert _ASKING.findall("t/react.1.2.1.u3") == ["react"]
