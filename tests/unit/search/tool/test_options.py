"""Options of the search tool: an error names the wrong option before an engine is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.model.tool_tables import INDEX
from clicket.search import Budget, deep_search
from clicket.search.tool.options import Makers, Setup, setup_of


class Engine:
    def __init__(self, name: str) -> None:
        self.name = name

    async def search(self, query: str) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"max_loops": 1}, ["'max_loops'", "'max_loop'"]),
        ({"max_loop": 0}, ["max_loop", "1", "10", "0"]),
        ({"max_loop": 11}, ["max_loop", "1", "10", "11"]),
        ({"max_loop": "three"}, ["max_loop", "'three'"]),
        ({"k": 0}, ["k ", "1", "0"]),
        ({"max_documents": 0}, ["max_documents", "1", "0"]),
        ({"index": ""}, ["index", INDEX]),
        ({"budget": {"querry": 1}}, ["budget", "'querry'", "'query'"]),
        ({"budget": {"query": -1}}, ["query", "-1"]),
        ({"budget": 5}, ["budget", "5"]),
        ({"engine": Engine("a"), "engines": [Engine("b")]}, ["engine", "engines"]),
        ({"engines": [{"kind": "brave", "key": "s3cret"}]}, ["'brave'", "clicket.web"]),
        ({"engine": "brave"}, ["'brave'", "clicket.web"]),
        ({"engines": "brave"}, ["engines"]),
        ({"model": "openai:gpt"}, ["'openai:gpt'", "clicket.models.model_of"]),
        ({"brief": True}, ["brief", "model"]),
        ({"brief": "yes"}, ["brief", "'yes'"]),
        ({"options": {"isolation": "process"}}, ["isolation"]),
        ({"embedder": "word2vec"}, ["embedder", "'word2vec'"]),
    ],
)
def test_an_error_names_the_place_and_the_wrong_option(given: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        setup_of(given, where="[search] of clicket.toml")
    for one in ("[search] of clicket.toml", *named):
        assert one in refused.value.message
    assert "s3cret" not in refused.value.message


def test_options_of_every_tool_are_checked_too() -> None:
    with pytest.raises(UsageError, match="'retries'"):
        deep_search.tool(options={"retries": 3})
    with pytest.raises(UsageError, match="timeout"):
        deep_search.tool(timeout=-1)


def test_defaults() -> None:
    options = deep_search.options
    assert (options.timeout, options.idle_timeout, options.cache, options.read_only) == (600, 30, True, True)
    assert deep_search.setup.index == INDEX
    schema = deep_search.input_schema
    assert schema["required"] == ["query"]
    assert schema["properties"]["max_loop"] == schema["properties"]["max_loop"] | {
        "type": "integer",
        "minimum": 1,
        "maximum": 10,
        "default": 3,
    }


def test_a_tool_with_other_options_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    other = deep_search.tool(name="ask", max_loop=2, index=tmp_path / "x.db", timeout=10, options={"tags": ["x"]})
    assert (other.name, other.options.timeout, other.options.tags) == ("ask", 10, {"x"})
    assert other.input_schema["properties"]["max_loop"]["default"] == 2
    assert (deep_search.name, deep_search.options.timeout) == ("deep_search", 600)
    assert other.tool(k=5).setup.max_loop == 2
    assert other.bind({"query": " q "}) == {"query": "q", "max_loop": 2}


def test_engines_and_models_are_made_from_declarations() -> None:
    made: list[Any] = []

    def engine_of(declared: Any) -> Engine:
        if declared.get("kind") != "brave":
            raise UsageError(f"there is no search engine of the kind {declared['kind']!r}.")
        made.append(Engine(declared["kind"]))
        return made[-1]

    makers = Makers(engine=engine_of, model=lambda named: f"<{named}>".lower)
    setup = setup_of(
        {"engines": ["index", {"kind": "brave"}], "model": "OPENAI:x", "budget": {"query": 3}}, makers=makers
    )
    assert setup.engines == ("index", *made)
    assert setup.model() == "<openai:x>"
    assert setup.budget == Budget(query=3)
    assert setup.needs_index
    assert not setup_of({"engine": {"kind": "brave"}}, makers=makers).needs_index
    assert setup_of({"engine": "index"}).needs_index
    with pytest.raises(UsageError, match=r"engines: there is no search engine of the kind 'brav'"):
        setup_of({"engines": [{"kind": "brav"}]}, makers=makers)


def test_every_option_changes_the_version(tmp_path: Path) -> None:
    setups = [
        Setup(),
        Setup(index=str(tmp_path / "a.db")),
        Setup(engine=Engine("a")),
        Setup(engine=Engine("b")),
        Setup(engines=("index", Engine("a"))),
        Setup(max_loop=2),
        Setup(model=Engine("m")),
        Setup(model=Engine("m"), brief=True),
        Setup(max_documents=5),
    ]
    assert len({setup.version() for setup in setups}) == len(setups)
    assert Setup(engine=Engine("a")).version() == Setup(engine=Engine("a")).version()


def test_a_smaller_budget_and_another_function_are_another_set_up() -> None:
    def search(query: str) -> list[Any]:
        return []

    async def other(query: str) -> list[Any]:
        return []

    other.__qualname__, other.__module__ = search.__qualname__, "elsewhere"
    versions = [
        deep_search.tool(engine=search).options.version,
        deep_search.tool(engine=other).options.version,
        deep_search.tool(engine=search, budget={"max_queries": 2}).options.version,
        deep_search.tool(engine=search, budget={"query": 2}).options.version,
    ]
    assert len(set(versions)) == 3
    assert versions[3] == versions[0], "timeouts do not change a cached answer"
