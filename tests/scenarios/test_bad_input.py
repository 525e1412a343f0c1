"""What a model may send by mistake or on purpose: refused with paths, the tool does not run, other calls are not affected."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel
from tests.kit.cases import case
from tests.scenarios.kit import assert_loop_is_free, assert_sound, make

from clicket import Conflict, Record, Runtime, State, ToolResult, tool

NAN, INF = float("nan"), float("inf")


@dataclass
class Point:
    x: float
    y: float


class Node(BaseModel):
    value: int
    children: list[Node] = []


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


ran: list[Any] = []


@tool
async def take(
    x: int = 0,
    f: float = 0.0,
    s: str = "",
    items: list[int] | None = None,
    point: Point | None = None,
    tree: Node | None = None,
    mode: Literal["a", "b"] = "a",
    pair: Annotated[int, AfterValidator(even)] = 0,
    anything: Any = None,
) -> str:
    ran.append((x, f, s, items, point, tree, mode, pair, anything))
    return "ran"


@tool
async def strict(a: int, b: str) -> str:
    ran.append((a, b))
    return "ran"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def refuse(rt: Runtime, arguments: Any, name: str = "take") -> tuple[ToolResult, Record]:
    """The call must be refused, recorded without its arguments, and must not affect the next one."""
    result = await rt.call(name, arguments)
    record = await rt.get(result.call_id)
    assert result.state is State.FAILED, ran
    assert result.error is not None
    assert result.error.code == "invalid_input"
    assert result.stages["validate"].outcome == "invalid_input"
    assert not ran
    assert record.arguments is None
    assert record.refused is not None
    assert record.refused["reason"] == "invalid_input"
    assert type(record.refused["size"]) is int
    assert len(record.refused["sha256"]) == 64
    assert_sound(record)
    assert (await rt.call("take")).output == "ran"
    ran.clear()
    return result, record


def paths(result: ToolResult) -> set[str]:
    assert result.error is not None
    return {problem["path"] for problem in result.error.details["problems"]}


DEEP = 100_000


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NOT_PLAIN_JSON: list[tuple[Any, str | None]] = [
    # numbers that JSON does not have
    ({"f": NAN}, "/f"),
    ({"f": INF}, "/f"),
    ({"items": [1, -INF]}, "/items/1"),
    ({"anything": {"deep": [NAN]}}, "/anything/deep/0"),
    ('{"f": NaN}', None),
    ('{"f": Infinity}', None),
    ('{"f": -Infinity}', None),
    ('{"f": 1e400}', None),
    ('{"f": -1e400}', None),
    ('{"anything": [1e999]}', None),
    # nesting
    ("[" * DEEP, None),
    ('{"anything": ' + "[" * DEEP + "]" * DEEP + "}", None),
    ('{"a":' * DEEP + "1" + "}" * DEEP, None),
    # duplicate keys
    ('{"x": 1, "x": 2}', "/x"),
    ('{"x": 1, "\\u0078": 1}', "/x"),
    # text
    ({"s": "\ud800"}, "/s"),
    ({"\udfff": 1}, None),
    ('{"s": "\\ud800"}', "/s"),
    ({"s": "a\x00b"}, "/s"),
    ('{"s": "\\u0000"}', "/s"),
    ({"anything": {"a\x00": 1}}, None),
    # not an object, not JSON
    ("[1, 2]", None),
    ('"{\\"x\\": 1}"', None),
    ("null", None),
    ("7", None),
    ("{", None),
    ('{"x": 1,}', None),
    ('{"x": 1} trailing', None),
    ("\ufeff{}", None),
    (b"\xff\xfe{}", None),
    (b'{"s": "\xff"}', None),
    ("{'x': 1}", None),
    ('{"x": 01}', None),
    ([("x", 1)], None),
    (7, None),
    # objects that are not JSON
    ({"anything": {1: 2}}, "/anything"),
    ({"anything": b"bytes"}, "/anything"),
    ({"anything": {1, 2}}, "/anything"),
    ({"anything": object()}, "/anything"),
    ({7: 1}, None),
]


async def test_what_is_not_plain_json_is_refused(store: str) -> None:
    async with make([take], store) as rt:
        for arguments, path in NOT_PLAIN_JSON:
            with case(arguments):
                result, _ = await refuse(rt, arguments)
                if path is not None:
                    assert path in paths(result)
                assert result.error is not None
                assert "0x" not in result.error.message  # no bare repr


async def test_an_object_100_000_deep_is_refused(store: str) -> None:
    async with make([take], store) as rt:
        result = await rt.call("take", {"anything": nested(DEEP)})
        assert result.error is not None
        assert result.error.code == "invalid_input"
        assert not ran
        assert (await rt.call("take", {"anything": nested(50)})).success


async def test_an_object_that_contains_itself_is_refused(store: str) -> None:
    loop: dict[str, Any] = {}
    loop["anything"] = loop
    async with make([take], store) as rt:
        result = await rt.call("take", loop)
    assert result.error is not None
    assert result.error.code == "invalid_input"
    assert not ran


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x": "1"}, {"/x"}),
        ({"x": 1.5}, {"/x"}),
        ({"x": True}, {"/x"}),
        ({"x": None}, {"/x"}),
        ({"x": [1]}, {"/x"}),
        ({"s": 1}, {"/s"}),
        ({"f": "1.0"}, {"/f"}),
        ({"mode": "c"}, {"/mode"}),
        ({"items": [1, "2", 3.5]}, {"/items/1", "/items/2"}),
        ({"point": {"x": 1}}, {"/point"}),
        ({"tree": {"value": 1, "children": [{"value": 1, "children": [{"value": "x"}]}]}}, {"/tree"}),
        ({"x": "1", "s": 2, "mode": 3}, {"/x", "/s", "/mode"}),
    ],
)
async def test_wrong_types_are_refused_all_at_once_with_their_paths(
    store: str, arguments: Any, expected: set[str]
) -> None:
    async with make([take], store) as rt:
        result, _ = await refuse(rt, arguments)
    assert len(paths(result)) >= len(expected)
    for path in expected:
        assert any(found.startswith(path) for found in paths(result)), paths(result)


async def test_unknown_and_missing_fields_are_named(store: str) -> None:
    async with make([take, strict], store) as rt:
        unknown, _ = await refuse(rt, {"x": 1, "colour": "red"})
        missing, _ = await refuse(rt, {"a": 1}, "strict")
        both, _ = await refuse(rt, {"b": 3, "c": 1}, "strict")
        none, _ = await refuse(rt, {"whatever": 1}, "strict")
    assert paths(unknown) == {"/colour"}
    assert unknown.error is not None
    assert "colour" in unknown.error.message
    assert paths(missing) == {"/b"}
    assert paths(both) == {"/a", "/b", "/c"}
    assert paths(none) == {"/a", "/b", "/whatever"}


async def test_a_tool_without_parameters_takes_none(store: str) -> None:
    @tool
    async def nothing() -> str:
        return "nothing"

    async with make([nothing, take], store) as rt:
        for empty in (None, {}, "{}", b"{}", ""):
            assert (await rt.call("nothing", empty)).output == "nothing"
        await refuse(rt, {"x": 1}, "nothing")


async def test_the_tools_own_check_is_part_of_validation(store: str) -> None:
    async with make([take], store) as rt:
        result, _ = await refuse(rt, {"pair": 3})
        assert (await rt.call("take", {"pair": 4})).success
    assert paths(result) == {"/pair"}
    assert result.error is not None
    assert "must be even" in result.error.message


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, 2**64 + 1, -(2**64) - 1, 10**30, 10**300 + 7])
@pytest.mark.parametrize("as_text", [False, True])
async def test_big_integers_are_kept_exact(store: str, number: int, as_text: bool) -> None:
    arguments = {"x": number, "anything": [number]}
    async with make([take], store) as rt:
        result = await rt.call("take", json.dumps(arguments) if as_text else arguments)
        record = await rt.get(result.call_id)
    assert result.success
    assert ran[0][0] == number
    assert type(ran[0][0]) is int
    assert ran[0][-1] == [number]
    assert type(ran[0][-1][0]) is int
    assert record.arguments == arguments
    assert type(record.arguments["anything"][0]) is int


async def test_a_number_with_5_000_digits_is_kept_exact_or_refused(store: str) -> None:
    digits = "9" * 5_000
    async with make([take], store) as rt:
        for given in (f'{{"anything": {digits}}}', {"anything": 10**5_000 - 1}):
            result = await rt.call("take", given)
            if result.success:
                assert ran.pop()[-1] == 10**5_000 - 1
            else:
                assert result.error is not None
                assert result.error.code == "invalid_input"
                assert not ran


@pytest.mark.parametrize("megabytes", [20, pytest.param(100, marks=pytest.mark.slow)])
async def test_many_megabytes_of_arguments_are_refused_and_not_kept(sqlite: str, megabytes: int) -> None:
    text = "x" * (megabytes * 1_000_000)
    async with make([take], sqlite) as rt:
        for given in (
            {"s": text},
            f'{{"s": "{text}"}}',
            {"anything": {"inside": [text]}},
            {"items": [123_456_789] * (megabytes * 101_000)},
        ):
            result, record = await refuse(rt, given)
            assert result.error is not None
            assert len(result.error.message) < 1_000
            assert record.refused is not None
            assert record.refused["size"] > megabytes * 1_000_000
            assert len(json.dumps(record.refused)) < 500
        assert await rt.store.size() < 1_000_000


BIG = {
    "one text": {"s": "x" * 1_000_000},
    "many numbers": {"anything": [1] * 300_000},
    "many objects": {"anything": [{}] * 250_000},
    "over the limit": {"s": "x" * 20_000_000},
}


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "text"])
@pytest.mark.parametrize("what", BIG)
async def test_big_arguments_do_not_block_the_loop(what: str, as_text: bool) -> None:
    """1 MiB is the limit: arguments just under it are parsed, those over it are refused, and neither may block the loop."""
    given: Any = json.dumps(BIG[what]) if as_text else BIG[what]
    async with make([take]) as rt:
        await rt.call("take")
        await assert_loop_is_free(lambda: rt.call("take", given), limit=0.5)


async def test_what_is_recorded_of_refused_arguments_is_their_size_and_hash(store: str) -> None:
    secret = '{"x": "my password is swordfish"}'
    async with make([take], store) as rt:
        _result, record = await refuse(rt, secret)
    plain = secret.replace(": ", ":").encode()
    assert record.refused == {
        "size": len(plain),
        "sha256": hashlib.sha256(plain).hexdigest(),
        "reason": "invalid_input",
    }, "of the JSON without spaces, its keys sorted"
    created = json.dumps([e.data for e in record.events if e.type == "created"])
    assert "swordfish" not in created


async def test_a_refused_call_is_the_same_call_in_whatever_form_its_arguments_come_again(store: str) -> None:
    async with make([take], store) as rt:
        first = await rt.call("take", {"y": 1, "x": 2}, id="mine")
        assert first.error is not None
        assert first.error.code == "invalid_input"
        for again in ('{"y": 1, "x": 2}', b'{"x":2,"y":1}', {"x": 2.0, "y": 1}):
            result = await rt.call("take", again, id="mine")
            assert (result.call_id, result.error) == ("mine", first.error)
        with pytest.raises(Conflict):
            await rt.call("take", '{"y": 1, "x": 3}', id="mine")


async def test_the_callers_object_is_neither_kept_nor_changed(store: str) -> None:
    given = {"anything": {"list": [1, (2, 3)]}}

    @tool
    async def greedy(anything: Any) -> Any:
        anything["list"].append("mine")
        return anything

    async with make([greedy], store) as rt:
        result = await rt.call("greedy", given)
        record = await rt.get(result.call_id)
    assert given == {"anything": {"list": [1, (2, 3)]}}
    assert record.arguments == {"anything": {"list": [1, [2, 3]]}}
    assert result.output == {"list": [1, [2, 3], "mine"]}


async def test_defaults_belong_to_the_function(store: str) -> None:
    @tool
    async def collect(item: int, into: list[int] = []) -> list[int]:  # noqa: B006  # the point
        into.append(item)
        return into

    async with make([collect], store) as rt:
        assert (await rt.call("collect", {"item": 1})).success
        record = await rt.get((await rt.call("collect", {"item": 2, "into": [5]})).call_id)
    assert record.output == [5, 2]
    assert record.arguments == {"item": 2, "into": [5]}


async def test_a_flood_of_bad_calls_disturbs_no_good_one(store: str) -> None:
    async with make([take], store) as rt:
        bad = [("take", given) for given in ({"x": "1"}, "{", {"f": NAN}, {"s": "\ud800"}, "[" * 1_000)] * 20
        good = [("take", {"x": 1})] * 100
        mixed = [call for pair in zip(bad, good, strict=True) for call in pair]
        results = await rt.call_many(mixed, max_concurrency=20)
    assert [r.success for r in results] == [False, True] * 100
    assert len(ran) == 100


@tool(sensitive=["password"])
async def store_document(data: Any = None, password: str = "") -> str:
    return "stored"


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "text"])
async def test_big_arguments_are_judged_beside_the_loop(as_text: bool) -> None:
    """A third of a megabyte of small values takes up to a third of a second to judge: other calls go on meanwhile."""
    deep = json.loads("[" + ",".join(["[" * 95 + "]" * 95] * 1_500) + "]")
    arguments: Any = {"data": deep, "password": "correct horse"}
    async with make([store_document], "memory://") as rt:
        judging = asyncio.ensure_future(rt.call("store_document", json.dumps(arguments) if as_text else arguments))
        turns = 0
        while not judging.done():
            await asyncio.sleep(0.001)
            turns += 1
        result = await judging
        record = await rt.get(result.call_id)
    assert result.output == "stored"
    assert record.arguments["password"] == "[secret]"
    assert record.arguments["data"] == deep
    assert turns > 20  # on the loop it would be a handful


async def test_big_arguments_are_refused_as_small_ones_are() -> None:
    async with make([strict], "memory://") as rt:
        result = await rt.call("strict", {"a": ["x"] * 50_000, "b": 1, "password": "sk-" + "a1" * 20})
        record = await rt.get(result.call_id)
    assert result.error.code == "invalid_input"
    assert "/a" in {problem["path"] for problem in result.error.details["problems"]}
    assert "a1a1a1" not in str(record)
