"""Small inputs that once froze the event loop, or could: schemas, unions, policies, crons, filters, ids, texts and documents.

Each case gives the input to the part that takes it from outside, and says in a few words what happened. Nothing is asserted here: tests
assert counts of paths, steps and errors, and `benchmarks.hostile_inputs` measures the stall.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from pydantic import BaseModel

from clicket import NativeTool, Runtime, ToolContext, tool
from clicket.engine.stages import Condition, check_schema
from clicket.engine.stages.rules import ArgumentValues, CompiledCondition, with_defaults
from clicket.errors import ClicketError
from clicket.interpreter.tool.signatures import signature_of
from clicket.model.printable import escaped
from clicket.search.extract.html import extract_html
from clicket.search.extract.mail import extract_mail
from clicket.search.extract.plain_text import extract_text, markdown
from clicket.search.extract.tables import extract_table
from clicket.server.ag_ui.run_input import FrontendToolDefinition, RunAgentInput, offers
from clicket.tools import as_tool
from clicket.tools.check import bound_schema
from clicket.tools.rest import RestTool

__all__ = ["CASES", "TOOLS", "Case"]

Schema = dict[str, Any]
Run = Callable[[Runtime], Awaitable[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    group: str
    name: str
    size: int
    """Bytes of what the stranger sends."""
    run: Run


def _size(given: Any) -> int:
    if isinstance(given, bytes):
        return len(given)
    return len(given.encode() if isinstance(given, str) else msgspec.json.encode(given))


def _refused(work: Callable[[], object], done: str = "taken") -> str:
    try:
        work()
    except ClicketError as error:
        return f"refused: {error}"
    return done


# Schemas.


def raw(schema: Mapping[str, Any], called: str = "raw") -> Any:
    """A tool with this schema, as a server describes one."""

    class Raw(NativeTool):
        name = called
        input_schema = schema

        async def run(self, arguments: dict[str, Any], ctx: ToolContext) -> str:
            return "ran"

    return Raw


def _levels(count: int, level: Callable[[Schema], Schema]) -> Schema:
    """Each level refers to the next one."""
    made = {f"d{n}": level({"$ref": f"#/$defs/d{n + 1}"}) for n in range(count)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**made, f"d{count}": {"type": "object"}}}


def _looking_back(levels: int) -> Schema:
    schema: Schema = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


_SCHEMAS: dict[str, Schema] = {
    "40 levels of allOf with two $ref": _levels(40, lambda ref: {"allOf": [ref, ref]}),
    "40 levels of anyOf with two $ref": _levels(40, lambda ref: {"anyOf": [ref, ref]}),
    "40 levels of oneOf with two $ref": _levels(40, lambda ref: {"oneOf": [ref, ref]}),
    "40 levels of not, if and then": _levels(40, lambda ref: {"not": ref, "if": ref, "then": ref}),
    "40 levels of dependentSchemas": _levels(40, lambda ref: {"dependentSchemas": {"a": ref, "b": ref}}),
    "11 levels of allOf, just above the limit": _levels(11, lambda ref: {"allOf": [ref, ref]}),
    "8 levels of allOf, which are taken": _levels(8, lambda ref: {"allOf": [ref, ref]}),
    "20 levels of unevaluatedProperties": _looking_back(20),
    "9 subschemas that refer to one another": {
        "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{m}"} for m in range(9)]} for n in range(9)},
        "$ref": "#/$defs/d0",
    },
    "a chain of 1,000 $ref": _levels(1_000, lambda ref: ref),
    "a pattern that repeats repeats": {"properties": {"a": {"pattern": "((a{99}){99}){99}"}}},
    "40 patterns of many states": {"properties": {f"p{n}": {"pattern": rf"^[^x{n}]{{60}}\w{{9}}$"} for n in range(40)}},
    "200 patterns of many states": {
        "properties": {f"p{n}": {"pattern": rf"^[^x{n}]{{60}}\w{{9}}$"} for n in range(200)}
    },
    "2,000 fields with a choice of types": {
        "properties": {f"p{n}": {"anyOf": [{"type": "string"}, {"type": "null"}]} for n in range(2_000)}
    },
    "12,000 subschemas": {"properties": {f"p{n}": {"items": {}, "type": "array"} for n in range(6_000)}},
}
_EXPLOSIVE = _SCHEMAS["40 levels of allOf with two $ref"]


async def _add(rt: Runtime, schema: Schema) -> str:
    said = _refused(lambda: rt.add(raw(schema)))
    return said if said != "taken" else f"taken; a call: {await _called(rt, 'raw', {})}"


def _schema_cases() -> list[Case]:
    found = [
        Case(group="a tool's schema", name=name, size=_size(schema), run=lambda rt, s=schema: _add(rt, s))
        for name, schema in _SCHEMAS.items()
    ]

    def taken(group: str, name: str, schema: Schema, work: Callable[[], object]) -> None:
        async def run(rt: Runtime) -> str:
            return _refused(work)

        found.append(Case(group=group, name=name, size=_size(schema), run=run))

    name = "40 levels of allOf with two $ref"
    taken("an output schema of an MCP server", name, _EXPLOSIVE, lambda: bound_schema(_EXPLOSIVE, "its output schema"))
    taken("a grant's schema", name, _EXPLOSIVE, lambda: check_schema(_EXPLOSIVE))
    client_tool = FrontendToolDefinition(name="show", parameters=_EXPLOSIVE)
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], tools=[client_tool])
    taken("a client's tool (AG-UI)", name, _EXPLOSIVE, lambda: offers(given))
    document = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"operationId": "a", "requestBody": {"content": {"application/json": {"schema": {
            "$ref": "#/components/schemas/d0"
        }}}}, "responses": {}}}},
        "components": {"schemas": {
            f"d{n}": {"allOf": [{"$ref": f"#/components/schemas/d{n + 1}"}] * 2} for n in range(40)
        } | {"d40": {"type": "object"}}},
    }  # fmt: skip
    found.append(
        Case(group="an OpenAPI document", name=name, size=_size(document), run=lambda rt: _openapi(rt, document))
    )
    wide = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {
        **{f"d{n}": {"type": "object", "properties": {f"p{m}": {"$ref": f"#/$defs/d{n + 1}"} for m in range(12)}} for n in range(6)},
        "d6": {"type": "string"},
    }}  # fmt: skip
    made = as_tool(raw(wide))
    taken("a tool as a Python signature", "12 fields on each of 6 levels", wide, lambda: signature_of(made, "raw"))
    defaults = {"type": "object", "$ref": "#/$defs/d0", "$defs": {
        **{f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}", "default": {}} for k in "ab"}} for n in range(40)}, "d40": {},
    }}  # fmt: skip
    taken(
        "defaults for a grant",
        "two defaults with defaults on each of 40 levels",
        defaults,
        lambda: with_defaults({}, defaults),
    )
    return found


async def _openapi(rt: Runtime, document: Schema) -> str:
    def work() -> None:
        for each in RestTool.from_openapi(document, base_url="https://a.test"):
            rt.add(each)

    return _refused(work)


# Arguments.


class And(BaseModel):
    op: Literal["and"]
    args: list[Expression]


class Or(BaseModel):
    op: Literal["or"]
    args: list[Expression]


class Not(BaseModel):
    op: Literal["not"]
    args: list[Expression]


class Leaf(BaseModel):
    op: Literal["leaf"]
    name: str


Expression = And | Or | Not | Leaf
for _model in (And, Or, Not):
    _model.model_rebuild()


@tool
async def match(expression: Expression) -> str:
    """A union that holds itself, checked by pydantic."""
    return "ran"


@tool
async def each(a: list[dict[str, int]]) -> str:
    """A list of objects."""
    return "ran"


_UNTAGGED: Schema = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/u"}},
    "$defs": {"u": {"oneOf": [{"type": "array", "items": {"$ref": "#/$defs/u"}, "maxItems": n} for n in range(2, 8)]}},
}
_SLOW_PATTERN = r"^(\w+\s?)*$(?<!x)"
_PAIRS = {f"a{m}": [f"b{n}" for n in range(100)] for m in range(100)}
TOOLS: list[Any] = [
    match,
    each,
    raw(match.input_schema, "match_json"),
    raw(_UNTAGGED, "untagged"),
    raw({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "unique"),
    raw({"properties": {"a": {"type": "array", "items": {"type": "string", "pattern": _SLOW_PATTERN}}}}, "patterned"),
    raw({"properties": {"a": {"type": "array", "items": {"enum": [f"v{n}" for n in range(1_000)]}}}}, "chosen"),
    raw({"properties": {"a": {"items": {"enum": [n + 0.5 for n in range(1_000)]}}}}, "chosen_numbers"),
    raw({"properties": {"a": {"items": {"enum": [{"a": n} for n in range(1_000)]}}}}, "chosen_objects"),
    raw({"properties": {"a": {"dependentRequired": _PAIRS}}}, "in_pairs"),
]


def _nested(levels: int, leaf: Any) -> dict[str, Any]:
    value = leaf
    for level in range(levels):
        value = {"op": ("and", "or", "not")[level % 3], "args": [value]}
    return {"expression": value}


def _lists(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"a": value}


_GOOD, _BAD = {"op": "leaf", "name": "x"}, {"op": "leaf", "name": 1}
_ARGUMENTS: dict[str, tuple[str, Any]] = {
    "And | Or | Not | Leaf, 9 levels, a wrong leaf": ("match", _nested(9, _BAD)),
    "And | Or | Not | Leaf, 7 levels, right": ("match", _nested(7, _GOOD)),
    "And | Or | Not | Leaf, 30 levels, right": ("match", _nested(30, _GOOD)),
    "the same as a JSON Schema, 40 levels, a wrong leaf": ("match_json", _nested(40, _BAD)),
    "the same as a JSON Schema, 40 levels, right": ("match_json", _nested(40, _GOOD)),
    "the same as a JSON Schema, 300 wrong leaves": (
        "match_json", {"expression": {"op": "and", "args": [{"op": "or", "args": [{**_BAD, "name": n}]} for n in range(300)]}},
    ),
    "the same as a JSON Schema, 600 right leaves": (
        "match_json", {"expression": {"op": "and", "args": [{"op": "leaf", "name": str(n)} for n in range(600)]}},
    ),
    "six alternatives without a tag, 90 levels": ("untagged", _lists(90)),
    "1,900 lists that must differ": ("unique", {"a": [[n] for n in range(1_900)]}),
    "30 texts for a pattern that looks back": ("patterned", {"a": [f"{n} {'aaaa ' * 6}!" for n in range(30)]}),
    "1,900 texts that are not among 1,000": ("chosen", {"a": [f"w{n}" for n in range(1_900)]}),
    "1,900 numbers that are not among 1,000": ("chosen_numbers", {"a": [-0.5] * 1_900}),
    "900 objects that are not among 1,000": ("chosen_objects", {"a": [{"a": -1}] * 900}),
    "900 objects that are among 1,000": ("chosen_objects", {"a": [{"a": 999}] * 900}),
    "100 fields, each of which wants 100 others": ("in_pairs", {"a": {f"a{n}": 1 for n in range(100)}}),
    "1,900 texts in place of objects": ("each", {"a": [str(n) for n in range(1_900)]}),
    "brackets 100,000 deep": ("each", '{"a":' + "[" * 100_000),
    "the same key 5,000 times": ("each", "{" + ",".join('"a":1' for _ in range(5_000)) + "}"),
    "a number of 100,000 digits": ("each", '{"a":' + "1" * 100_000 + "}"),
    "an unknown field of 100,000 characters": ("each", {"x" * 100_000: 1}),
}  # fmt: skip


async def _called(rt: Runtime, name: str, arguments: Any) -> str:
    result = await rt.call(name, arguments)
    return "ran" if result.error is None else f"{result.error.code}: {result.error.message}"


def _argument_cases() -> list[Case]:
    return [
        Case(group="arguments", name=name, size=_size(given), run=lambda rt, t=tool_name, a=given: _called(rt, t, a))
        for name, (tool_name, given) in _ARGUMENTS.items()
    ]


# Policies, crons, filters, ids, texts, documents.


def _condition(path: str, op: str, value: Any, arguments: dict[str, Any], schema: Schema | None = None) -> Run:
    async def run(rt: Runtime) -> str:
        condition = CompiledCondition(Condition(path=path, op=op, value=value))
        met = condition.is_met(ArgumentValues(arguments, schema or {}, 16 * 1024 * 1024), closed=True)
        return "met" if met else "not met"

    return run


async def _next_times(rt: Runtime, form: str) -> str:
    try:
        await rt.schedule("rare", form, "each", {"a": []})
        return f"{len(await rt.schedules.next('rare', 1_000)):,} times"
    except ClicketError as error:
        return f"refused: {error}"


def _asked(work: Callable[[Runtime], Awaitable[Any]]) -> Run:
    async def run(rt: Runtime) -> str:
        try:
            found = await work(rt)
        except ClicketError as error:
            return f"refused: {error}"
        return f"answered with {type(found).__name__}"

    return run


def _read(work: Callable[[Any], object], given: Any) -> Run:
    async def run(rt: Runtime) -> str:
        return _refused(lambda: work(given), "read")

    return run


_OPTIONS: Schema = {
    "properties": {"a": {"type": "array", "items": {"anyOf": [{"properties": {f"p{n}": {}}} for n in range(500)]}}}
}
_MANY: dict[str, Any] = {"a": [{"b": number} for number in range(1_500)]}
_BIDI = "\u202e\u2066a\u2069\u200b\u00ad" * 10_000
_DOCUMENTS: dict[str, tuple[Callable[[Any], object], Any]] = {
    "HTML: 4,000 open tags": (extract_html, "<div>" * 4_000),
    "HTML: 20,000 beginnings of a tag": (extract_html, "<" * 20_000),
    "Markdown: 10,000 brackets": (markdown, "[" * 10_000 + "](" * 5_000),
    "Markdown: 10,000 quotes in one another": (markdown, "> " * 10_000),
    "text: 10,000 lines": (extract_text, b"a. A\n" * 10_000),
    "CSV: quotes without an end": (extract_table, b'"a,' * 10_000),
    "mail: 5,000 headers": (extract_mail, b"From: a\n" + b"X: y\n" * 5_000),
    "JSON: objects 5,000 deep": (
        lambda text: msgspec.json.decode(text) if len(text) < 100 else _parsed(text),
        '{"a":' * 5_000,
    ),
}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _other_cases() -> list[Case]:
    long = "x" * 100_000
    glob = "*a" * 200 + "b"
    cases: list[tuple[str, str, Any, Run]] = [
        ("a policy's condition", "a glob of 200 stars, 10,000 characters", [glob, "a" * 10_000],
         _condition("/a", "glob", glob, {"a": "a" * 10_000})),
        ("a policy's condition", "a pattern of nested repeats, 10,000 characters", ["(a+)+b", "a" * 10_000],
         _condition("/a", "matches", "(a+)+b", {"a": "a" * 10_000})),
        ("a policy's condition", "1,500 members, each with 500 alternatives", [_MANY, _OPTIONS],
         _condition("/a/*/b", "==", 1, _MANY, _OPTIONS)),
        ("a schedule", "the next 1,000 29ths of February", "0 0 29 2 *", lambda rt: _next_times(rt, "0 0 29 2 *")),
        ("a schedule", "the next 1,000 Mondays or 31sts of December", "0 0 31 12 mon", lambda rt: _next_times(rt, "0 0 31 12 mon")),
        ("a schedule", "a form of 100,000 characters", "*," * 50_000, lambda rt: _next_times(rt, "*," * 50_000 + "* * * * *")),
        ("a filter", "an id of 100,000 characters", long, _asked(lambda rt: rt.history(id_contains=long))),
        ("a filter", "metadata with 1,000 names", {f"k{n}": "v" for n in range(1_000)},
         _asked(lambda rt: rt.history(metadata={f"k{n}": "v" for n in range(1_000)}))),
        ("an id", "100,000 characters", long, _asked(lambda rt: rt.submit("each", {"a": []}, id=long))),
        ("an id", "direction marks", "\u202ea", _asked(lambda rt: rt.submit("each", {"a": []}, id="\u202ea"))),
        ("a text for a person", "50,000 direction marks", _BIDI, _read(escaped, _BIDI)),
    ]  # fmt: skip
    cases += [("a document", name, given, _read(work, given)) for name, (work, given) in _DOCUMENTS.items()]
    return [Case(group=group, name=name, size=_size(given), run=run) for group, name, given, run in cases]


CASES = [*_schema_cases(), *_argument_cases(), *_other_cases()]
