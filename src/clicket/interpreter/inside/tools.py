"""Tools as functions of the program: `tools.NAME(...)`, `ToolError`, and `fetch` where the program may reach hosts.

A use returns the tool's output. While an event loop runs in the thread, it returns a `Use` at once: `await` gives the output, several
go on at the same time, and one that is used without `await` stands for its output.
"""

from __future__ import annotations

import _operator  # the C part of `operator`, which is there already
import builtins
import sys

from clicket.interpreter.inside.responses import Response
from clicket.interpreter.inside.safe_builtins import BUILTINS
from clicket.interpreter.inside.use_mailbox import UseFailed, UseMailbox

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["ToolError", "Tools", "Use", "install", "remove", "sign"]

globals()["__builtins__"] = BUILTINS

_MAX_DEPTH = 100


class ToolError(Exception):
    """A use of a tool failed. `code` is for programs (`timeout`, `permission_denied`, `tool_error`, …), `message` says why, `tool`
    names the tool, and `retryable` says whether the same use may succeed later."""

    __module__ = "builtins"

    def __init__(self, message: str = "", *, code: str = "tool_error", tool: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.tool = tool
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.tool}: {self.code}: {self.message}" if self.tool else self.message


class Use:
    """A use that is under way. `await` it; `result()` waits without a loop. Everything else that is done with it waits, too, and is
    done with the output."""

    __slots__ = ("_answer", "_coroutine", "_mailbox", "_number", "_tool")

    def __init__(self, mailbox: UseMailbox, number: int, tool: str) -> None:
        self._mailbox, self._number, self._tool = mailbox, number, tool
        self._answer: dict[str, Any] | None = None
        self._coroutine: Any = None

    def result(self) -> Any:
        """The tool's output; waits for it. Raises `ToolError`."""
        if self._answer is None:
            try:
                self._answer = self._mailbox.wait(self._number)
            except UseFailed as failed:
                raise _error(self._tool, failed.code, failed.message, failed.retryable) from None
        error = self._answer.get("error")
        if error is not None:
            raise _error(self._tool, error["code"], error["message"], bool(error.get("retryable")))
        return self._answer.get("value")

    async def _wait(self) -> Any:
        import asyncio

        if self._answer is None:
            try:
                await self._mailbox.future_of(self._number, asyncio.get_running_loop())
            except asyncio.CancelledError:
                self._mailbox.withdraw(self._number)
                raise
        return self.result()

    def __await__(self) -> Any:
        return self._wait().__await__()

    # The methods of a coroutine, for `asyncio.create_task` and task groups.

    def send(self, value: Any) -> Any:
        if self._coroutine is None:
            self._coroutine = self._wait()
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        if self._coroutine is None:
            self._coroutine = self._wait()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()

    # The output's own behaviour.

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":  # what Python looks for on its own must not wait
            raise AttributeError(name)
        return getattr(self.result(), name)

    def __repr__(self) -> str:
        return repr(self.result())

    def __str__(self) -> str:
        return str(self.result())

    def __format__(self, how: str) -> str:
        return format(self.result(), how)

    def __bool__(self) -> bool:
        return bool(self.result())

    def __hash__(self) -> int:
        return id(self)  # `asyncio.gather` hashes what it gets, and must not wait


def _value(given: Any) -> Any:
    return given.result() if type(given) is Use else given


def _stand_for(operation: Any) -> Any:
    return lambda self, *others: operation(self.result(), *(_value(other) for other in others))


def _reflected(operation: Any) -> Any:
    return lambda self, other: operation(other, self.result())


for _name in "eq ne lt le gt ge contains getitem neg pos index".split():
    setattr(Use, f"__{_name}__", _stand_for(getattr(_operator, _name)))
for _name in "add sub mul truediv floordiv mod pow and_ or_".split():
    _operation = getattr(_operator, _name)
    setattr(Use, f"__{_name.rstrip('_')}__", _stand_for(_operation))
    setattr(Use, f"__r{_name.rstrip('_')}__", _reflected(_operation))
for _builtin in (len, iter, int, float, round, abs):
    setattr(Use, f"__{_builtin.__name__}__", _stand_for(_builtin))


class Tools:
    """The tools of this program: `tools.NAME(argument=value)`, `tools["odd-name"](…)`, `list(tools)`, `help(tools.NAME)`."""

    __slots__ = ("_attributes", "_entries", "_functions")

    def __init__(
        self, functions: dict[str, Any], attributes: dict[str, str], entries: dict[str, dict[str, Any]]
    ) -> None:
        self._functions, self._attributes, self._entries = functions, attributes, entries

    def __getattr__(self, name: str) -> Any:
        found = self._attributes.get(name)
        if found is None:
            have = ", ".join(self._attributes) or "none"
            raise AttributeError(f"there is no tool {name[:100]!r} in this program. Its tools: {have}.")
        return self._functions[found]

    def __getitem__(self, name: str) -> Any:
        try:
            return self._functions[name]
        except (KeyError, TypeError):
            raise KeyError(
                f"there is no tool {name!r:.100} in this program. Its tools: {', '.join(self._functions) or 'none'}."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __dir__(self) -> list[str]:
        return [*self._attributes]

    def __repr__(self) -> str:
        return "\n".join(f"tools.{_first_line(function)}" for function in self._functions.values())


def install(mailbox: UseMailbox, listing: dict[str, Any]) -> None:
    """Give the program these tools in place of earlier ones. `listing`: `tools`, each with name, attribute, signature, doc, returns
    and parameters (name, type, default or None if it is required); `fetch`: the name of the tool that fetches, or None."""
    functions, attributes = {}, {}
    for entry in listing["tools"]:
        functions[entry["name"]] = _function(mailbox, entry)
        if entry["attribute"]:
            attributes[entry["attribute"]] = entry["name"]
    tools = Tools(functions, attributes, {entry["name"]: entry for entry in listing["tools"]})
    if "inspect" in sys.modules:
        sign(sys.modules["inspect"], tools)
    names = vars(builtins)
    names["tools"], names["ToolError"] = tools, ToolError
    if listing.get("fetch"):
        names["fetch"] = _fetcher(mailbox, listing["fetch"])
    else:
        names.pop("fetch", None)


def sign(inspect: Any, tools: Any = None) -> None:
    """Give the functions the signatures of their tools, for `help` and `inspect.signature`. Called when `inspect` is there."""
    tools = vars(builtins).get("tools") if tools is None else tools
    if type(tools) is not Tools:
        return
    for name, function in tools._functions.items():
        try:  # noqa: SIM105 - contextlib is not loaded for this
            function.__signature__ = _signature(inspect, tools._entries[name])
        except Exception:  # noqa: S110 - a broken `inspect`, or a name that Python has for itself: the text of `help` has it
            pass


def _signature(inspect: Any, entry: dict[str, Any]) -> Any:
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    parameters = [
        inspect.Parameter(name, kind, default=empty if default is None else _Text(default), annotation=_Text(type_text))
        for name, type_text, default in entry["parameters"]
    ]
    return inspect.Signature(parameters, return_annotation=_Text(entry["returns"]))


class _Text(str):
    """Shown as it is, without quotes."""

    __slots__ = ()

    __repr__ = str.__str__


def remove() -> None:
    """The program has no tools any more."""
    for name in ("tools", "ToolError", "fetch"):
        vars(builtins).pop(name, None)


def _function(mailbox: UseMailbox, entry: dict[str, Any]) -> Any:
    name, order = entry["name"], entry["parameters"]

    def use(*values: Any, **arguments: Any) -> Any:
        if len(values) > len(order):
            raise TypeError(f"{entry['signature']} takes {len(order)} arguments in order, not {len(values)}.")
        for (parameter, _, _), value in zip(order, values, strict=False):
            if parameter in arguments:
                raise TypeError(f"{entry['signature']} got the argument {parameter!r} twice.")
            arguments[parameter] = value
        return _use(mailbox, name, arguments)

    use.__name__ = use.__qualname__ = entry["attribute"] or name
    use.__module__ = "tools"
    use.__doc__ = f"{entry['signature']}\n\n{entry['doc']}"
    return use


def _use(mailbox: UseMailbox, name: str, arguments: dict[str, Any]) -> Any:
    try:
        try:
            number = mailbox.post(name, arguments)
        except UseFailed as failed:
            if failed.code != "invalid_input":
                raise
            number = mailbox.post(name, _plain(arguments, 0))  # numbers and tables of numpy and pandas
    except UseFailed as failed:
        raise _error(name, failed.code, failed.message, failed.retryable) from None
    use = Use(mailbox, number, name)
    return use if _loop_runs() else use.result()


def _loop_runs() -> bool:
    """Does an event loop run in this thread? Where `asyncio` was not imported, none does."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio._get_running_loop() is not None
    except AttributeError:  # a program's own module of that name
        return False


def _plain(value: Any, depth: int) -> Any:
    """JSON values as they are; values of other libraries as the lists and numbers that they say they are."""
    if depth > _MAX_DEPTH:
        raise UseFailed("invalid_input", f"the arguments are nested deeper than {_MAX_DEPTH} levels.")
    if type(value) is Use:
        value = value.result()
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {key: _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each, depth + 1) for each in value]
    for method in ("tolist", "isoformat"):
        convert = getattr(type(value), method, None)
        if convert is not None:
            return _plain(convert(value), depth + 1)
    raise UseFailed("invalid_input", f"the arguments hold a {type(value).__name__}, which is not a JSON value.")


def _fetcher(mailbox: UseMailbox, name: str) -> Any:
    def fetch(
        url: str,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: str | None = None,
        json: Any = None,
    ) -> Any:
        """Fetch a URL of a host that this program may reach. Returns a response: status, headers, text, json(), content, ok.

        In async code: await fetch(url). Redirects are not followed: the response has the location. Raises ToolError.
        """
        given = {"url": url, "method": method, "headers": headers, "body": body, "json": json}
        got = _use(mailbox, name, {key: value for key, value in given.items() if value is not None})
        return _fetched(got) if type(got) is Use else Response(got)

    fetch.__module__ = "tools"
    return fetch


async def _fetched(use: Use) -> Response:
    return Response(await use)


def _error(tool: str, code: str, message: str, retryable: bool) -> ToolError:
    return ToolError(message, code=code, tool=tool, retryable=retryable)


def _first_line(function: Any) -> str:
    return str(function.__doc__).partition("\n")[0]
