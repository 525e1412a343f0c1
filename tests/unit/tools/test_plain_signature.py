"""Plain signatures are bound without pydantic, invisibly: both ways give the same values, types and errors."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import Field
from tests.kit.examples import examples

from clicket import tool
from clicket.errors import InvalidInput
from clicket.model.arguments import parse_arguments
from clicket.safety.vault import look
from clicket.tools.check import compile_schema
from clicket.tools.plain_signature import plain_hint, plain_schema
from clicket.tools.pydantic_arguments import arguments_model
from clicket.tools.schema import Binding, bind_signature

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
# Often what the hints of this file require, or nearly.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, 1.0, -0.0, 2.5, 2**63, 1e300, "a", "b", "1", ""])
    | TEXT
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)

PLAIN: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "None": None,
    "Any": Any,
    "optional": int | None,
    "number": int | float,
    "number, turned": float | int,
    "text or number": str | int | None,
    "bool or int": bool | int,
    "float or nothing": float | None,
    "list": list,
    "dict": dict,
    "list of Any": list[Any],
    "dict of Any": dict[str, Any],
    "list of int": list[int],
    "list of float": list[float],
    "list of optionals": list[str | None],
    "nested": list[dict[str, list[int]]],
    "dict of int": dict[str, int],
    "dict of number": dict[str, int | float],
    "list or nothing": list[int] | None,
    "two lists": list[int] | list[str],
    "two lists of numbers": list[float] | list[int],
    "text or list": str | list[str],
    "two dicts": dict[str, float] | dict[str, int] | int,
    "words": Literal["a", "b"],
    "numbers": Literal[1, 2],
    "bools": Literal[True, "a"] | None,
    "one and true": Literal[0, True],
    "word or number": Literal["a"] | int,
    "word or text": Literal["a"] | str,  # noqa: PYI051  # as people write it
    "words, listed": list[Literal["a", "b"]],
    "described": Annotated[int, "how many"],
    "described by a field": Annotated[float, Field(description="how much", examples=[1.5])],
    "described inside": list[Annotated[int, "one"]],
}

NOT_PLAIN: dict[str, Any] = {
    "bounded": Annotated[int, Field(ge=1)],
    "strict": Annotated[int, Field(strict=True)],
    "bounded inside": list[Annotated[int, Field(ge=1)]],
    "bytes": bytes,
    "tuple": tuple[int, ...],
    "sequence": Sequence[int],
    "keys that are numbers": dict[int, int],
    "a union with anything": int | list[Any],
    "literal of bytes": Literal[b"a"],
}


def bound_by(hint: Any, *, default: bool = False) -> Binding:
    def function(value, other=1): ...  # type: ignore[no-untyped-def]

    def with_default(value=None, other=1): ...  # type: ignore[no-untyped-def]

    made = with_default if default else function
    made.__annotations__ = {"value": hint, "other": int}
    return bind_signature(made, "here")


BINDINGS = {name: bound_by(hint) for name, hint in PLAIN.items()}
CHECKS = {name: compile_schema(each.schema, "here") for name, each in BINDINGS.items()}


def outcome(bind: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]) -> Any:
    try:
        return typed(bind(arguments))
    except InvalidInput as refused:
        return refused.problems


def typed(value: Any) -> Any:
    """The value with its types at every level: 1, 1.0 and True differ; so do 0.0 and -0.0."""
    if type(value) is dict:
        return dict, [(key, typed(item)) for key, item in value.items()]
    if type(value) is list:
        return list, [typed(item) for item in value]
    return type(value), repr(value)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_signature_is_known(name: str) -> None:
    assert BINDINGS[name].bind != BINDINGS[name].convert


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_pydantic_may_convert_or_judge_is_left_to_it(name: str) -> None:
    binding = bound_by(NOT_PLAIN[name])
    assert binding.bind == binding.convert


@pytest.mark.parametrize("name", PLAIN)
@given(value=JSON)
@settings(max_examples=examples(60))
def test_both_ways_agree(name: str, value: Any) -> None:
    binding = BINDINGS[name]
    for arguments in ({"value": value}, {"value": value, "other": 2}, {"other": 1.0, "value": value}):
        assert outcome(binding.bind, arguments) == outcome(binding.convert, arguments)


@pytest.mark.parametrize("name", PLAIN)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_both_ways_agree_on_what_the_schema_accepts(name: str, data: st.DataObject) -> None:
    hint = PLAIN[name]
    arguments = {"value": data.draw(JSON if "Any" in str(hint) or hint in (None, list, dict) else st.from_type(hint))}
    if CHECKS[name](arguments) == []:
        assert outcome(BINDINGS[name].bind, arguments) == outcome(BINDINGS[name].convert, arguments)


@pytest.mark.parametrize(
    "arguments", [{}, {"other": 1}, {"value": 1, "unknown": 2}, {"value": 1, "other": "x"}, {"value": "1"}]
)
@pytest.mark.parametrize("default", [False, True])
def test_missing_and_unknown_names_are_refused_alike(arguments: dict[str, Any], default: bool) -> None:
    binding = bound_by(int, default=default)
    assert outcome(binding.bind, arguments) == outcome(binding.convert, arguments)


def test_the_arguments_are_not_the_keywords() -> None:
    arguments = {"value": 1}
    bound = bound_by(int).bind(arguments)
    bound["value"] = 2
    assert arguments == {"value": 1}


def test_pydantic_is_not_called_for_an_exact_match(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(self: Binding, arguments: Any) -> Any:
        raise AssertionError("it was asked")

    monkeypatch.setattr(Binding, "convert", asked)
    binding = bound_by(list[int] | None)
    assert binding.bind({"value": [1, 2]}) == {"value": [1, 2]}
    with pytest.raises(AssertionError):
        binding.bind({"value": [1, 2.0]})


# Arguments that need no validation.


_SCALAR_HINTS = (int, float, str, bool, int | None, str | float, None)
_scalar = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(["sk-" + "A1" * 10, "\x00", "é"]),
    st.lists(st.integers(), max_size=2), st.just(2**63), st.just(-(2**70)),
)  # fmt: skip


@given(
    hints=st.lists(st.sampled_from(_SCALAR_HINTS), min_size=1, max_size=4),
    values=st.lists(_scalar, max_size=5),
    optional=st.booleans(),
)
def test_what_is_bound_without_judging_would_have_passed_every_judge(
    hints: list[Any], values: list[Any], optional: bool
) -> None:
    parameters = {f"p{number}": hint for number, hint in enumerate(hints)}
    arguments = {f"p{number}": value for number, value in enumerate(values)}

    def function(**given: Any) -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    default = None if optional else inspect.Parameter.empty
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind, annotation=hint, default=default) for name, hint in parameters.items()]
    )
    function.__annotations__ = parameters
    made = tool(name="made")(function)
    bound = made.bind_plain(arguments)
    if bound is None:
        return
    plain = parse_arguments(arguments, max_size=1_000_000)
    assert exactly(plain, arguments)
    assert compile_schema(made.input_schema, "made")(plain) == []
    assert look(plain, None) is None
    assert exactly(made.bind(plain), bound)
    assert bound is not arguments, "the caller's own dict is not used"


def exactly(one: Any, other: Any) -> bool:
    """Equal values of the same types."""
    return repr(one) == repr(other)


def test_declared_secrets_are_always_judged() -> None:
    @tool(sensitive=["pin"])
    async def pay(pin: int) -> None: ...

    @tool
    async def plain(pin: int) -> None: ...

    assert pay.bind_plain({"pin": 1}) is None
    assert plain.bind_plain({"pin": 1}) == {"pin": 1}
    assert plain.bind_plain({"pin": True}) is None
    assert plain.bind_plain({"pin": 1, "more": 2}) is None
    assert plain.bind_plain({}) is None


SCALARS = st.sampled_from([int, float, str, bool, None, Literal["a"], Literal[1, 2], Literal["a", 1], Literal[True]])
HINTS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(SCALARS, st.sampled_from([Any, list, dict])),
    lambda inner: st.one_of(
        st.builds(lambda hint: list[hint], inner),  # type: ignore[valid-type]
        st.builds(lambda hint: dict[str, hint], inner),  # type: ignore[valid-type]
        st.builds(lambda hint: Annotated[hint, "what it is"], inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda hints: Union[tuple(hints)]),  # noqa: UP007  # a tuple is not an operand
    ),
    max_leaves=4,
)
DEFAULTS = st.one_of(
    st.just(inspect.Parameter.empty),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)


@given(hint=HINTS, default=DEFAULTS, text=st.none() | st.text(max_size=12))
@example(hint=Annotated[None, "what it is"] | int, default=inspect.Parameter.empty, text=None)
@settings(max_examples=examples(300))
@pytest.mark.filterwarnings("ignore::UserWarning")  # of pydantic, about defaults that are not of the hinted type
def test_a_plain_schema_is_the_one_that_pydantic_writes(hint: Any, default: Any, text: str | None) -> None:
    parameter = inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
    texts = {} if text is None else {"value": text}
    ours = plain_schema({"value": parameter}, {"value": plain_hint(hint)}, texts)
    if ours is not None:
        assert json.dumps(ours) == json.dumps(arguments_model({"value": parameter}, texts, "here").schema)


def test_the_frequent_signatures_need_no_pydantic() -> None:
    program = (
        "import sys\nfrom typing import Literal\nfrom clicket import tool\n"
        "@tool\ndef book(city: str, nights: int = 1, price: float | None = None, tags: list[str] | None = None,\n"
        "         kind: Literal['a', 'b'] = 'a', extra: dict[str, int] | None = None) -> str: return city\n"
        "book.bind({'city': 'Bern', 'nights': 2})\nbook.output_schema\nprint('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
