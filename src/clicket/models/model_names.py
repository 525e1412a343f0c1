"""Makes a model from its name in the settings. Settings hold no API key, only the name of the environment variable that does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from clicket.errors import UsageError, did_you_mean
from clicket.models.anthropic import AnthropicModel
from clicket.models.openai import OpenAIModel
from clicket.models.script import ScriptModel
from clicket.ports.services import ChatModel

__all__ = ["model_of"]

_KINDS: dict[str, Callable[..., ChatModel]] = {
    "openai": OpenAIModel,
    "anthropic": AnthropicModel,
    "script": ScriptModel,
}
_GIVEN = ("base_url", "max_tokens", "options", "timeout", "prices", "tools")
_OPTIONS = ("kind", "model", "api_key_env", *_GIVEN)
_FORM = 'Write "openai:NAME", "anthropic:NAME", "script:FILE", or {kind = "openai", model = "NAME", base_url = "…", api_key_env = "…"}.'


def model_of(named: str | Mapping[str, Any]) -> ChatModel:
    """`"openai:NAME"`, `"anthropic:NAME"`, `"script:FILE"`, or a mapping with `kind`, `model` and options of the model."""
    if isinstance(named, str):
        kind, found, model = named.partition(":")
        if not found:
            raise UsageError(f"{named!r} does not name the model's vendor. {_FORM}")
        named = {"kind": kind.strip(), "model": model.strip()}
    if not isinstance(named, Mapping):
        raise UsageError(f"a model is named by a text or a table, not by {type(named).__name__}. {_FORM}")
    unknown = sorted(str(key) for key in named if key not in _OPTIONS)
    if unknown:
        raise UsageError(f"a model has no option {unknown[0]!r}.{did_you_mean(unknown[0], _OPTIONS)} {_FORM}")
    made = _KINDS.get(str(named.get("kind")))
    if made is None:
        wrong = str(named.get("kind"))
        raise UsageError(f"there is no kind of model {wrong!r}.{did_you_mean(wrong, _KINDS)} {_FORM}")
    given = _given(named)
    if made is ScriptModel and given:
        raise UsageError(f"a script has no option {min(given)!r}: its file holds the whole reply.")
    return made(named.get("model", ""), **given)


def _given(named: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {key: named[key] for key in _GIVEN if key in named}
    kinds_of = {"max_tokens": int, "timeout": (int, float), "options": Mapping, "prices": Mapping}
    for key in _GIVEN:
        kinds: Any = kinds_of.get(key, str)
        value = given.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise UsageError(f"the model's {key} cannot be {value!r}. {_FORM}")
    variable = named.get("api_key_env")
    if variable is not None:
        secret = os.environ.get(variable) if isinstance(variable, str) else None
        if not secret:
            raise UsageError(f"api_key_env names the variable {variable!r}, which is not set.")
        given["api_key"] = secret
    return given
