"""What does it cost to check arguments against their JSON Schema?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required

__all__ = ["QUESTION"]

QUESTION = Question(
    name="schema",
    title="A schema check",
    about=(
        "Five fields, one of them an object, checked by a validator that was compiled before. “Wrong” has three mistakes; "
        "clicket and jsonschema report all three with their paths, fastjsonschema stops at the first. clicket's figure "
        "is its whole validate step: limits on depth and size, forbidden numbers and text, then the schema."
    ),
    contenders=(
        Contender(name="clicket", title="clicket", environment="clicket", module="benchmarks.ours.schema"),
        Contender(
            name="jsonschema-rs",
            title="jsonschema-rs alone",
            environment="clicket",
            module="benchmarks.ours.schema",
            variant="rs",
        ),
        Contender(
            name="jsonschema", title="jsonschema", environment="jsonschema", module="benchmarks.peers.jsonschema"
        ),
        Contender(
            name="fastjsonschema",
            title="fastjsonschema",
            environment="fastjsonschema",
            module="benchmarks.peers.fastjsonschema",
        ),
    ),
    columns=(
        Column(figure="good_us", title="good", show=show.micro),
        Column(figure="wrong_us", title="wrong", show=show.micro),
        Column(figure="compile_us", title="compile", show=show.micro),
    ),
    required=(
        Required(
            text="a schema check against jsonschema",
            measure=lambda answer: answer.ratio("jsonschema", "clicket", "good_us"),
            limit=1,
        ),
    ),
)
