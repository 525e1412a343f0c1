"""Models by their names in settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.models import AnthropicModel, Fallback, OpenAIModel, model_of


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-2")
    monkeypatch.setenv("MY_KEY", "sk-3")
    assert model_of("openai:gpt-x").name == "openai:gpt-x"
    assert isinstance(model_of("anthropic:claude:x"), AnthropicModel)
    made = model_of({"kind": "openai", "model": "m", "base_url": "http://localhost:1/v1", "api_key_env": "MY_KEY"})
    assert isinstance(made, OpenAIModel)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("gpt-x", "gpt-x"),
        ("openay:gpt-x", "Did you mean 'openai'"),
        ("openai:", "needs its name"),
        ({"kind": "openai", "model": "m", "api_key": "sk-1"}, "api_key_env"),
        ({"kind": "openai", "model": "m", "api_key_env": "NOT_SET_ANYWHERE"}, "not set"),
        ({"kind": "openai", "model": "m", "timeout": "soon"}, "timeout"),
        ({"kind": "openai", "model": "m", "timeout": 0, "base_url": "http://localhost"}, "more than 0"),
        ({"model": "m"}, "no kind"),
        (3, "not by int"),
    ],
)
def test_wrong_names_say_what_to_write(named: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    with pytest.raises(UsageError, match=words):
        model_of(named)


def test_a_missing_key_or_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt-x")
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(UsageError, match=r"clicket\[openai\]"):
        OpenAIModel("gpt-x")
    with pytest.raises(UsageError, match=r"clicket\[anthropic\]"):
        AnthropicModel("claude-x")


def test_a_list_is_a_fallback(tmp_path: Path) -> None:
    scripts = [_script(tmp_path / f"{name}.json") for name in "ab"]
    made = model_of(scripts)
    assert isinstance(made, Fallback)
    assert [each.name for each in made.models] == scripts
    assert not isinstance(model_of(scripts[:1]), Fallback)
    table = {"models": scripts, "on": ["refusal"], "first_piece": 5, "next_piece": False, "hold": 0}
    assert isinstance(model_of(table), Fallback)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ([], "a list of models"),
        ({"models": "openai:x"}, "a list of models"),
        ({"models": ["script:none.json"], "holds": 3}, "Did you mean 'hold'"),
        (["openai"], "does not name the model's vendor"),
        ({"models": ["script:{}"], "first_piece": "soon"}, "first_piece"),
    ],
)
def test_mistakes_in_a_list(tmp_path: Path, named: Any, why: str) -> None:
    if isinstance(named, dict):
        named = {**named, "models": _with_script(named["models"], tmp_path)}
    with pytest.raises(UsageError, match=why):
        model_of(named)


def _script(path: Path) -> str:
    path.write_text('["yes"]')
    return f"script:{path}"


def _with_script(models: Any, folder: Path) -> Any:
    return (
        [_script(folder / "a.json") if each == "script:{}" else each for each in models]
        if isinstance(models, list)
        else models
    )
