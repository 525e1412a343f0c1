"""Finds tools: those of `--tools` if it is given, else those of the settings and of the entry points of installed packages."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clicket.errors import UsageError, did_you_mean
from clicket.runtime.settings import Settings
from clicket.tools import BasicTool, CompletedTool, FunctionTool, NativeTool, Tool, as_tool
from clicket.tools.place import file_and_line, is_users

if TYPE_CHECKING:
    from clicket.search.tool.options import Setup

__all__ = ["GROUP", "find_named", "find_tools", "load", "module_of", "search_setup"]

GROUP = "clicket.tools"
_SYNTAX = "Write --tools module:name, where the module is here or installed."
_appended: list[str] = []
"""Folders that were appended to the import path for `--tools`. Installed packages come first, so that no file in these folders
replaces one of them; plug-ins in these folders are ignored."""


def find_tools(settings: Settings, *, warn: Callable[[str], None]) -> list[Any]:
    """The tools of this command line. A plug-in that cannot be loaded is a warning: it must not disable other tools."""
    found: dict[str, Tool] = {}
    for spec in settings.tools:
        _add(found, load(spec), spec)
    if settings.interpreter is not None:  # an empty section counts
        _configure_interpreter(found, settings)
    if settings.search is not None:
        _configure_search(found, settings)
    if settings.origins.get("tools") != "argument":
        for point in _plugins():
            try:
                tools = list(_tools_in(point.load(), point.name))
            except Exception as error:
                warn(f"the tools of {point.value} could not be loaded: {type(error).__name__}: {error}")
                continue
            _add(found, tools, point.value)
    return list(found.values())


def _configure_interpreter(found: dict[str, Tool], settings: Settings) -> None:
    """`[interpreter]` adds the tool. With `--tools` it only configures the tool, if `--tools` names it."""
    from clicket.interpreter.tool.options import parse_options
    from clicket.interpreter.tool.tool import CodeInterpreter, code_interpreter

    where = f"[interpreter] of {settings.origins.get('interpreter', 'Settings')}"
    made = CodeInterpreter(parse_options(settings.values["interpreter"], where=where))
    if settings.origins.get("tools") != "argument" or found.get(code_interpreter.name) is code_interpreter:
        found.pop(code_interpreter.name, None)
        _add(found, [made], where)


def _configure_search(found: dict[str, Tool], settings: Settings) -> None:
    """`[search]` adds the tool, as `[interpreter]` does."""
    from clicket.search.tool.tool import DeepSearch, deep_search

    if settings.origins.get("tools") != "argument" or found.get(deep_search.name) is deep_search:
        found.pop(deep_search.name, None)
        _add(found, [DeepSearch(search_setup(settings))], _search_section(settings))


def search_setup(settings: Settings, **given: Any) -> Setup:
    """The validated options of `[search]`, with `given` in their place. Declared engines and models are made."""
    from clicket.search.tool.options import Makers, setup_of

    makers = Makers(engine=_search_backend, model=_model_of)
    replaced = {*given, *(("engine",) if "engines" in given else ())}  # `engines` replaces `engine`, too
    kept = {name: value for name, value in settings.values.get("search", {}).items() if name not in replaced}
    return setup_of(given, setup_of(kept, where=_search_section(settings), makers=makers), "clicket search", makers)


def _search_section(settings: Settings) -> str:
    return f"[search] of {settings.origins.get('search', 'Settings')}"


def _search_backend(declared: Any) -> Any:
    from clicket.search.web import engine_of

    return engine_of({"kind": declared} if isinstance(declared, str) else declared)


def _model_of(declared: Any) -> Any:
    from clicket.models import model_of

    return model_of(declared)


def load(spec: str) -> list[Tool]:
    """The tools of `module`, `module:name` or `folder/file.py:name`."""
    module_name, _, attribute = spec.partition(":")
    if not module_name:
        raise UsageError(f"{spec!r} names no module. {_SYNTAX}")
    module = _import(module_name, spec)
    if not attribute:
        tools = list(_tools_in(module, spec))
        if not tools:
            raise UsageError(
                f"{spec}: there are no tools in module {module.__name__!r}. Decorate a function with @clicket.tool."
                f"{_shadowed(module)}"
            )
        return tools
    return list(_tools_in(_attribute(module, attribute, spec), spec))


def find_named(named: str, where: str) -> Any:
    """What `module:name` or `folder/file.py:name` names. `where`: the setting that says so."""
    module_name, _, attribute = named.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{where}: write module:name, where the module is here or installed.")
    return _attribute(_import(module_name, where), attribute, where)


def module_of(spec: str) -> ModuleType:
    """The module `module` or `folder/file.py`."""
    return _import(spec, spec)


def _attribute(module: ModuleType, attribute: str, spec: str) -> Any:
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = did_you_mean(part, [name for name in vars(module) if not name.startswith("_")])
            raise UsageError(f"{spec}: module {module.__name__!r} has no {attribute!r}.{near}{_shadowed(module)}")
        value = getattr(value, part)
    return value


def _plugins() -> Iterator[EntryPoint]:
    """The entry points of installed packages, without duplicates."""
    path = [entry for entry in sys.path if entry not in _appended]
    seen: set[EntryPoint] = set()
    for distribution in distributions(path=path):
        for point in distribution.entry_points:
            if point.group == GROUP and point not in seen:
                seen.add(point)
                yield point


def _import(name: str, spec: str) -> ModuleType:
    _append_to_path(os.getcwd())  # most tools are in the working directory
    if name.endswith(".py"):
        file = Path(name)
        if not file.is_file():
            raise UsageError(f"{spec}: there is no file {name!r}.")
        _append_to_path(str(file.absolute().parent))
        name = file.stem
        _refuse_shadowed(name, file, spec)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _import_error(spec, error) from error
        near = did_you_mean(name, [path.stem for path in Path(os.getcwd()).glob("*.py")])
        raise UsageError(f"{spec}: there is no module {name!r}.{near} {_SYNTAX}") from None
    except Exception as error:
        raise _import_error(spec, error) from error


def _append_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)
        _appended.append(folder)


def _refuse_shadowed(name: str, file: Path, spec: str) -> None:
    """A file with the name of another module could not be imported by name, here or in a child process."""
    try:
        found = find_spec(name) if "." not in name else None
        origin = found.origin if found is not None else None
    except ValueError:  # a module without a spec, like the running program
        origin = name
    if origin is not None and not (os.path.exists(origin) and file.samefile(origin)):
        raise UsageError(f"{spec}: another module has the name {name!r} ({origin}). Give the file another name.")


def _shadowed(module: ModuleType) -> str:
    """A hint when an installed module hides a file of the same name in this folder."""
    here = Path(f"{module.__name__}.py")
    found = getattr(module, "__file__", None) or "built in"
    if not here.is_file() or (os.path.exists(found) and here.samefile(found)):
        return ""
    return f" The module is {found}, which comes before {here} in this folder; give {here} another name."


def _import_error(spec: str, error: BaseException) -> UsageError:
    """The error with the line of the user's file, so that no traceback is needed."""
    frames = [file_and_line(each.filename, each.lineno or 0) for each in _frames(error)]
    place = f" ({frames[-1]})" if frames and frames[-1] not in str(error) else ""
    if isinstance(error, UsageError):
        return UsageError(f"{spec}{place}: {error.message}")
    text = error.msg if isinstance(error, SyntaxError) else error
    return UsageError(
        f"{spec}: importing it failed: {type(error).__name__}: {text}{place}. Correct the module, then try again."
    )


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the user's files, else all frames."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return [traceback.FrameSummary(error.filename, error.lineno, "", lookup_line=False)]
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename]
    return [each for each in frames if is_users(each.filename)] or frames


def _tools_in(value: Any, spec: str) -> Iterator[Tool]:
    """The tools of a tool, a collection or a module."""
    if inspect.ismodule(value):
        yield from (as_tool(each) for each in (*vars(value).values(), *_lazy_values(value)) if _is_tool(each))
    elif isinstance(value, Mapping):
        yield from (as_tool(each) for each in value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (as_tool(each) for each in value)
    elif isinstance(value, str | bytes | int | float | None):
        raise UsageError(f"{spec}: a {type(value).__name__} is not a tool. Name a function, a tool or a list of tools.")
    else:
        yield as_tool(value)


def _lazy_values(module: ModuleType) -> Iterator[Any]:
    """The values of a module that it imports lazily, without those whose package is not installed."""
    for name in getattr(module, "__all__", ()):
        if name in vars(module):
            continue
        try:
            value = getattr(module, name)
        except ImportError:
            continue
        yield value


def _is_tool(value: Any) -> bool:
    """Is it declared as a tool? Plain functions are tools only if they are named."""
    if isinstance(value, type):
        return issubclass(value, NativeTool) and value is not NativeTool
    return isinstance(value, BasicTool | NativeTool)


def _add(found: dict[str, Tool], tools: Iterable[Tool], spec: str) -> None:
    for tool in tools:
        known = found.setdefault(tool.name, tool)
        if _origin(known) is not _origin(tool):
            raise UsageError(
                f"{spec}: there are two tools named {tool.name!r}; give one of them another name with @tool(name=…)."
            )


def _origin(tool: Tool) -> object:
    """The function or object of the tool: the same one may be found under several names."""
    if isinstance(tool, FunctionTool):
        return tool.fn
    return tool.given if isinstance(tool, CompletedTool) else tool
