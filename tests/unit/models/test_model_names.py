"""Models by their names in settings."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.models import AnthropicModel, OpenAIModel, model_of


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
