"""Schemas from type hints: the model reads what the function accepts."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from clicket import ToolContext, tool
from clicket.errors import InvalidInput, UsageError
from clicket.tools.check import compile_schema
from clicket.tools.schema import bind_signature, docstring_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Address(BaseModel):
    street: str = Field(description="Where", min_length=1)
    city: str = "Here"


class Options(TypedDict, total=False):
    loud: bool


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


def schema_of(function: Any) -> Any:
    return tool(function).input_schema


def properties(function: Any) -> Any:
    return schema_of(function)["properties"]


def check(function: Any) -> Callable[[Any], list[dict[str, str]]]:
    return compile_schema(schema_of(function), "here")


def test_plain_types_defaults_and_what_is_required() -> None:
    def f(a: int, b: float, c: str, d: bool, e: list[int], g: dict[str, float], h: int = 3, i: str = "x") -> None: ...

    schema = schema_of(f)
    kinds = {name: p["type"] for name, p in schema["properties"].items()}
    assert kinds == {
        "a": "integer", "b": "number", "c": "string", "d": "boolean", "e": "array", "g": "object", "h": "integer", "i": "string",
    }  # fmt: skip
    assert schema["required"] == ["a", "b", "c", "d", "e", "g"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["h"]["default"] == 3
    assert schema["type"] == "object"
    assert "title" not in str(schema)  # titles repeat the names, and cost tokens


def test_literals_optionals_enums_and_unions() -> None:
    def f(
        mode: Literal["a", "b"],
        maybe: int | None,
        other: int | None = None,
        colour: Colour = Colour.RED,
        either: int | str = 1,
    ) -> None: ...

    schema = schema_of(f)
    assert schema["properties"]["mode"]["enum"] == ["a", "b"]
    assert schema["required"] == ["mode", "maybe"]  # may be null, but is required
    good = check(f)
    assert good({"mode": "a", "maybe": None}) == []
    assert good({"mode": "b", "maybe": 1, "other": None, "colour": "blue", "either": "x"}) == []
    for bad in (
        {"mode": "c", "maybe": 1},
        {"mode": "a"},
        {"mode": "a", "maybe": "1"},
        {"mode": "a", "maybe": 1, "colour": "green"},
    ):
        assert good(bad)


def test_models_dataclasses_typed_dicts_and_recursive_ones() -> None:
    def f(address: Address, point: Point, options: Options, tree: Tree, points: list[Point]) -> None: ...

    good = check(f)
    arguments = {
        "address": {"street": "Main"},
        "point": {"x": 1},
        "options": {"loud": True},
        "tree": {"value": 1, "children": [{"value": 2}]},
        "points": [{"x": 1, "y": 2}],
    }
    assert good(arguments) == []
    bound = tool(f).bind(arguments)
    assert bound["address"] == Address(street="Main")
    assert bound["point"] == Point(1)
    assert bound["options"] == {"loud": True}
    assert bound["tree"].children[0].value == 2
    assert bound["points"] == [Point(1, 2)]
    [problem] = good({**arguments, "tree": {"value": 1, "children": [{"value": "x"}]}})
    assert problem["path"] == "/tree/children/0/value"
    problems = good({**arguments, "address": {"street": ""}, "point": {"y": 1}})
    assert {p["path"] for p in problems} == {"/address/street", "/point/x"}


@pytest.mark.parametrize("where", ["address", "point", "tree"])
def test_unknown_fields_of_inner_objects_are_refused_too(where: str) -> None:
    def f(address: Address, point: Point, tree: Tree) -> None: ...

    arguments: Any = {"address": {"street": "x"}, "point": {"x": 1}, "tree": {"value": 1}}
    assert check(f)(arguments) == []
    arguments[where]["misspelled"] = 1
    [problem] = check(f)(arguments)
    assert problem["path"] == f"/{where}/misspelled"


def test_a_model_that_wants_more_fields_gets_them() -> None:
    class Open(BaseModel, extra="allow"):
        a: int

    @tool
    def f(open: Open) -> None: ...

    assert compile_schema(f.input_schema, "here")({"open": {"a": 1, "b": 2}}) == []
    assert f.bind({"open": {"a": 1, "b": 2}})["open"].b == 2


def test_well_known_types_are_converted() -> None:
    def f(
        day: dt.date,
        at: dt.datetime,
        id: uuid.UUID,
        price: Decimal,
        parts: tuple[int, str],
        names: set[str],
    ) -> None: ...

    bound = tool(f).bind(
        {
            "day": "2024-01-02",
            "at": "2024-01-02T03:04:05Z",
            "id": "00000000-0000-0000-0000-000000000001",
            "price": "1.10",
            "parts": [1, "a"],
            "names": ["x", "x"],
        }
    )
    assert bound["day"] == dt.date(2024, 1, 2)
    assert bound["at"].tzinfo is not None
    assert bound["id"] == uuid.UUID(int=1)
    assert bound["price"] == Decimal("1.10")
    assert bound["parts"] == (1, "a")
    assert bound["names"] == {"x"}
    with pytest.raises(InvalidInput) as refused:
        tool(f).bind({"day": "someday", "at": "x", "id": "y", "price": "z", "parts": [1, "a"], "names": []})
    assert {p["path"] for p in refused.value.problems} == {"/day", "/at", "/id", "/price"}


def test_annotated_descriptions_and_bounds() -> None:
    def f(
        a: Annotated[int, "How many"],
        b: Annotated[str, Field(description="Its name", max_length=3)],
        c: Annotated[int, Field(ge=1)] = 2,
    ) -> None: ...

    found = properties(f)
    assert found["a"]["description"] == "How many"
    assert found["b"]["description"] == "Its name"
    assert "description" not in found["c"]
    assert [p["path"] for p in check(f)({"a": 1, "b": "long", "c": 0})] == ["/b", "/c"]


def google(city: str, unit: str = "c", ctx: ToolContext | None = None) -> None:
    """Current weather of a city.

    It looks it up.

    Args:
        city: The city's name.
        unit (str): c or f,
            on two lines.
    """


def numpy(city: str, unit: str = "c") -> None:
    """Current weather of a city.

    It looks it up.

    Parameters
    ----------
    city : str
        The city's name.
    unit : str, optional
        c or f,
        on two lines.
    """


def sphinx(city: str, unit: str = "c") -> None:
    """Current weather of a city.

    It looks it up.

    :param city: The city's name.
    :param str unit: c or f,
        on two lines.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_describe_the_tool_and_its_arguments(function: Any) -> None:
    made = tool(function)
    assert made.description == "Current weather of a city.\n\nIt looks it up."
    found = made.input_schema["properties"]
    assert found["city"]["description"] == "The city's name."
    assert " ".join(found["unit"]["description"].split()) == "c or f, on two lines."


def test_annotated_wins_over_the_docstring() -> None:
    def f(a: Annotated[int, "from the hint"]) -> None:
        """Does it.

        Args:
            a: from the docstring
        """

    assert properties(f)["a"]["description"] == "from the hint"


@pytest.mark.parametrize(
    "text", ["", "One line.", "One line.\n\nArgs:\n    nobody: is here\n", "Odd :param x y: z\n\n::\n\n  Args"]
)
def test_any_docstring_will_do(text: str) -> None:
    def f(a: int = 1) -> None: ...

    f.__doc__ = text
    description, _ = docstring_of(f)
    assert isinstance(description, str)
    assert tool(f).input_schema["properties"]["a"]["type"] == "integer"


def test_the_context_is_not_in_the_schema_wherever_it_stands() -> None:
    def first(ctx: ToolContext, a: int) -> None: ...
    def last(a: int, *, context: ToolContext) -> None: ...
    def optional(a: int, ctx: ToolContext | None = None) -> None: ...
    def quoted(a: int, c: ToolContext | None = None) -> None: ...
    def bare(a, ctx): ...  # type: ignore[no-untyped-def]  # the name alone says it

    for function, name in ((first, "ctx"), (last, "context"), (optional, "ctx"), (quoted, "c"), (bare, "ctx")):
        assert list(properties(function)) == ["a"]
        assert tool(function).binding.context == name

    def of_its_own(ctx: str) -> None: ...

    assert list(properties(of_its_own)) == ["ctx"]  # a parameter that only shares the name


AWKWARD = (
    "self_ model_config model_fields schema json copy dict class_ validate construct fields p0 p1 cls args kwargs "
    "type id name input tool arguments __dunder _private x__y"
).split()


@pytest.mark.parametrize("name", AWKWARD)
def test_no_parameter_name_is_awkward(name: str) -> None:
    made = tool(name="odd")(eval(f"lambda {name}, p0=1: [{name}]" if name != "p0" else "lambda p0: [p0]"))
    assert name in made.input_schema["properties"]
    assert made.bind({name: 5}) == {name: 5}
    assert made.run(made.bind({name: 5}), None) == [5]


def test_all_awkward_names_at_once() -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(f'{n}: int' for n in AWKWARD)}): return locals()", namespace)
    made = tool(namespace["f"])
    arguments = {name: number for number, name in enumerate(AWKWARD)}
    assert made.bind(arguments) == arguments


def test_types_that_are_local_to_a_function_are_found() -> None:
    """Under `from __future__ import annotations` hints are only text until they are resolved."""

    class Local(BaseModel):
        n: int

    @dataclass
    class Other:
        m: int = 0

    Size = Literal["s", "m"]  # a type

    @tool
    def f(local: Local, others: list[Other], size: Size = "s") -> int:
        return local.n

    assert f.bind({"local": {"n": 1}, "others": [{}]}) == {"local": Local(n=1), "others": [Other()]}

    @tool(name="g")
    async def g(local: Local) -> None: ...

    assert g.bind({"local": {"n": 2}})["local"].n == 2


def test_a_hint_that_cannot_be_found_is_named() -> None:
    with pytest.raises(UsageError, match="Nowhere"):

        @tool
        def f(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # the point


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda *args: None, "args"),
        (lambda **kwargs: None, "kwargs"),
        (eval("lambda a, /: None"), "'a'"),
    ],
)
def test_parameters_that_have_no_name_to_call_them_by_are_refused(function: Any, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        tool(name="odd")(function)


def test_types_without_a_schema_are_refused_where_the_tool_is_declared() -> None:
    class Opaque: ...

    for hint in (Opaque, Callable[[int], int], object.__init__):

        def f(a: Any) -> None: ...

        f.__annotations__ = {"a": hint}
        with pytest.raises(UsageError, match="odd"):
            tool(name="odd")(f)


def test_defaults_that_are_not_json_are_the_functions_own_affair() -> None:
    marker = object()

    def f(a: int = marker) -> bool:  # type: ignore[assignment]  # as people write it
        return a is marker

    made = tool(f)
    assert made.run(made.bind({}), None) is True
    assert "required" not in made.input_schema
    assert check(f)({}) == []


def test_untyped_parameters_take_anything() -> None:
    def f(a, b=1):  # type: ignore[no-untyped-def]
        return [a, b]

    for value in (None, 1, "x", [1], {"k": [None]}):
        assert check(f)({"a": value}) == []
        assert tool(f).bind({"a": value}) == {"a": value}


def test_numbers_are_not_bent() -> None:
    def f(i: int = 0, x: float = 0.0, b: bool = False, s: str = "") -> None: ...

    good = check(f)
    for bad in ({"i": "1"}, {"i": True}, {"i": 1.5}, {"x": "1"}, {"x": True}, {"b": 1}, {"b": "true"}, {"s": 1}):
        assert good(bad), bad
    assert good({"i": 2**64, "x": 1}) == []
    assert tool(f).bind({"i": 2**64 + 1})["i"] == 2**64 + 1
    whole = tool(f).bind({"i": 3.0})["i"]
    assert (whole, type(whole)) == (3, int)


def test_check_gives_every_complaint_with_its_path_in_json_pointer() -> None:
    schema = {
        "type": "object",
        "properties": {"a/b": {"type": "integer"}, "t~": {"type": "array", "items": {"type": "string"}}},
        "required": ["z"],
    }
    problems = compile_schema(schema, "here")({"a/b": "x", "t~": ["ok", 1, 2], "unknown": 1})
    assert {p["path"] for p in problems} == {"/a~1b", "/t~0/1", "/t~0/2", "/unknown", "/z"}
    assert len(problems) == 5
    assert all(p["message"] for p in problems)


def test_messages_stay_short_however_long_the_value() -> None:
    [problem] = compile_schema({"type": "object", "properties": {"a": {"type": "integer"}}}, "here")(
        {"a": "x" * 1_000_000}
    )
    assert len(problem["message"]) < 500


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef"])
def test_nothing_is_fetched(word: str) -> None:
    with pytest.raises(UsageError, match="here"):
        compile_schema({"type": "object", "properties": {"a": {word: "http://127.0.0.1:9/x"}}}, "here")


def test_bind_leaves_out_what_was_not_given() -> None:
    def f(a: int, b: Sequence[int] = (1, 2)) -> Any:
        return b

    made = tool(f)
    assert made.bind({"a": 1}) == {"a": 1}
    assert made.run({"a": 1}, None) == (1, 2)  # the function's own default, of its own type


def test_bind_signature_of_a_method_leaves_self_out() -> None:
    class Thing:
        def run(self, x: int) -> int:
            return x

    assert list(bind_signature(Thing().run, "here").schema["properties"]) == ["x"]
