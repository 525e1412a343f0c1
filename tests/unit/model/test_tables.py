"""Tables of a settings file: one reader for all, and an error says where, which key, what it must be and what it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from clicket import Settings
from clicket.errors import UsageError
from clicket.model.tables import SECRET, read, said, secrets_in, tables
from clicket.runtime.settings.settings import KEYS


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["left", "right"] = "left"
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    most: int | None = 5
    key: Annotated[str, SECRET] = ""
    inner: Inner = Inner()
    several: tuple[Inner, ...] = ()
    either: Inner | str = ""
    sides: frozenset[Literal["left", "right"]] = frozenset()
    on: bool = False


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("x", "[it] must be a table with name, most, key, inner, several, either, sides, on, not a text."),
        ({}, "[it]: it needs name: a text."),
        ({"nam": "x"}, "[it]: unknown key 'nam'. Did you mean 'name'? Known: name, "),
        ({"name": 5}, "[it]: name must be a text, not 5."),
        ({"name": "x", "most": True}, "[it]: most must be a whole number, or false for no limit, not True."),
        ({"name": "x", "most": "5"}, "[it]: most must be a whole number, or false for no limit, not '5'."),
        ({"name": "x", "on": 1}, "[it]: on must be true or false, not 1."),
        ({"name": "x", "inner": {"share": 2}}, "[it]: inner: share must be a number from 0 to 1, not 2."),
        ({"name": "x", "inner": {"kind": "lft"}}, "[it]: inner: kind must be 'left' or 'right', not 'lft'. Did you mean 'left'?"),
        ({"name": "x", "inner": 5}, "[it]: inner must be a table with kind, share, not a whole number."),
        ({"name": "x", "several": {}}, "[it]: several must be a list of tables, not a dict. In TOML, write"),
        ({"name": "x", "several": [{}, {"shre": 1}]}, "[it]: several, number 2: unknown key 'shre'. Did you mean 'share'?"),
        ({"name": "x", "either": 5}, "[it]: either must be a table with kind, share or a text, not 5."),
        ({"name": "x", "sides": ["left", "rigt"]}, "[it]: sides has no 'rigt'. Did you mean 'right'? Known: left, right."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_to_write(given: Any, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(Outer, given, "[it]")
    assert refused.value.message.startswith(error)


def test_a_table_is_read_as_a_value() -> None:
    made = read(
        Outer, {"name": "x", "most": False, "several": [{"kind": "right"}], "either": "y", "sides": ["left"]}, "[it]"
    )
    assert made == Outer(name="x", most=None, several=(Inner(kind="right"),), either="y", sides=frozenset({"left"}))
    assert read(Outer, {"name": "x", "either": {"share": 1}}, "[it]").either == Inner(share=1.0)


def test_a_secret_is_found_and_never_said() -> None:
    with pytest.raises(UsageError) as refused:
        read(Outer, {"name": "x", "key": ["hush-hush"]}, "[it]")
    assert refused.value.message == "[it]: key must be a text."
    assert list(secrets_in((Outer(name="x", key="hush-hush"), Outer(name="y"), None))) == ["hush-hush"]


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match=r"two have the name 'x'\. Give each a name of its own"):
        tables(Outer, [{"name": "x"}, {"name": "x"}], "[[it]]", lambda each: each.name)


@pytest.mark.parametrize("name", KEYS)
def test_every_key_of_the_file_refuses_what_is_not_its_type(name: str) -> None:
    wrong: Any = object()
    with pytest.raises(UsageError) as refused:
        Settings(**{name: wrong})
    assert name in refused.value.message
    assert said(KEYS[name].type)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"agents": {"a": {"model": "m", "max_step": 1}}}, "[agents.a] of Settings: unknown key 'max_step'. Did you mean 'max_steps', "),
        ({"mcp": {"servers": {"x": {"comand": "y"}}}}, "[mcp.servers.x] of Settings: unknown key 'comand'. Did you mean 'command'"),
        ({"interpreter": {"timeout": "long"}}, "[interpreter] of Settings: timeout must be a number, or false for no limit, not 'long'."),
        ({"search": {"budget": {"max_round": 1}}}, "[search] of Settings: budget: unknown key 'max_round'. Did you mean 'max_rounds', "),
    ],
)  # fmt: skip
def test_tables_are_checked_when_the_settings_are_made(table: Any, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        Settings(**table)
    assert refused.value.message.startswith(error)
