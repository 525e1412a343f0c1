"""Conditions: their results for values, and that no argument makes them permissive or raise."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.waiting import PATIENCE

from clicket import Condition
from clicket.engine.stages import rules
from clicket.engine.stages.rules import MAX_MEMBERS, MAX_PATTERN, MAX_TEXT, OPS, ArgumentValues, CompiledCondition
from clicket.errors import UsageError

HUGE = 10 * 1024 * 1024


def met(
    op: str, value: Any, arguments: Any, *, closed: bool, path: str = "/x", schema: Mapping[str, Any] | None = None
) -> bool:
    given = {} if value is ... else {"value": value}
    return CompiledCondition(Condition(path=path, op=op, **given)).is_met(
        ArgumentValues(arguments, schema or {}, HUGE), closed=closed
    )


def both(op: str, value: Any, arguments: Any, path: str = "/x") -> tuple[bool, bool]:
    """The result for deny and ask, and for allow."""
    return met(op, value, arguments, closed=True, path=path), met(op, value, arguments, closed=False, path=path)


@pytest.mark.parametrize(
    ("op", "value", "yes", "no"),
    [
        ("==", 1, [1, 1.0], [2, True, "1", None, [1]]),
        ("==", True, [True], [1, "true", False]),
        ("==", None, [None], [0, False, ""]),
        ("==", {"a": [1, 2.0]}, [{"a": [1.0, 2]}], [{"a": [2, 1]}, {}, "x"]),
        ("!=", "a", ["b", 1, None], ["a"]),
        ("<", 5, [4, 4.9, -1], [5, 6]),
        ("<=", 5, [5, 5.0], [5.1]),
        (">", 100, [101, 1e9], [100, 0]),
        (">=", 100, [100], [99.99]),
        (">", "2024-01-01", ["2024-06-01"], ["2023-12-31"]),
        ("in", [1, "a", None], [1, 1.0, "a", None], [2, True, "b"]),
        ("not_in", ["eu", "us"], ["cn", 1], ["eu"]),
        ("matches", "[a-z]+", ["abc"], ["abc1", "", "abc\n", "ABC"]),
        ("matches", "a|b", ["a", "b"], ["ab", "ba", "ax"]),
        ("matches", ".*secret.*", ["a secret b", "a\nsecret\nb"], ["sec\nret"]),
        ("glob", "/tmp/*", ["/tmp/x", "/tmp/a/b"], ["/etc/x", "/TMP/x"]),
        ("contains", "b", ["abc", ["a", "b"], {"b": 1}], ["ac", ["bb"], {"a": "b"}]),
        ("contains", 1, [[1.0], [2, 1]], [[True], ["1"], {"1": 1}]),
        ("longer_than", 2, ["abc", [1, 2, 3], {"a": 1, "b": 2, "c": 3}], ["ab", [], {}]),
        ("exists", True, [1, None, ""], []),
        ("exists", ..., [1, None, ""], []),
        ("exists", False, [], [1, None]),
    ],
)
def test_what_an_operator_says(op: str, value: Any, yes: list[Any], no: list[Any]) -> None:
    for each in yes:
        assert both(op, value, {"x": each}) == (True, True), each
    for each in no:
        assert both(op, value, {"x": each}) == (False, False), each


@pytest.mark.parametrize(
    ("op", "value", "arguments"),
    [
        (">", 100, {"x": "1000"}),
        (">", 100, {"x": None}),
        (">", 100, {"x": True}),
        (">", 100, {"x": [101]}),
        ("<", "b", {"x": 1}),
        ("matches", "a", {"x": 1}),
        ("matches", ".*", {"x": "a" * (MAX_TEXT + 1)}),
        ("glob", "*", {"x": "a" * (MAX_TEXT + 1)}),
        ("glob", "*", {"x": ["a"]}),
        ("contains", 1, {"x": "1"}),
        ("contains", "a", {"x": 1}),
        ("longer_than", 0, {"x": 5}),
        (">", 100, "{"),
        (">", 100, '{"x": 1, "x": 200}'),
        (">", 100, '{"x": NaN}'),
        (">", 100, b"\xff"),
        (">", 100, [1]),
        (">", 100, 17),
        (">", 100, '{"x": 1, "deep": ' + "[" * 5_000 + "]" * 5_000 + "}"),
        (">", 100, {"x": float("inf")}),
        (">", 100, {"x": 1, "y": object()}),
        ("exists", False, "nonsense"),
    ],
)
def test_what_cannot_be_judged_fails_closed(op: str, value: Any, arguments: Any) -> None:
    assert both(op, value, arguments) == (True, False)


def test_arguments_over_the_size_are_not_read() -> None:
    compiled = CompiledCondition(Condition(path="/x", op="==", value="a"))
    assert compiled.is_met(ArgumentValues({"x": "b" * 100}, {}, 50), closed=True)
    assert not compiled.is_met(ArgumentValues({"x": "b" * 100}, {}, 50), closed=False)


def test_a_path_through_something_that_has_no_members_cannot_be_judged() -> None:
    for arguments in ({"x": 1}, {"x": "text"}, {"x": None}, {"x": [{"y": 1}]}):
        assert both("==", 1, arguments, "/x/y") == (True, False)
    assert both("==", 5, {"x": [4, 5]}, "/x/1") == (True, True)
    assert both("==", 5, {"x": [4, 5]}, "/x/01") == (True, False)
    assert both("==", 5, {"x": [4, 5]}, "/x/-") == (True, False)
    assert both("==", 5, {"x": [4, 5]}, "/x/2") == (False, False)


def test_pointers_have_escapes_and_the_empty_one_is_everything() -> None:
    assert both("==", 1, {"a/b": {"c~d": 1}}, "/a~1b/c~0d") == (True, True)
    assert both("==", 1, {"~1": 1}, "/~01") == (True, True)
    assert both("longer_than", 1, {"a": 1, "b": 2}, "") == (True, True)
    assert both("==", 1, {"": 1}, "/") == (True, True)


def test_a_star_is_any_member_to_deny_and_every_member_to_allow() -> None:
    mixed = {"to": ["ann@ours.org", "eve@else.org"]}
    assert both("glob", "*@ours.org", mixed, "/to/*") == (True, False)
    assert both("glob", "*@ours.org", {"to": ["ann@ours.org"]}, "/to/*") == (True, True)
    assert both("not_in", ["a", "b"], {"to": ["a", "c"]}, "/to/*") == (True, False)
    assert both("not_in", ["a", "b"], {"to": ["a", "b"]}, "/to/*") == (False, False)
    assert both(">", 9, {"items": [{"price": 1}, {"price": 10}]}, "/items/*/price") == (True, False)
    assert both(">", 9, {"by": {"ann": 10, "bob": 11}}, "/by/*") == (True, True)
    for empty in ({"to": []}, {}):
        assert both("glob", "*", empty, "/to/*") == (False, False)
        assert both("!=", "a", empty, "/to/*") == (False, False)


def test_too_many_members_cannot_be_judged() -> None:
    assert both("==", "other", {"x": [1] * (MAX_MEMBERS + 1)}, "/x/*") == (True, False)
    assert both("==", "other", {"x": [1] * MAX_MEMBERS}, "/x/*") == (False, False)
    assert both("contains", "other", {"x": [1] * (MAX_MEMBERS + 1)}) == (True, False)


def test_what_was_not_sent_is_its_default_and_without_one_nothing() -> None:
    schema = {
        "properties": {"x": {"type": "integer", "default": 500}, "inner": {"$ref": "#/$defs/Inner"}, "y": {}},
        "$defs": {"Inner": {"properties": {"z": {"default": "zed"}}}},
    }
    for closed in (True, False):
        assert met(">", 100, {}, closed=closed, schema=schema)
        assert not met(">", 100, {"x": 5}, closed=closed, schema=schema)
        assert met("==", "zed", {"inner": {}}, closed=closed, schema=schema, path="/inner/z")
        assert not met("==", 1, {}, closed=closed, schema=schema, path="/y")
    assert both("==", 1, {}) == (False, False)
    assert both("!=", 1, {}) == (True, False)
    assert both("not_in", [1], {}) == (True, False)


AMOUNT = {"properties": {"amount": {"default": 500}}}


@pytest.mark.parametrize(
    ("field", "given", "path"),
    [
        ({"anyOf": [{"$ref": "#/$defs/Amount"}, {"type": "null"}]}, {}, "/x/amount"),
        ({"oneOf": [AMOUNT, {"type": "string"}]}, {}, "/x/amount"),
        ({"allOf": [{"$ref": "#/$defs/Amount"}]}, {}, "/x/amount"),
        ({"if": {}, "then": AMOUNT}, {}, "/x/amount"),
        ({"additionalProperties": {"$ref": "#/$defs/Amount"}}, {"a": {}}, "/x/*/amount"),
        ({"additionalProperties": AMOUNT}, {"a": {}}, "/x/a/amount"),
        ({"patternProperties": {"^a": AMOUNT}}, {"a": {}}, "/x/a/amount"),
        ({"prefixItems": [AMOUNT, {}]}, [{}, 1], "/x/0/amount"),
        ({"prefixItems": [{}], "items": AMOUNT}, [1, {}], "/x/1/amount"),
        ({"items": {"anyOf": [AMOUNT, {}]}}, [{}], "/x/*/amount"),
        ({"$ref": "#/$defs/Round"}, {"inner": {}}, "/x/inner/amount"),
    ],
)
def test_a_default_is_found_however_the_schema_says_it(field: Any, given: Any, path: str) -> None:
    rounds = {"properties": {"inner": {"$ref": "#/$defs/Round"}}, "anyOf": [{"$ref": "#/$defs/Round"}, AMOUNT]}
    schema = {"properties": {"x": field}, "$defs": {"Amount": AMOUNT, "Round": rounds}}
    assert met(">", 100, {"x": given}, closed=True, schema=schema, path=path)
    assert not met("<", 100, {"x": given}, closed=False, schema=schema, path=path)


def test_exists_is_about_what_was_sent() -> None:
    schema = {"properties": {"x": {"default": 500}}}
    assert not met("exists", True, {}, closed=True, schema=schema)
    assert both("exists", False, {}) == (True, True)
    assert both("exists", True, {}) == (False, False)
    assert both("exists", False, {"to": [{"a": 1}, {}]}, "/to/*/a") == (True, False)


class Shifty(dict[str, Any]):
    """Returns another value each time it is read."""

    def __init__(self) -> None:
        super().__init__(x=1)
        self.reads = 0

    def items(self) -> Any:
        self.reads += 1
        return {"x": 1 if self.reads < 2 else 1_000}.items()


class Trap(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 1


class Liar(int):
    """A number that lies about its comparisons."""

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def test_conditions_never_see_objects_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition gets only plain JSON, whatever was sent."""
    seen: set[type] = set()
    real = OPS["=="]
    spied = msgspec.structs.replace(
        real, test=lambda value, wanted: (seen.add(type(value)), real.test(value, wanted))[1]
    )
    monkeypatch.setattr(rules, "OPS", {**OPS, "==": spied})
    compiled = CompiledCondition(Condition(path="/x", op="==", value=1))

    class Name(str):
        __slots__ = ()

    for hostile in (Liar(5), Name("a"), (1, 2), [Liar(1)], {"a": Liar(1)}, Shifty(), 1.5, None, True):
        compiled.is_met(ArgumentValues({"x": hostile}, {}, HUGE), closed=True)
    assert seen <= {int, float, str, bool, type(None), list, dict}
    assert int in seen
    assert both(">", 100, {"x": Liar(1_000)}) == (True, True)
    assert both(">", 100, {"x": Liar(5)}) == (False, False)
    assert both(">", 100, Trap()) == (True, False)
    assert both(">", 100, {"x": Trap()}) == (True, False)


def test_no_text_stalls_a_pattern() -> None:
    compiled = CompiledCondition(Condition(path="/x/*", op="matches", value="(a+)+b|(a|aa)*c|(.*,){20}P"))
    started = time.thread_time()
    compiled.is_met(ArgumentValues({"x": ["a" * MAX_TEXT, "1," * (MAX_TEXT // 2)] * 10}, {}, HUGE), closed=True)
    assert time.thread_time() - started < PATIENCE  # exponential time would take hours
    glob = CompiledCondition(Condition(path="/x", op="glob", value="*a" * 200 + "b"))
    started = time.thread_time()
    glob.is_met(ArgumentValues({"x": "a" * MAX_TEXT}, {}, HUGE), closed=True)
    assert time.thread_time() - started < PATIENCE


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"path": "amount", "value": 1}, "'/amount'"),
        ({"path": "/a~b", "value": 1}, "~0"),
        ({"path": "/a~", "value": 1}, "~0"),
        ({"path": 5, "value": 1}, "not a JSON pointer"),
        ({"path": "/a", "op": "=", "value": 1}, "Did you mean"),
        ({"path": "/a", "op": "match", "value": "a"}, "Did you mean 'matches'"),
        ({"path": "/a", "op": ["=="], "value": 1}, "unknown op"),
        ({"path": "/a", "op": ">"}, "needs a value"),
        ({"path": "/a", "op": ">", "value": True}, "a number or text"),
        ({"path": "/a", "op": ">", "value": float("nan")}, "a number or text"),
        ({"path": "/a", "op": "in", "value": "abc"}, "a list"),
        ({"path": "/a", "op": "matches", "value": "("}, "regular expression"),
        ({"path": "/a", "op": "matches", "value": "a)|(b"}, "regular expression"),
        ({"path": "/a", "op": "matches", "value": "(?=a)"}, "look-around"),
        ({"path": "/a", "op": "matches", "value": "((a{100}){100}){100}"}, "too big"),
        ({"path": "/a", "op": "matches", "value": "a" * (MAX_PATTERN + 1)}, "at most 500"),
        ({"path": "/a", "op": "glob", "value": 5}, "at most 500"),
        ({"path": "/a", "op": "longer_than", "value": -1}, "whole number"),
        ({"path": "/a", "op": "longer_than", "value": True}, "whole number"),
        ({"path": "/a", "op": "exists", "value": "yes"}, "true or false"),
        ({"path": "/a", "op": "==", "value": object()}, "plain JSON"),
        ({"path": "/a", "op": "in", "value": [float("inf")]}, "a list"),
    ],
)
def test_mistakes_are_named_when_a_condition_is_made(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        Condition(**wrong)
    assert reason in raised.value.message


# For any input: no exception, and in doubt the call is refused.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
VALUES = {
    "==": JSON, "!=": JSON, "contains": JSON, "in": st.lists(JSON, max_size=3), "not_in": st.lists(JSON, max_size=3),
    "<": st.integers() | st.text(max_size=5), "<=": st.integers() | st.text(max_size=5),
    ">": st.integers() | st.text(max_size=5), ">=": st.integers() | st.text(max_size=5),
    "matches": st.text("ab.*+?|[](){}\\d", max_size=12), "glob": st.text("ab*?[]!-", max_size=12),
    "longer_than": st.integers(0, 10), "exists": st.booleans(),
}  # fmt: skip
PATHS = st.lists(st.sampled_from(["a", "b", "*", "0", "1", "", "x~1y"]), max_size=4).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


@st.composite
def conditions(draw: st.DrawFn) -> Condition | None:
    op = draw(st.sampled_from(sorted(OPS)))
    try:
        return Condition(path=draw(PATHS), op=op, value=draw(VALUES[op]))
    except UsageError:
        return None


ARGUMENTS = (
    st.dictionaries(st.sampled_from(["a", "b", "x/y", ""]), JSON, max_size=4)
    | JSON
    | st.text(max_size=60)
    | st.binary(max_size=60)
    | JSON.map(lambda value: json.dumps(value)[:-1])
)


@given(condition=conditions(), arguments=ARGUMENTS)
def test_whatever_is_sent_nothing_breaks_and_doubt_is_closed(condition: Condition | None, arguments: Any) -> None:
    if condition is None:
        return
    compiled = CompiledCondition(condition)
    denies = compiled.is_met(ArgumentValues(arguments, {}, HUGE), closed=True)
    allows = compiled.is_met(ArgumentValues(arguments, {}, HUGE), closed=False)
    assert type(denies) is bool
    # If allow matches a call, a deny with the same condition must match it, too.
    assert denies or not allows


@given(condition=conditions(), text=st.text(max_size=80))
def test_text_that_is_no_object_is_denied_and_not_allowed(condition: Condition | None, text: str) -> None:
    try:
        readable = text == "" or isinstance(json.loads(text), dict)
    except ValueError:
        readable = False
    if condition is None or readable:
        return
    compiled = CompiledCondition(condition)
    assert compiled.is_met(ArgumentValues(text, {}, HUGE), closed=True)
    assert not compiled.is_met(ArgumentValues(text, {}, HUGE), closed=False)
