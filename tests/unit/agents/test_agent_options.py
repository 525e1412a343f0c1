"""Options that agents share are written in each signature, and are the same there."""

from __future__ import annotations

import inspect

from clicket.agents import PlanExecuteAgent, ReActAgent
from clicket.agents.agent_options import AgentOptions

OWN = {"name", "max_steps"}
"""Each kind has its own default."""


def test_the_shared_options_are_the_same_keywords_of_both_kinds() -> None:
    react, plan = (inspect.signature(kind.__init__).parameters for kind in (ReActAgent, PlanExecuteAgent))
    fields = inspect.get_annotations(AgentOptions)
    assert set(fields) == (set(react) & set(plan)) - {"self", "rt", "model"}
    for name, written in fields.items():
        assert (
            react[name].annotation
            == plan[name].annotation
            == written.replace("type[Any] | Output[Any]", "type[T] | Output[T]")
        )
        assert name in OWN or react[name].default == plan[name].default, name


def test_the_options_are_taken_from_a_constructors_keywords() -> None:
    names = AgentOptions.__struct_fields__
    assert AgentOptions.of({"rt": object(), **dict.fromkeys(names, 1)}).retry_delay == 1
