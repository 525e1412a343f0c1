"""The state tables, written out once more by hand: a change of a table must be a change of this file, too."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest

from clicket.errors import ClicketError, InvalidTransition
from clicket.kernel import (
    AGENT,
    CALL,
    CODE,
    PLAN_STEP,
    SEARCH,
    TABLES,
    TOOL_STATUS,
    AgentState,
    CodeState,
    PlanStep,
    SearchState,
    State,
    Table,
    ToolStatus,
    to_mermaid,
)

EXPECTED: dict[str, dict[str, str]] = {
    "call": {
        "pending": "initializing completed failed timeout cancelled",
        "initializing": "running failed timeout cancelled",
        "running": "streaming completed failed timeout cancelled retrying",
        "streaming": "completed failed timeout cancelled retrying",
        "completed": "",
        "failed": "",
        "timeout": "",
        "cancelled": "",
        "retrying": "running failed timeout cancelled",
    },
    "agent": {
        "idle": "running",
        "running": "finished idle error",
        "finished": "idle",
        "error": "idle",
    },
    "code": {
        "parsing": "validating error",
        "validating": "preparing error",
        "preparing": "executing error",
        "executing": "monitoring error",
        "monitoring": "executing collecting error",
        "collecting": "completed error",
        "completed": "",
        "error": "",
    },
    "search": {
        "initializing": "decomposing error",
        "decomposing": "searching synthesizing error",
        "searching": "analyzing synthesizing error",
        "analyzing": "iterating synthesizing error",
        "iterating": "decomposing error",
        "synthesizing": "completed error",
        "completed": "",
        "error": "",
    },
    "tool status": {
        "available": "failed unavailable maintenance",
        "failed": "available unavailable maintenance",
        "unavailable": "available maintenance",
        "maintenance": "available unavailable",
    },
    "plan step": {
        "not_started": "in_progress completed blocked",
        "in_progress": "completed blocked not_started",
        "completed": "",
        "blocked": "not_started in_progress",
    },
}
INITIAL = {
    "call": "pending",
    "agent": "idle",
    "code": "parsing",
    "search": "initializing",
    "tool status": "available",
    "plan step": "not_started",
}
each_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def test_all_tables_are_listed() -> None:
    assert [table.name for table in TABLES] == list(EXPECTED)
    assert TABLES == (CALL, AGENT, CODE, SEARCH, TOOL_STATUS, PLAN_STEP)
    assert [t.states for t in TABLES] == [State, AgentState, CodeState, SearchState, ToolStatus, PlanStep]


@each_table
def test_states_are_lowercase_words_with_uppercase_members(table: Table[Any]) -> None:
    assert {str(state) for state in table.states} == set(EXPECTED[table.name])
    assert table.initial == INITIAL[table.name]
    for state in table.states:
        assert state.name == state.value.upper()
        assert f"{state}" == str(state) == state.value == json.loads(json.dumps(state))
        assert table.states(state.value) is state


@each_table
def test_every_edge_is_taken_or_refused(table: Table[Any]) -> None:
    before = copy.deepcopy(table.edges)
    for current, to in itertools.product(table.states, repeat=2):
        expected = EXPECTED[table.name][current.value].split()
        if to.value in expected:
            assert table.advance(current, to) is to
            continue
        with pytest.raises(InvalidTransition) as refused:
            table.advance(current, to)
        error = refused.value
        assert isinstance(error, ClicketError)
        assert error.code == "invalid_transition"
        assert error.details == {"machine": table.name, "current": current.value, "to": to.value}
        assert f"{current} -> {to}" in error.message
        for allowed in expected or ["terminal"]:
            assert allowed in error.message, "the message names the allowed states"
    assert table.edges == before


@each_table
def test_pairs_are_the_edges(table: Table[Any]) -> None:
    wanted = {(a, b) for a, targets in EXPECTED[table.name].items() for b in targets.split()}
    assert {(a.value, b.value) for a, b in table.pairs()} == wanted
    assert len(list(table.pairs())) == len(wanted)


@each_table
def test_terminal_states_lead_nowhere(table: Table[Any]) -> None:
    assert {state.value for state in table.terminal} == {s for s, to in EXPECTED[table.name].items() if not to}


@each_table
def test_every_state_can_be_reached(table: Table[Any]) -> None:
    reached = {table.initial}
    while more := {b for a in reached for b in table.edges[a]} - reached:
        reached |= more
    assert reached == set(table.states)


@each_table
def test_diagram_shows_the_table_and_nothing_else(table: Table[Any]) -> None:
    first, *lines = to_mermaid(table).splitlines()
    assert first == "stateDiagram-v2"
    drawn = [tuple(line.strip().split(" --> ")) for line in lines]
    wanted = [("[*]", INITIAL[table.name])]
    wanted += [(a, b) for a, targets in EXPECTED[table.name].items() for b in targets.split()]
    wanted += [(state, "[*]") for state, targets in EXPECTED[table.name].items() if not targets]
    assert sorted(drawn) == sorted(wanted)


def test_what_a_call_state_says_of_itself() -> None:
    assert {s.value for s in State if s.is_terminal} == {"completed", "failed", "timeout", "cancelled"}
    assert {s.value for s in State if s.is_active} == {"running", "streaming", "retrying"}


def test_a_lookup_in_the_table_takes_constant_time() -> None:
    """One dict probe and one set probe, whatever the table's size: nothing to iterate over."""
    for table in TABLES:
        assert type(table.edges) is dict
        assert all(type(targets) is frozenset for targets in table.edges.values())
        assert type(table.terminal) is frozenset
