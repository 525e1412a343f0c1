"""The options of the tool `code_interpreter`, as Python or `[interpreter]` of a settings file gives them, checked in one place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.interpreter.interpreter import Interpreter, check_seconds
from clicket.interpreter.sandbox import Limits, size_of
from clicket.interpreter.setup.session_factory import SessionFactory, limits_of
from clicket.interpreter.tool.fetch import Egress
from clicket.interpreter.tool.pool import StartSession
from clicket.model.tool_tables import InterpreterTable
from clicket.system.bridge import ThreadPool
from clicket.tools import as_tool

__all__ = ["InterpreterOptions", "parse_options"]

_DESCRIPTION = (
    "Run Python code in a sandbox without network{}. Give Markdown with fenced python blocks, or bare code. {} The value of a "
    "block's last expression, everything printed, figures, tables, and files written to the current folder are returned."
)
_KEPT = {
    "thread": "What one call defines is there in the next of the same conversation.",
    "call": "Each call starts afresh: nothing that another one defined, and none of its files, is there.",
}


class InterpreterOptions(InterpreterTable, frozen=True, kw_only=True):
    """Times are seconds; sizes are bytes, or text like `512MiB`. `tools` may be tools, too, which are registered with this one."""

    limits: Limits | None = None  # type: ignore[assignment]  # made of the table
    tools: tuple[Any, ...] = ()

    def description_text(self) -> str:
        if self.description is not None:
            return self.description
        return _DESCRIPTION.format(" but for `fetch`" if self.egress else "", _KEPT[self.session])

    @property
    def uses_tools(self) -> bool:
        return bool(self.tools or self.egress)

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(each if isinstance(each, str) else each.name for each in self.tools)

    @property
    def fetch_name(self) -> str:
        """The name of the tool that fetches for programs; empty: they may reach no host."""
        return f"{self.name}_fetch" if self.egress else ""

    def tool_options(self) -> dict[str, Any]:
        """A program runs again after a crash of the host: it has no effect outside of its sandbox but its uses of tools, and finished
        ones are not repeated. A failed one is not retried."""
        own = {"timeout": self.call_timeout, "max_retries": 0, "recovery": "rerun", "cache": self.cache}
        return {**own, **self.options}

    def factory(self) -> SessionFactory:
        return SessionFactory(
            require=self.require,
            limits=limits_of(self.limits, self.memory),
            python=self.python,
            without=self.without,
            packages=self.packages,
            wheels=self.wheels,
            install=self.install,
            preload=self.preload,
            grace=self.grace,
            max_output=self.max_output,
            kept_output=self.kept_output,
        )

    def interpreter(self, start: StartSession, thread_pool: ThreadPool) -> Interpreter:
        return Interpreter(
            require=self.require,
            timeout=self.timeout,
            max_steps=self.max_steps,
            grace=self.grace,
            limits=limits_of(self.limits, self.memory),
            max_output=self.max_output,
            files=None if self.files is None else Path(self.files),
            max_files=self.max_files,
            max_files_size=self.max_files_size,
            idle_after=None,
            start=start,
            thread_pool=thread_pool,
        )


_TYPES = {field.name: field.type for field in msgspec.structs.fields(InterpreterOptions)}


def parse_options(
    given: Mapping[str, Any], base: InterpreterOptions | None = None, where: str = "code_interpreter"
) -> InterpreterOptions:
    """`base` with these values. Raises `UsageError` with the name of the first wrong option."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _TYPES:
            raise UsageError(
                f"{where}: unknown option {name!r}.{did_you_mean(name, _TYPES)} Known: {', '.join(_TYPES)}."
            )
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value
        if name == "tools":
            plain = _tools_of(value, where)
        elif isinstance(plain, set | frozenset):
            plain = sorted(plain)
        if name == "limits" and isinstance(plain, Mapping):
            plain = {
                key: size_of(size, f"limits.{key}") if isinstance(size, str) else size for key, size in plain.items()
            }
        try:
            values[name] = msgspec.convert(plain, _TYPES[name])
        except msgspec.ValidationError as error:
            raise UsageError(f"{where}: {name} = {value!r} does not fit: {str(error).rstrip('.')}.") from None
    setup = msgspec.structs.replace(base or InterpreterOptions(), **values)
    if setup.max_sessions < 1 or setup.max_steps < 1:
        raise UsageError(f"{where}: max_sessions and max_steps must be at least 1.")
    _check_uses(setup, where)
    try:  # an interpreter is made once, so that wrong values are reported now and not at the first call
        check_seconds(idle_after=setup.idle_after, max_use_wait=setup.max_use_wait)
        setup.interpreter(setup.factory(), ThreadPool(1, "unused"))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return setup


def _tools_of(given: Any, where: str) -> list[Any]:
    """Names as they are; what can be registered as a tool, as a tool."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UsageError(f"{where}: tools is a list of names or tools, as in tools=['price'], not {given!r:.60}.")
    return [each if isinstance(each, str) else as_tool(each) for each in given]


def _check_uses(setup: InterpreterOptions, where: str) -> None:
    if setup.max_uses < 1 or setup.max_uses_at_once < 1:
        raise UsageError(f"{where}: max_uses and max_uses_at_once must be at least 1.")
    if setup.name in setup.tool_names:
        raise UsageError(f"{where}: a program cannot use {setup.name!r}, which runs it. Take it out of tools.")
    for host in setup.egress:
        Egress.parse(host)
    if setup.uses_tools and setup.cache:
        raise UsageError(
            f"{where}: results of programs that use tools are not cached. Leave out cache, or tools and egress."
        )
