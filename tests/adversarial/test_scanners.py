"""Every parser and scanner of untrusted text takes time that grows no faster than its input.

Each case is a function and an input of any size that would be slow in a naive implementation. The figures are printed:
`pytest -rP tests/adversarial`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adversarial.document_cases import DOCUMENTS
from tests.adversarial.inventory import MADE
from tests.adversarial.measuring import growth
from tests.adversarial.model_cases import MODELS
from tests.adversarial.scanner_kit import MAX, Case, each, refusing, repeated, variants

from clicket.adapters.runtime_access import Offer, ToolCatalog
from clicket.agents.task_threads import _ASKING
from clicket.cli.formatting import parse_duration, parse_size, shown_url
from clicket.engine.stages.validate import Validate
from clicket.errors import did_you_mean
from clicket.model.arguments import parse_arguments, weigh
from clicket.model.codec import canonical
from clicket.model.output import encode_output
from clicket.safety.guard import numeric_host
from clicket.safety.vault import Window, hide, hide_text, look, resembles
from clicket.safety.vault.shapes import _MARKERS, open_from
from clicket.safety.vault.values import Values
from clicket.search.synthesis.answer_types import answer_type
from clicket.server.host_check import is_loopback
from clicket.telemetry.tracing import within_trace
from clicket.tools import tool
from clicket.tools.check import compile_schema
from clicket.tools.depends import find_cycle
from clicket.tools.model_arguments import tidy
from clicket.tools.openapi import read_operations
from clicket.tools.response import decode as decode_response
from clicket.tools.response import retry_after

# Arguments and outputs.

_validate = Validate(max_size=MAX)
_parse = refusing(lambda text: parse_arguments(text, max_size=MAX))
_check = compile_schema({"type": "object", "properties": {"city": {"type": "string"}}}, "a tool")
_texts_only = compile_schema({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "a tool")
_maybe_texts = compile_schema(
    {"properties": {"a": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}}}, "a tool"
)


@tool
def greet(name: str) -> str:
    """Say hello."""
    return name


def _validated(arguments: dict[str, Any]) -> None:
    _validate._further(greet, arguments, _check(arguments))


ARGUMENTS = {
    "arguments: a string without an end": Case(_parse, repeated('\\"', '{"a":"' + "[" * 101), 20_000),
    "arguments: quotes and colons without an end": Case(_parse, repeated('":\\', '{"a":1,"b":"'), 20_000),
    "arguments: arrays 99 deep": Case(
        _parse, lambda size: '{"a":[' + ",".join(["[" * 98 + "]" * 98] * (size // 200)) + "]}", 20_000
    ),
    "arguments: a mapping of arrays 99 deep": Case(
        _parse, lambda size: {"a": [json.loads("[" * 98 + "]" * 98)] * (size // 200)}, 20_000
    ),
    "arguments: the same key again and again": Case(
        _parse, lambda size: "{" + ",".join(['"a":[{"b":1,"b":2}]'] * (size // 20)) + "}", 20_000
    ),
    "arguments: bad values under a long key": Case(_parse, lambda size: {"k" * size: [float("nan")] * size}, 2_000),
    "arguments: unclosed brackets": Case(_parse, repeated("[{"), 20_000),
    "arguments: what stands for a mapping": Case(weigh, lambda size: {"a": [[float("nan")]] * size}, 2_000),
    "arguments: what stands for a text": Case(weigh, repeated('{"a":1,"a":', '{"b":'), 2_000),
    "arguments: one spelling": Case(canonical, lambda size: {f"k{n}": [float(n)] for n in range(size)}, 2_000),
    "schema: unknown fields": Case(_validated, lambda size: {f"city{n}": n for n in range(size)}, 5_000),
    "schema: wrong items": Case(_texts_only, lambda size: {"a": [[]] * size}, 5_000),
    "schema: wrong items of an optional list": Case(_maybe_texts, lambda size: {"a": [1] * size}, 10_000),
    "schema: an unknown field with a long name": Case(_check, lambda size: {"city" * size: 1}, 5_000),
    "near misses": Case(
        lambda given: did_you_mean(*given), lambda size: ("x" * size, [f"x{n}" for n in range(size)]), 2_000
    ),
    "model's arguments": Case(lambda text: tidy(text, {"properties": {}}), repeated('{"a":'), 20_000),
    "output: nested objects": Case(
        refusing(encode_output), lambda size: {"a": [{1: {2: {3: [None] * 9}}}] * (size // 10)}, 5_000
    ),
    "depends_on: a long chain": Case(
        lambda edges: find_cycle("t0", lambda name: edges.get(name, ())),
        lambda size: {f"t{n}": [f"t{n + 1}"] for n in range(size)},
        5_000,
    ),
}

# Secrets.

_TOKENS = [f"sk-{number:020d}A" for number in range(40_000)]


def _pushed(pieces: list[str]) -> None:
    window = Window(look({"key": "secret value of some length"}, None, frozenset({"key"})))
    for piece in pieces:
        window.push(piece)
    window.flush()


SECRETS = {
    "secrets: many tokens": Case(
        refusing(lambda text: look({"a": text}, None)), lambda size: " ".join(_TOKENS[:size]), 1_000
    ),
    "secrets: many declared values": Case(
        refusing(lambda given: look(given, None, frozenset({"a"}))),
        lambda size: {"a": _TOKENS[:size], "b": [str(number) for number in range(size)]},
        1_000,
    ),
    "secrets: an output with many values": Case(
        lambda given: hide_text(*given),
        lambda size: ("v0" * size, look({"a": [f"v0{n:05d}" for n in range(size)]}, None, frozenset({"a"}))),
        1_000,
    ),
    "secrets: values with all lengths": Case(
        lambda given: hide_text(*given),
        lambda size: ("a" * size, look({"a": ["a" * n for n in range(size // 10)]}, None, frozenset({"a"}))),
        2_000,
    ),
    "secrets: a value that overlaps itself": Case(
        lambda text: hide_text(text * 2, look({"a": text}, None, frozenset({"a"}))), repeated("a"), 10_000
    ),
    "secrets: nearly the beginning of a value": Case(
        lambda text: hide_text(text + "c", look({"a": text + "b"}, None, frozenset({"a"}))), repeated("a"), 10_000
    ),
    "secrets: markers of every shape": Case(
        each(lambda text: (hide_text(text), open_from(text))), variants(*_MARKERS), 4_000
    ),
    "secrets: markers of every shape, broken": Case(
        each(lambda text: (hide_text(text), open_from(text, Values(("secret",))))),
        variants(*(f"{marker}a." for marker in _MARKERS), "Bearer  ", "://a:b", "eyJa.", after=" "),
    ),
    "secrets: keys that look like tokens": Case(hide, lambda size: dict.fromkeys(_TOKENS[:size], 1), 1_000),
    "secrets: text in pieces": Case(_pushed, lambda size: ["secret "] * size, 1_000),
    "secrets: masked arguments compared": Case(
        lambda text: resembles(text, "a" * len(text)), repeated("[secret]a"), 5_000
    ),
}

# Addresses, headers, settings.


def _traced(text: str) -> None:
    with within_trace({"traceparent": text, "tracestate": text}):
        pass


def _named(text: str) -> str:
    offers = [tool(name=f"a.{number}")(lambda: "") for number in range(50)]
    return ToolCatalog([Offer(each, each.name.replace(".", "_")) for each in offers]).in_wire_names(text)


OTHERS = {
    "names of tools in a message": Case(_named, repeated("a.1b"), 2_000),
    "a response in a slow charset": Case(
        lambda body: decode_response("text/plain; charset=punycode", body), lambda size: b"a-" + b"b9" * size, 2_000
    ),
    "a response's content type": Case(
        lambda text: decode_response(f"text/plain; a={text}", b"x"), repeated('";'), 4_000
    ),
    "a response's JSON": Case(
        refusing(lambda body: decode_response("application/json", body)), lambda size: b'["\\ud800' * size, 2_000
    ),
    "Retry-After": Case(lambda text: retry_after(text, 0.0), repeated("Mon, 1 "), 4_000),
    "a host": Case(
        each(lambda text: (numeric_host(text), is_loopback(text))), variants("1.", "0x", "a.", "a-", "[", ":", "%")
    ),
    "the type of a question": Case(
        each(answer_type.__wrapped__), variants("wh", "what a", "which", "how ", "the ", "in what ", "date o"), 4_000
    ),
    "a trace's headers": Case(_traced, repeated("00-"), 4_000),
    "a URL without its password": Case(
        each(shown_url), variants("a://:", "a://a:b@", "?password=", "&a", "://", after="@"), 4_000
    ),
    "durations and sizes": Case(
        each(lambda text: (parse_duration(text), parse_size(text))), variants("7", "7.", "7s", " "), 4_000
    ),
    "ids of calls": Case(each(lambda text: list(_ASKING.finditer(text))), variants("/a.1", "/a.1.1-1", ".1-1"), 4_000),
    "an OpenAPI document": Case(
        refusing(lambda document: read_operations(document, base_url="https://a.test")),
        lambda size: {
            "openapi": "3.1.0",
            "paths": {f"/p{n}": {"get": {"operationId": f"op{n}", "responses": {}}} for n in range(size)},
        },
        100,
    ),
}

CASES = ARGUMENTS | SECRETS | MODELS | DOCUMENTS | OTHERS


@pytest.mark.parametrize("name", CASES)
def test_a_scanner_is_linear(name: str) -> None:
    case = CASES[name]
    measured = growth(case.work, case.make, case.size)
    print(f"{name}: {measured}")
    assert measured.fits, f"{name}: {measured}"


def test_expressions_that_are_made_later_have_their_case() -> None:
    assert set(MADE.values()) <= set(CASES)
