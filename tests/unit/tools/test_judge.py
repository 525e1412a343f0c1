"""`Judge` and jsonschema-rs agree on every value; the work is counted in steps and stays small where that of a plain validator explodes."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema_rs
import pytest

from clicket.errors import MAX_PROBLEMS, UsageError
from clicket.tools import schema_graph
from clicket.tools.check import MAX_VISITS, CompiledSchema, compile_schema
from clicket.tools.judge import COUNTED, Judge, TooMuchWork
from clicket.tools.problems import problems_of
from clicket.tools.schema_graph import Node, SchemaGraph, Unusable, pattern_size

_NAMES = ("a", "b", "op")
_SCALARS: tuple[Any, ...] = (None, True, 0, 1.5, "a", "and", "x" * 5)
_ASSERTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"type": "object"},
    {"type": ["array", "string"]},
    {"type": "integer"},
    {"const": "and"},
    {"enum": ["a", 0, {"a": 1}]},
    {"minLength": 2},
    {"required": ["a"]},
    {"maxProperties": 1},
    {"minItems": 1, "uniqueItems": True},
    {"pattern": "^a"},
    {"dependentRequired": {"a": ["b"]}},
    {"minimum": 1},
)


def random_schema(random: Random, depth: int) -> Any:
    if depth == 0 or random.random() < 0.1:
        return random.choice((True, False, {"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}, *_ASSERTIONS))
    schema = dict(random.choice(_ASSERTIONS))
    for _ in range(random.randint(1, 3)):
        schema |= _keyword(random, depth - 1)
    return schema


def _keyword(random: Random, depth: int) -> dict[str, Any]:
    def inner() -> Any:
        return random_schema(random, depth)

    word = random.choice(
        "allOf anyOf oneOf not if properties patternProperties additionalProperties propertyNames items prefixItems contains "
        "dependentSchemas dependencies unevaluatedProperties unevaluatedItems".split()
    )
    if word in ("allOf", "anyOf", "oneOf", "prefixItems"):
        return {word: [inner() for _ in range(random.randint(1, 3))]}
    if word == "if":
        return {"if": inner(), "then": inner(), "else": inner()}
    if word == "properties":
        return {word: {name: inner() for name in _NAMES if random.random() < 0.7}}
    if word in ("dependentSchemas", "patternProperties"):
        return {word: {random.choice(_NAMES): inner()}}
    if word == "dependencies":
        return {word: {"a": random.choice((["b"], inner()))}}
    if word == "contains":
        return {word: inner(), "minContains": random.randint(0, 1), "maxContains": 2}
    return {word: inner()}


def random_value(random: Random, depth: int) -> Any:
    kind = random.random()
    if depth == 0 or kind < 0.3:
        return random.choice(_SCALARS)
    if kind < 0.75:
        return {name: random_value(random, depth - 1) for name in _NAMES if random.random() < 0.6}
    return [random_value(random, depth - 1) for _ in range(random.randint(0, 3))]


def compared(seed: int, rounds: int) -> int:
    """Compare the verdicts of both; returns how many were compared."""
    random = Random(seed)
    count = 0
    for _ in range(rounds):
        schema = {"allOf": [random_schema(random, 3)], "$defs": {f"d{n}": random_schema(random, 2) for n in range(2)}}
        try:
            graph = SchemaGraph(schema)
        except Unusable:
            continue
        judge, validator = Judge(graph), jsonschema_rs.Draft202012Validator(schema)
        for _ in range(8):
            value = random_value(random, 3)
            expected = validator.is_valid(value)
            assert judge.fits(value, 100_000) is expected, (schema, value)
            problems = [] if expected else list(problems_of(value, judge, 100_000))
            assert bool(problems) is not expected, (schema, value)
            count += 1
    return count


def test_the_judge_agrees_with_the_validator() -> None:
    assert compared(seed=1, rounds=150) > 500


def test_the_judge_agrees_where_it_compares_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for figure in ("MIN_WEIGHT", "_SCALARS_PER_PATH", "_NAMES_PER_PATH"):
        monkeypatch.setattr(schema_graph, figure, 1)  # each `enum` and `required` counts as a long one
    assert compared(seed=2, rounds=150) > 500


@pytest.mark.parametrize(
    ("listed", "value", "fits"),
    [
        ([1, "1", True, None], 1.0, True),
        ([1.0, 0], True, False),
        ([2], 2.0, True),
        ([-0.0], 0, True),
        ([{"a": 1, "b": [2.0]}], {"b": [2], "a": 1.0}, True),
        ([{"a": 1}], {"a": True}, False),
        (["a:1,b"], {"a": 1}, False),
        ([["a", "b"]], ["a', 'b"], False),
        ([10**400], 10**400, True),
    ],
)
def test_a_long_list_of_values_has_what_the_validator_finds_in_it(listed: list[Any], value: Any, fits: bool) -> None:
    schema = {"enum": [*listed, *({"filler": n} for n in range(100))]}
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(value) is fits
    assert Judge(SchemaGraph(schema)).fits(value, 100) is fits


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_judge_agrees_with_the_validator_on_many_schemas(seed: int) -> None:
    assert compared(seed=100 + seed, rounds=1_000) > 3_000


# Schemas that explode.


def nested(levels: int, word: str = "allOf", leaf: Any = None) -> dict[str, Any]:
    """Two references to the next level on each level: 2 ** levels paths in a few bytes."""
    definitions = {f"d{n}": {word: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": leaf or {}}}


def looking_back(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


EXPLOSIVE: dict[str, dict[str, Any]] = {
    **{word: nested(40, word) for word in ("allOf", "anyOf", "oneOf")},
    "not": {
        "$defs": {
            f"d{n}": {"not": {"$ref": f"#/$defs/d{n + 1}"}, "if": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(40)
        }
        | {"d40": {}},
        "$ref": "#/$defs/d0",
    },
    "dependentSchemas": {
        "$defs": {f"d{n}": {"dependentSchemas": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(40)}
        | {"d40": {}},
        "$ref": "#/$defs/d0",
    },
    "in a member": {"type": "object", "properties": {"a": nested(40) | {"$id": "x:/a"}}},
    "by an anchor": {
        "$defs": {f"d{n}": {"$anchor": f"a{n}", "allOf": [{"$ref": f"#a{n + 1}"}] * 2} for n in range(40)}
        | {"d40": {"$anchor": "a40"}},
        "$ref": "#a0",
    },
    "$dynamicRef": {
        "$defs": {f"d{n}": {"$dynamicAnchor": f"a{n}", "allOf": [{"$dynamicRef": f"#a{n + 1}"}] * 2} for n in range(40)}
        | {"d40": {"$dynamicAnchor": "a40"}},
        "$dynamicRef": "#a0",
    },
    "unevaluatedProperties": looking_back(20),
    "a circle": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
    "circles": {
        "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{m}"} for m in range(9)]} for n in range(9)},
        "$ref": "#/$defs/d0",
    },
    "a long chain": nested(200, leaf={})
    | {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(200)} | {"d200": {}}},
}


@pytest.mark.parametrize("name", EXPLOSIVE)
def test_a_schema_that_explodes_is_refused_when_it_is_taken(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"tool 'x': its input schema cannot be used: .*(paths|circle|chain|mean several)"
    ):
        compile_schema(EXPLOSIVE[name], "tool 'x'")


def test_schemas_of_ordinary_sizes_are_taken() -> None:
    many = {
        "anyOf": [
            {"type": "object", "properties": {f"p{m}": {"type": "string"} for m in range(20)}} for _ in range(200)
        ]
    }
    inherited = looking_back(5)
    tree = {"$defs": {"t": {"properties": {side: {"$ref": "#/$defs/t"} for side in "lr"}}}, "$ref": "#/$defs/t"}
    meta = {"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}
    for schema in (many, inherited, tree, meta, nested(8)):
        assert compile_schema(schema, "a tool")({}) == []
    assert compile_schema(meta, "a tool")({"schema": {"type": 5}}) != []


# Unions in unions.


def test_fields_without_members_are_not_gone_through_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large schema of choices is taken in little time: only what leads to members is counted again for deeper values."""
    seen: list[Node] = []
    below = Node.most_below
    monkeypatch.setattr(Node, "most_below", lambda node, rates: seen.append(node) or below(node, rates))
    choice = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    graph = SchemaGraph({"properties": {f"p{n}": dict(choice) for n in range(2_000)}})
    assert graph.by_level == [1, 3]
    assert len(seen) == 2  # the root, for each of two levels
    assert graph.size == 2_003


def expressions(alternatives: tuple[str, ...] = ("and", "or", "not")) -> dict[str, Any]:
    """A union that holds itself: `And | Or | Not | Leaf`, as pydantic describes it."""
    union = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in (*alternatives, "leaf")]}
    definitions: dict[str, Any] = {
        name: {
            "type": "object",
            "properties": {"op": {"const": name}, "args": {"type": "array", "items": union}},
            "required": ["op", "args"],
            "additionalProperties": False,
        }
        for name in alternatives
    }
    definitions["leaf"] = {
        "type": "object",
        "properties": {"op": {"const": "leaf"}, "name": {"type": "string"}},
        "required": ["op", "name"],
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {"expr": union}, "required": ["expr"], "$defs": definitions}


def expression(levels: int, leaf: Any) -> dict[str, Any]:
    value = leaf
    for level in range(levels):
        value = {"op": ("and", "or", "not")[level % 3], "args": [value]}
    return {"expr": value}


GOOD, BAD = {"op": "leaf", "name": "x"}, {"op": "leaf", "name": 1}


@pytest.mark.parametrize("levels", [1, 5, 12, 40])
def test_a_wrong_value_deep_in_a_union_is_named_in_one_line(levels: int) -> None:
    (found,) = compile_schema(expressions(), "a tool")(expression(levels, BAD))
    assert found == {"path": f"/expr{'/args/0' * levels}/name", "message": '1 is not of type "string"'}


def test_the_steps_of_a_union_grow_with_the_levels_and_do_not_multiply() -> None:
    judge = Judge(SchemaGraph(expressions()))
    for levels in (10, 20, 40):
        for leaf, fits in ((GOOD, True), (BAD, False)):
            assert judge.fits(expression(levels, leaf), 40 * levels) is fits
        assert len(list(problems_of(expression(levels, BAD), judge, 200 * levels))) == 1
    with pytest.raises(TooMuchWork):
        judge.fits(expression(40, GOOD), 40)


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({"op": "xor", "args": []}, "/expr/op", '"xor" is not one of "and", "or", "not", "leaf"'),
        ({"op": "and", "args": {}}, "/expr/args", '{} is not of type "array"'),
        ({"op": "not"}, "/expr/args", "it is required"),
        ({"op": "leaf", "name": "x", "more": 1}, "/expr/more", "there is no such field."),
        ({"op": "or", "args": [GOOD, {"op": "leaf"}]}, "/expr/args/1/name", "it is required"),
        (7, "/expr", "7 is not valid under any of the schemas listed in the 'anyOf' keyword"),
    ],
)
def test_the_nearest_alternative_is_explained(given: Any, path: str, message: str) -> None:
    assert compile_schema(expressions(), "a tool")({"expr": given}) == [{"path": path, "message": message}]


def test_a_value_that_takes_too_many_steps_is_refused_and_says_so() -> None:
    schema = expressions(tuple(f"op{number}" for number in range(300)))
    leaves = [{"op": "op299", "args": []} for _ in range(600)]
    check = CompiledSchema(schema, "a schema")
    with pytest.raises(TooMuchWork):
        check.fits({"expr": {"op": "op299", "args": leaves}})
    (found,) = check.problems({"expr": {"op": "op299", "args": leaves}})
    assert "takes too long" in found["message"]
    assert "Send fewer levels" in found["message"]


def test_problems_hide_masked_values() -> None:
    check = compile_schema(expressions(), "a tool", mask="[secret]")
    assert check({"expr": {"op": "hunter2", "args": []}})[0]["message"].startswith("[secret] is not one of")
    assert "hunter2" not in str(check({"expr": {"op": "leaf", "name": ["hunter2"]}}))
    assert "hunter2" not in str(check({"expr": ["hunter2"]}))


def test_a_pattern_that_looks_back_is_given_up_early() -> None:
    check = compile_schema({"properties": {"a": {"pattern": r"^(\w+\s?)*$(?<!x)"}}}, "a tool")
    assert check({"a": "aaaa aaaa"}) == []
    assert "which a pattern of the schema takes too many steps" in check({"a": "aaaa " * 30 + "!"})[0]["message"]
    (found,) = compile_schema({"properties": {"a": {"pattern": "^(?!x)a"}}}, "a tool")({"a": "xa"})
    assert found == {"path": "/a", "message": '"xa" does not match "^(?!x)a"'}
    names = compile_schema({"patternProperties": {r"^(\w+\s?)*$(?<!x)": {"type": "string"}}}, "a tool")
    assert names({"aaaa aaaa": "x"}) == []
    assert "too many steps" in names({"aaaa " * 30 + "!": "x"})[0]["message"]


def test_what_a_pattern_cannot_decide_does_not_count_as_excluded() -> None:
    check = compile_schema({"properties": {"a": {"not": {"pattern": r"^(\w+\s?)*$(?<!x)"}}}}, "a tool")
    assert check({"a": "!"}) == []
    assert "too many steps" in check({"a": "aaaa " * 30 + "!"})[0]["message"]


def test_many_texts_for_a_pattern_that_looks_ahead_are_checked() -> None:
    check = compile_schema(
        {"properties": {"a": {"items": {"pattern": r"^(?!\.)(?!.*\.\.)[\w.]+@\w+\.\w+$"}}}}, "a tool"
    )
    assert check({"a": [f"user.{number}@example.org" for number in range(1_900)]}) == []
    assert [each["path"] for each in check({"a": ["a@b.c", ".a@b.c"]})] == ["/a/1"]


def test_a_pattern_of_too_many_states_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        compile_schema({"properties": {"a": {"pattern": "(a{1000}){100}"}}}, "a tool")


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("^a$", 3),
        ("^[a-z0-9]{1,64}$", 66),
        ("[^a]{0,200}", 1_200),
        ("((ab{10}){10}){10}", 1_100),
        (r"\d{4}-\d{2}", 121),
        ("(a", 1),
    ],
)
def test_repetitions_repeat_the_states_of_a_pattern(pattern: str, states: int) -> None:
    assert pattern_size(pattern) == states


def test_a_schema_with_many_large_patterns_is_refused_before_they_are_built() -> None:
    fields = {f"p{n}": {"pattern": rf"^[^x{n}]{{60}}\w{{9}}$"} for n in range(200)}
    with pytest.raises(Unusable, match="patterns together have more than 25,000 states"):
        SchemaGraph({"properties": fields})
    with pytest.raises(Unusable, match="patterns together"):
        SchemaGraph({"patternProperties": {each["pattern"]: {} for each in fields.values()}})
    SchemaGraph({"properties": dict(list(fields.items())[:40])})


# Keywords that compare a value with many names or values.


def _each(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"items": schema}}}


_LONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "numbers": (
        _each({"enum": [n + 0.5 for n in range(3_000)]}),
        {"a": [-0.5] * 900},
        "is not one of 0.5, 1.5 or 2998",
    ),
    "objects": (_each({"enum": [{"a": n} for n in range(3_000)]}), {"a": [{"a": -1}] * 900}, '{"a": -1} is not one of'),
    "texts": (
        _each({"enum": [f"v{n:06}" for n in range(9_000)]}),
        {"a": ["w000000"] * 1_900},
        "or 8998 other candidates",
    ),
    "names": (_each({"required": [f"r{n}" for n in range(9_000)]}), {"a": [{}] * 1_900}, "it is required"),
    "names that go with others": (
        _each({"dependentRequired": {f"a{m}": [f"b{n}" for n in range(100)] for m in range(100)}}),
        {"a": [{f"a{m}": 1 for m in range(100)}]},
        "it is required",
    ),
}


@pytest.mark.parametrize("name", _LONG)
def test_the_work_for_long_lists_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, value, text = _LONG[name]
    compiled = CompiledSchema(schema, "a schema")
    assert not compiled.always_fast
    members = 2 + sum(1 + len(each) if isinstance(each, dict) else 1 for each in value["a"])
    assert members * compiled.graph.by_level[-1] > MAX_VISITS
    asked: list[dict[str, Any]] = []
    made = Judge.compiled
    monkeypatch.setattr(Judge, "compiled", staticmethod(lambda own, mask: (asked.append(own), made(own, mask))[1]))
    problems = compiled.problems(value)
    assert text in problems[0]["message"]
    assert len(problems) in (100, MAX_PROBLEMS + 1)
    assert not any(COUNTED & own.keys() for own in asked), (
        "jsonschema-rs compares with all of them, and builds all errors"
    )


def test_short_lists_are_left_to_the_validator() -> None:
    schema = _each({"enum": [f"v{n}" for n in range(100)], "required": ["a", "b"]})
    assert CompiledSchema(schema, "a schema").always_fast
