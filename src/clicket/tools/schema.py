"""The JSON Schema of a function's parameters, from its type hints, and the conversion of arguments to the hinted types."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Union

from clicket.errors import UsageError
from clicket.tools.context import ToolContext
from clicket.tools.deps import Depends
from clicket.tools.plain_signature import PlainHint, plain_binder, plain_hint, plain_schema, scalar_binder

__all__ = ["DIALECT", "Binding", "bind_signature", "docstring_of"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Binding:
    """The schema of a function's arguments, and how to turn arguments into keywords."""

    __slots__ = ("_validate", "bind", "bind_plain", "context", "deps", "schema")

    def __init__(
        self,
        schema: dict[str, Any],
        validate: Callable[[dict[str, Any]], dict[str, Any]],
        plain: Mapping[str, PlainHint | None],
        context: str | None,
        deps: Mapping[str, str],
    ) -> None:
        """`context`: the parameter that gets the context. `deps`: those that get a dep, and its name."""
        self.schema: dict[str, Any] = schema
        self.context: str | None = context
        self.deps: Mapping[str, str] = deps
        self._validate = validate
        required = frozenset(schema.get("required", ()))
        self.bind: Callable[[dict[str, Any]], dict[str, Any]] = (
            plain_binder(plain, required, self.convert) or self.convert
        )
        """Keywords for the function, of the types that its hints name. Defaults stay the function's own."""
        self.bind_plain: Callable[[dict[Any, Any]], dict[str, Any] | None] = scalar_binder(plain, required)
        """The same for arguments that need no judging; None for all others."""

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`bind` for every signature: pydantic converts the values, or `InvalidInput` says why it cannot."""
        return self._validate(arguments)


def bind_signature(function: Callable[..., Any], where: str, *, names: Mapping[str, Any] | None = None) -> Binding:
    """Read a signature. `names` are the local names where the function is defined, to resolve its hints."""
    hinted: Any = function
    while isinstance(hinted, partial):
        hinted = hinted.func
    try:
        hints = typing.get_type_hints(hinted, localns=dict(names or {}), include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"{where}: a type hint cannot be resolved: {error}. Define it before the tool, at module level."
        ) from None
    texts = docstring_of(function)[1]
    parameters: dict[str, inspect.Parameter] = {}
    context: str | None = None
    deps: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if _is_context(hint) or (parameter.name == "ctx" and parameter.name not in hints):
            context = parameter.name
            continue
        dep = _dep_of(hint)
        if dep is not None:
            deps[parameter.name] = dep.name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"{where}: parameter {parameter.name!r} cannot be described by a schema. "
                "Give every argument a name: no *args, **kwargs or positional-only parameters."
            )
        parameters[parameter.name] = parameter.replace(annotation=hint)
    described = {
        name: text for name, p in parameters.items() if (text := _text(p.annotation, texts.get(name))) is not None
    }
    plain = {name: plain_hint(parameter.annotation) for name, parameter in parameters.items()}
    schema = plain_schema(parameters, plain, described)
    if schema is not None:
        return Binding(schema, _Lazy(parameters, described, where), plain, context, deps)
    from clicket.tools.pydantic_arguments import arguments_model

    model = arguments_model(parameters, described, where)
    return Binding(model.schema, model.validate, plain, context, deps)


class _Lazy:
    """Validates with pydantic, which is imported at the first use."""

    def __init__(self, parameters: Mapping[str, inspect.Parameter], texts: Mapping[str, str], where: str) -> None:
        self._arguments = (parameters, texts, where)
        self._validate: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._validate is None:
            from clicket.tools.pydantic_arguments import arguments_model

            self._validate = arguments_model(*self._arguments).validate
        return self._validate(arguments)


def _text(hint: Any, documented: str | None) -> str | None:
    """A parameter's description: the first text of its `Annotated` hint, else the docstring's."""
    metadata = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    return next((each for each in metadata if isinstance(each, str)), documented)


def _is_context(hint: Any) -> bool:
    if typing.get_origin(hint) in (Union, UnionType):
        return ToolContext in typing.get_args(hint)
    return hint is ToolContext


def _dep_of(hint: Any) -> Depends | None:
    """What `Annotated[Pool, Depends("db")]` names."""
    if typing.get_origin(hint) is not Annotated:
        return None
    return next((each for each in typing.get_args(hint)[1:] if isinstance(each, Depends)), None)


@cache
def _parse_docstring() -> Callable[[str], Any]:
    from docstring_parser import parse

    return parse


def docstring_of(function: Any) -> tuple[str, dict[str, str]]:
    """The description, and the text of each argument, from a docstring of Google, NumPy, Sphinx or epydoc style."""
    text = inspect.getdoc(function) or ""
    if "\n" not in text:
        return text, {}
    parsed = _parse_docstring()(text)
    description = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return description or text, {p.arg_name: p.description for p in parsed.params if p.description}
