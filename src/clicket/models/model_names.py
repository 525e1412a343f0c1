"""Makes a model from its name in the settings. Settings hold no API key, only the name of the environment variable that does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clicket.errors import UsageError, did_you_mean
from clicket.model.ports.services import ChatModel
from clicket.models.anthropic import AnthropicModel
from clicket.models.fallback import Fallback
from clicket.models.openai import OpenAIModel
from clicket.models.pydantic_ai import PydanticAIModel
from clicket.models.script import ScriptModel

__all__ = ["model_of"]


def _of_pydantic_ai(model: str, *, options: Mapping[str, Any] | None = None, **settings: Any) -> ChatModel:
    return PydanticAIModel(model, settings={**(options or {}), **settings})


_KINDS: dict[str, Callable[..., ChatModel]] = {
    "openai": OpenAIModel,
    "anthropic": AnthropicModel,
    "pydantic-ai": _of_pydantic_ai,
    "script": ScriptModel,
}
_GIVEN = ("base_url", "max_tokens", "options", "timeout", "prices", "tools", "api", "cache")
_OPTIONS = ("kind", "model", "api_key_env", *_GIVEN)
_OF_CHAIN = ("on", "first_piece", "next_piece", "hold")
_OF_KIND = {
    "openai": ("api_key_env", *(name for name in _GIVEN if name != "cache")),
    "anthropic": ("api_key_env", *(name for name in _GIVEN if name != "api")),
    "pydantic-ai": ("max_tokens", "options", "timeout"),
    "script": (),
}
_FORM = (
    'Write "openai:NAME", "anthropic:NAME", "pydantic-ai:VENDOR:NAME", "script:FILE", '
    '{kind = "openai", model = "NAME", base_url = "…", api_key_env = "…"}, or a list of these.'
)


def model_of(named: str | Sequence[Any] | Mapping[str, Any]) -> ChatModel:
    """`"openai:NAME"`, `"anthropic:NAME"`, `"pydantic-ai:VENDOR:NAME"`, `"script:FILE"`, or a mapping with `kind`, `model` and options of
    the model. A list of these is a `Fallback`, as is a mapping with `models` and options of `Fallback`."""
    if isinstance(named, list | tuple):
        return _chain({"models": named})
    if isinstance(named, Mapping) and "models" in named:
        return _chain(named)
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
    known = _OF_KIND[str(named["kind"])]
    left_over = sorted(key for key in named if key not in ("kind", "model", *known))
    if left_over:
        raise UsageError(
            f"a model of kind {named['kind']!r} has no option {left_over[0]!r}. It has: {', '.join(known) or 'none'}."
        )
    return made(named.get("model", ""), **given)


def _chain(named: Mapping[str, Any]) -> ChatModel:
    listed = named["models"]
    if not isinstance(listed, list | tuple) or not listed:
        raise UsageError(f'models is a list of models: models = ["anthropic:NAME", "openai:NAME"]. {_FORM}')
    for key in named:
        if key not in ("models", *_OF_CHAIN):
            raise UsageError(
                f"a list of models has no option {key!r:.60}.{did_you_mean(str(key), _OF_CHAIN)} Known: {', '.join(_OF_CHAIN)}."
            )
    given: dict[str, Any] = {key: named[key] for key in _OF_CHAIN if key in named}
    for key in ("first_piece", "next_piece"):
        if given.get(key) is False:  # TOML has no null
            given[key] = None
    made = [model_of(each) for each in listed]
    return made[0] if len(made) == 1 and not given else Fallback(*made, **given)


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
