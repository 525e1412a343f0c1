"""How a child finds a tool: by importing its module, never by unpickling it.

The tool of a script (`__main__`) is found by running the script's file again under another name, which is why such a
script needs its `if __name__ == "__main__":` guard.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.tools import CompletedTool, FunctionTool, Tool
from clicket.tools.deps import Factory
from clicket.tools.place import placed

__all__ = ["MAIN", "Target", "factories_for", "refuse_unguarded_main", "resolve", "resolve_factory", "target_of"]

MAIN = "__clicket_main__"
"""The name under which a tool process runs the file of the runtime's `__main__`."""

_loading_main = False


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool is: a module, the dotted name in it, and the file to load when the name alone would not find it."""

    module: str
    qualname: str
    file: str | None


def target_of(tool: Tool, isolation: str = "process") -> Target:
    """The target of a function tool, or a `UsageError` that says why a child process could not find it."""
    name = tool.name
    if not isinstance(tool, FunctionTool):
        kind = type(tool.given if isinstance(tool, CompletedTool) else tool).__name__
        raise UsageError(
            f"{name}: isolation={isolation!r} is for function tools made with @tool, not for {kind}. "
            "Leave isolation at 'auto', or call it from a function tool."
        )
    fn = tool.fn
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module or not qualname or "<" in qualname:
        raise UsageError(
            f"{name}: isolation={isolation!r} cannot find {qualname or fn!r} by importing its module. "
            "Define the tool with `def` at the top level of a module, not as a lambda or inside another function."
        )
    loaded = sys.modules.get(module)
    if loaded is None:
        raise UsageError(f"{name}: its module {module!r} is not imported under that name. Import it, do not exec it.")
    qualname = _name_in(loaded, qualname, tool)
    if qualname is None:
        raise UsageError(
            f"{name}: no name in module {module!r} is bound to this tool, so that a child process cannot find it. "
            f"Decorate the function with @tool, or assign the tool to a name at the top level of {module!r}."
        )
    if module != "__main__":
        return Target(module=module, qualname=qualname, file=_file_of(loaded))
    return _target_in_main(name, loaded, qualname, isolation)


def factories_for(tool: Tool, factories: Mapping[str, Factory]) -> dict[str, Target]:
    """Where a child process finds the factories of the deps that the tool may read. `UsageError`: it needs one that cannot be found."""
    traits = tool.traits
    found: dict[str, Target] = {}
    for name in factories if traits.wants_context and traits.any_dep else traits.deps:
        factory = factories.get(name)
        module, qualname = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
        loaded = sys.modules.get(module or "")
        if loaded is not None and qualname and _follow(loaded, qualname) is factory:
            if module == "__main__":
                found[name] = _target_in_main(f"the factory of the dep {name!r}", loaded, qualname, "process")
            else:
                found[name] = Target(module=str(module), qualname=qualname, file=_file_of(loaded))
        elif name in traits.deps and factory is not None:
            raise UsageError(
                f"{placed(f'tool {tool.name!r}', tool)}: it runs in another process, which cannot find the factory of the dep {name!r} "
                f"({factory!r:.100}) by importing its module. Define it with `def` at the top level of a module, not as a lambda or inside "
                "another function."
            )
    return found


def _target_in_main(name: str, main: ModuleType, qualname: str, isolation: str) -> Target:
    if main.__spec__ is not None and main.__spec__.name != "__main__":  # started with `python -m package.module`
        return Target(module=main.__spec__.name, qualname=qualname, file=_file_of(main))
    file = _file_of(main)
    if file is None:
        raise UsageError(
            f"{name}: isolation={isolation!r} needs a tool that lives in a file; this one was typed in or piped in. "
            "Move it to a module and import it."
        )
    return Target(module="__main__", qualname=qualname, file=file)


def _name_in(module: ModuleType, qualname: str, tool: Any) -> str | None:
    """The name of `tool` in its module: its function's name when that is bound to a tool, else any name bound to it."""
    found = _follow(module, qualname)
    if found is tool:
        return qualname
    for name, value in vars(module).items():
        if value is tool:
            return name
    return qualname if _is_tool(found) else None


def _file_of(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    return str(Path(file).absolute()) if file and Path(file).is_file() else None


def _follow(module: ModuleType, qualname: str) -> Any:
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _is_tool(found: Any) -> bool:
    return all(hasattr(found, name) for name in ("bind", "run", "is_async"))


# In the child --------------------------------------------------------------------------------------------------------


def resolve_factory(target: Target) -> Any:
    """The factory of a dep."""
    return _follow(_load(target), target.qualname)


@cache
def resolve(target: Target) -> Any:
    """The tool itself. Imported once per child: later calls in the same tool process see the same module and its state."""
    module = _load(target)
    found = _follow(module, target.qualname)
    if not _is_tool(found):
        raise UsageError(
            f"{target.module}.{target.qualname} is not a tool in the tool process. "
            "A tool with isolation='process' or 'ray' must be made by importing its module alone, without arguments or conditions."
        )
    return found


def _load(target: Target) -> ModuleType:
    if target.module == "__main__":
        assert target.file is not None
        return sys.modules.get(MAIN) or _run_main(target.file)
    if target.module in sys.modules or target.file is None or _importable(target.module, target.file):
        return importlib.import_module(target.module)
    # The runtime loaded this file under a name of its own choice (a plugin, a path on the command line): do the same.
    spec = importlib.util.spec_from_file_location(target.module, target.file)
    if spec is None or spec.loader is None:
        return importlib.import_module(target.module)
    module = importlib.util.module_from_spec(spec)
    sys.modules[target.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[target.module]
        raise
    return module


def _importable(module: str, file: str) -> bool:
    """Does the name resolve to the same file here as in the runtime?"""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None:
        return False
    return spec.origin == file or (Path(spec.origin).exists() and os.path.samefile(spec.origin, file))


def _run_main(file: str) -> ModuleType:
    global _loading_main
    code = compile(Path(file).read_bytes(), file, "exec")
    module = ModuleType(MAIN)
    module.__file__ = file
    sys.modules[MAIN] = module
    _loading_main = True
    try:
        exec(code, module.__dict__)  # noqa: S102 - the runtime's own script, which is running already
    except BaseException:
        del sys.modules[MAIN]
        raise
    finally:
        _loading_main = False
    return module


def refuse_unguarded_main() -> None:
    """Stop a script without a main guard from starting tool processes that start tool processes."""
    if _loading_main:
        raise UsageError(
            "a tool process runs this script's file again to find its tools, and the script starts a runtime while it "
            'does. Put the code that runs under `if __name__ == "__main__":`, or move the tools to a module.'
        )
