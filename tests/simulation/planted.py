"""Plants one mutant into a fresh interpreter: its modules are changed while they are imported. No file is written.

    python -m tests.simulation.planted "NAME" MODULE [ARGUMENT…]    run a module with the mutant planted
    python -m tests.simulation.planted --list                       print the table

The mutant is in this process, and in those that it forks. Programs that it starts anew run the product as it is.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, find_spec
from pathlib import Path
from types import CodeType, ModuleType

from tests.simulation.mutants import AREAS, MUTANTS, Change, Mutant

__all__ = ["DoesNotApply", "change_modules", "changed", "mutant_named", "plant", "product_folder"]

_PRODUCT = "clicket"


class DoesNotApply(Exception):
    """The text that a mutant replaces is not in its file exactly once."""


def changed(source: str, changes: Sequence[Change]) -> str:
    """A source with changes made in it, one after the other."""
    for change in changes:
        count = source.count(change.old)
        if count != 1:
            raise DoesNotApply(
                f"{change.file}: the text to replace is there {count} times, not once. The source has changed: write the mutant anew for "
                f"the code as it is now.\n{change.old}"
            )
        source = source.replace(change.old, change.new)
    return source


def product_folder() -> Path:
    """The folder of the package's source, found without importing it."""
    spec = find_spec(_PRODUCT)
    if spec is None or spec.origin is None:
        raise ImportError(f"{_PRODUCT} is not installed here. Use the environment of this checkout: .venv/bin/python.")
    return Path(spec.origin).parent


def by_file(mutant: Mutant) -> dict[str, list[Change]]:
    """The changes of each file."""
    files: dict[str, list[Change]] = {}
    for change in mutant.changes:
        files.setdefault(change.file, []).append(change)
    return files


def module_of(file: str) -> str:
    """The name of the module that a file of the package holds."""
    parts = file.removesuffix(".py").split("/")
    return ".".join([_PRODUCT, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def plant(mutant: Mutant) -> None:
    """Change the mutant's modules when they are imported. Raises `DoesNotApply`, or `RuntimeError` if one is imported already."""
    folder, modules = product_folder(), dict[str, list[Change]]()
    for file, changes in by_file(mutant).items():
        changed((folder / file).read_text(encoding="utf-8"), changes)
        modules[module_of(file)] = changes
    early = sorted(modules.keys() & sys.modules.keys())
    if early:
        raise RuntimeError(
            f"{', '.join(early)} is imported already: plant {mutant.name!r} before the first import of {_PRODUCT}."
        )
    change_modules({name: partial(changed, changes=changes) for name, changes in modules.items()})


def change_modules(modules: Mapping[str, Callable[[str], str]]) -> None:
    """By name: what becomes of a module's source when it is imported."""
    sys.meta_path.insert(0, _Planter(modules))


def mutant_named(name: str) -> Mutant:
    """Raises `KeyError` with the nearest names if there is none."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    near = difflib.get_close_matches(name, [mutant.name for mutant in MUTANTS], n=3, cutoff=0.4)
    raise KeyError(f"there is no mutant {name!r}. Near it: {'; '.join(near) or 'none'}. --list prints all.")


class _Planter(MetaPathFinder):
    def __init__(self, modules: Mapping[str, Callable[[str], str]]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._modules.get(fullname)
        if change is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.origin is not None:
                spec.loader = _ChangedFile(fullname, spec.origin, change)
                spec.cached = None
                return spec
        return None


class _ChangedFile(SourceFileLoader):
    """Compiles the changed text of a file. The cache of bytecode is neither read nor written: it has the product as it is."""

    def __init__(self, fullname: str, path: str, change: Callable[[str], str]) -> None:
        super().__init__(fullname, path)
        self._change = change

    def get_source(self, fullname: str) -> str:
        return self._change(decode_source(self.get_data(self.path)))

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_source(fullname).encode(), self.path)
        return code


def _print_table() -> None:
    for area in AREAS:
        for mutant in MUTANTS:
            if mutant.area == area:
                files = ", ".join(by_file(mutant))
                print(f"{mutant.area:<10} {mutant.name}\n{'':<11}{files}\n{'':<11}{mutant.breaks}")
    print(f"{len(MUTANTS)} mutants")


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--list"]:
        _print_table()
        return 0
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    name, module, *rest = arguments
    try:
        mutant = mutant_named(name)
    except KeyError as unknown:
        print(unknown.args[0], file=sys.stderr)
        return 2
    plant(mutant)
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
