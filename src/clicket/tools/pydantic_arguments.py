"""Arguments through pydantic: the schema of any signature, and the conversion of arguments to the hinted types.

Imported only when a signature or its arguments need it; see `plain_signature`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from clicket.errors import InvalidInput, UsageError
from clicket.model.codec import json_pointer
from clicket.tools.union_bound import UnionBound

__all__ = ["arguments_model", "complaints", "type_schema"]

_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False, ser_json_inf_nan="null")


_MAX_LISTED = 500
"""With more errors, their texts are not made: that takes pydantic longer than all the rest."""


def complaints(error: ValidationError) -> InvalidInput:
    """A validation error of pydantic's as an `InvalidInput`."""
    count = error.error_count()
    if count > _MAX_LISTED:
        return InvalidInput(
            f"the types of the tool's parameters refuse them for {count:,} reasons, in all alternatives of a union"
        )
    return InvalidInput(
        {"path": json_pointer(e["loc"]), "message": e["msg"]}
        for e in error.errors(include_url=False, include_input=False)
    )


class ArgumentsModel:
    """A pydantic model of a function's parameters. Its fields have neutral names, and the parameters' names are their aliases, so
    no parameter can clash with a name of pydantic's own."""

    def __init__(self, model: Any, fields: dict[str, str], schema: dict[str, Any]) -> None:
        self.schema: dict[str, Any] = schema
        self._fields = fields
        self._validate = model.__pydantic_validator__.validate_python
        self._bound: UnionBound | None = None

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as keywords. Raises `InvalidInput`."""
        if self._bound is None:
            self._bound = UnionBound(self.schema)
        self._bound.check(arguments)
        try:
            values = self._validate(arguments).__dict__
        except ValidationError as error:
            raise complaints(error) from None
        fields = self._fields
        return {name: values[fields[name]] for name in arguments}


def arguments_model(
    parameters: Mapping[str, inspect.Parameter], texts: Mapping[str, str], where: str
) -> ArgumentsModel:
    """The model of these parameters, whose annotations are resolved; `texts` are their descriptions."""
    fields = {name: f"p{at}" for at, name in enumerate(parameters)}
    definitions: dict[str, Any] = {
        fields[name]: (parameter.annotation, _field(parameter, texts.get(name)))
        for name, parameter in parameters.items()
    }
    try:
        model = create_model("Arguments", __config__=_CONFIG, **definitions)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    except (PydanticUserError, TypeError, ValueError) as error:
        first = str(error).split("\n", 1)[0]
        raise UsageError(f"{where}: a parameter cannot be described by a JSON Schema: {first}") from None
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for definition in schema.get("$defs", {}).values():
        # A model that says nothing about further fields would silently drop them, so they are refused.
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    return ArgumentsModel(model, fields, schema)


def type_schema(kind: Any, where: str) -> tuple[dict[str, Any], Callable[[bytes], Any]]:
    """The schema of any type, and what makes JSON a value of it, or raises `InvalidInput`."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema(by_alias=True, schema_generator=_Schema)
    except (PydanticUserError, TypeError, ValueError, NameError) as error:
        first = str(error).split("\n", 1)[0]
        raise UsageError(f"{where}: it cannot be described by a JSON Schema: {first}") from None

    def validate(text: bytes) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            raise complaints(error) from None

    return schema, validate


class _Schema(GenerateJsonSchema):
    # A default that cannot be written as JSON is left out of the schema.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as pydantic declares it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Generated titles repeat the name and cost the model tokens."""
        return False


def _field(parameter: inspect.Parameter, text: str | None) -> Any:
    given: dict[str, Any] = {"alias": parameter.name}
    if parameter.default is not parameter.empty:
        given["default"] = parameter.default
    hint = parameter.annotation
    metadata = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    if text is not None and not any(isinstance(m, FieldInfo) and m.description for m in metadata):
        given["description"] = text
    return Field(**given)
