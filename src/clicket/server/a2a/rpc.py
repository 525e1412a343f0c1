"""JSON-RPC 2.0 as A2A uses it: one request, one response, and errors with the codes and reasons of the protocol."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from clicket.errors import (
    AgentBusy,
    ClicketError,
    Conflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
    StoreUnavailable,
    UsageError,
)
from clicket.model.codec import clean, encode
from clicket.server.problems import Refused, detail_of

__all__ = ["A2AError", "RpcRequest", "error_response", "params_of", "read_request", "response", "translated"]

T = TypeVar("T")
_DOMAIN = "a2a-protocol.org"
_UNDERSCORE = re.compile("_([a-z])")
_OPEN = frozenset({"data", "metadata"})
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "VERSION_NOT_SUPPORTED": -32009,
    "INVALID_PARAMS": -32602,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "PARSE_ERROR": -32700,
    "PERMISSION_DENIED": -32000,
    "INTERNAL_ERROR": -32603,
}


class A2AError(ClicketError):
    """An error of the protocol. `reason` is its name there."""

    code = "usage"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RpcRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is what the response has to repeat."""

    method: str
    params: Any
    id: str | int | float | None


def read_request(body: bytes) -> RpcRequest:
    """The request; raises `A2AError`, with the request's id in `rpc_id` where it can be read."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise A2AError("PARSE_ERROR", f"the body is not JSON: {error}.") from None
    if not isinstance(given, dict):
        raise A2AError("INVALID_REQUEST", "send one JSON-RPC request as an object; batches are not supported.")
    id, method = given.get("id"), given.get("method")
    wrong = ""
    if given.get("jsonrpc") != "2.0":
        wrong = '"jsonrpc" must be "2.0"'
    elif isinstance(id, bool) or not isinstance(id, str | int | float | None):
        wrong = '"id" must be a text or a number'
    elif not isinstance(method, str) or not method:
        wrong = '"method" must be the name of an operation, such as SendMessage'
    elif not isinstance(given.get("params", {}), dict):
        wrong = '"params" must be an object'
    if wrong:
        raise _with_id(A2AError("INVALID_REQUEST", f"the request is not JSON-RPC 2.0: {wrong}."), id)
    assert isinstance(method, str)
    return RpcRequest(method=method, params=given.get("params", {}), id=id)


def _with_id(error: A2AError, id: Any) -> A2AError:
    error.details["rpc_id"] = id if isinstance(id, str | int | float) and not isinstance(id, bool) else None
    return error


def params_of(request: RpcRequest, model: type[T]) -> T:
    """The parameters. The protocol's JSON takes both forms of a name: `contextId` and `context_id`."""
    try:
        return msgspec.convert(_in_camel_case(request.params), model)
    except msgspec.ValidationError as error:
        raise A2AError("INVALID_PARAMS", f"params of {request.method[:100]}: {error}.") from None
    except RecursionError:
        raise A2AError("INVALID_PARAMS", f"params of {request.method[:100]} are nested too deeply.") from None


def _in_camel_case(value: Any) -> Any:
    """Names of the protocol's own objects. What a client brings as data or metadata is not changed."""
    if isinstance(value, list):
        return [_in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {_UNDERSCORE.sub(lambda found: found[1].upper(), str(name)): each for name, each in value.items()}
    return {name: each if name in _OPEN else _in_camel_case(each) for name, each in named.items()}


def response(id: Any, result: Any) -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def error_response(id: Any, error: A2AError) -> bytes:
    info = {"@type": _ERROR_INFO, "reason": error.reason, "domain": _DOMAIN}
    failed = {"code": _CODES[error.reason], "message": clean(error.message), "data": [info]}
    return encode({"jsonrpc": "2.0", "id": id, "error": failed})


def translated(error: ClicketError) -> A2AError:
    """An error of clicket as one of the protocol."""
    if isinstance(error, A2AError):
        return error
    message = detail_of(error.code, error.message)
    if isinstance(error, PermissionDenied) or (isinstance(error, Refused) and error.code == "missing_scope"):
        return A2AError("PERMISSION_DENIED", message)
    if isinstance(error, NotFound):
        return A2AError("TASK_NOT_FOUND", message)
    if isinstance(error, AgentBusy):
        return A2AError("UNSUPPORTED_OPERATION", message)
    if isinstance(error, InvalidInput | UsageError | Conflict):
        return A2AError("INVALID_PARAMS", message)
    text = message if isinstance(error, StoreUnavailable | Refused) else "the server's log says what happened."
    return A2AError("INTERNAL_ERROR", text)
