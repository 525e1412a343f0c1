"""Counts the collaborators of each part of the engine, the stores and the server, and prints the parts with more than 8.

    python scripts/collaborators.py            # the working tree
    python scripts/collaborators.py REVISION   # a revision of git

A part is a class with an `__init__` of its own; exceptions are left out. A collaborator is a parameter whose annotation names a class of
clicket, or a function: an object that the part works with. Numbers, texts, paths and collections of them are no collaborators, nor are
the options that users give (`Limits`, `Retention`).

`given` is the number of such parameters. `taken` counts in place of a `Core`, the value that carries what the parts of the engine share,
each collaborator that the class takes out of it, so that nothing is hidden there.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MOST = 8
FOLDERS = {
    "engine": ("engine", "journal", "pipeline", "execution", "hub", "spend"),
    "stores": ("stores", "notices"),
    "server": ("server",),
}
"""Today's folders, and what they were called before."""
FUNCTIONS = {"Callable", "Awaitable", "Coroutine"}
CARRIER = "Core"
OPTIONS = {"Limits", "Retention"}


class Part(NamedTuple):
    place: str
    name: str
    given: int
    taken: int


def main() -> None:
    revision = sys.argv[1] if len(sys.argv) > 1 else ""
    trees = {path: ast.parse(text) for path, text in (_of_revision(revision) if revision else _of_files())}
    classes = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    aliases = {
        target.id
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign) and _names(node.value) & FUNCTIONS
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    ours = (classes | aliases | FUNCTIONS) - OPTIONS
    carried = {
        each.target.id
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == CARRIER
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and _names(each.annotation) & ours
    }
    parts = [part for path, tree in trees.items() for part in _parts(path, tree, ours, carried)]
    many = sorted((part for part in parts if part.taken > MOST or part.given > MOST), key=lambda part: -part.taken)
    width = max((len(part.name) for part in many), default=0)
    for part in many:
        print(f"{part.name:{width}}  given {part.given:2}  taken {part.taken:2}  {part.place}")
    given, taken = (sum(getattr(part, name) > MOST for part in parts) for name in ("given", "taken"))
    print(
        f"{revision or 'working tree'}: {len(parts)} parts; more than {MOST} collaborators: {given} given, {taken} taken."
    )


def _of_files() -> Iterator[tuple[str, str]]:
    folder = ROOT / "src" / "clicket"
    for file in sorted(folder.rglob("*.py")):
        yield file.relative_to(folder).as_posix(), file.read_text("utf-8")


def _of_revision(revision: str) -> Iterator[tuple[str, str]]:
    command = ["git", "-C", str(ROOT), "archive", revision, "src/clicket"]
    found = subprocess.run(command, capture_output=True, check=False)
    if found.returncode:
        raise SystemExit(f"{revision}: git cannot read it here: {found.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                yield member.name.removeprefix("src/clicket/"), file.read().decode()


def _parts(path: str, tree: ast.Module, ours: set[str], carried: set[str]) -> Iterator[Part]:
    if not any(path.startswith(f"{folder}/") for folders in FOLDERS.values() for folder in folders):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__" and not _is_exception(node):
                arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs][1:]
                found = [each for each in arguments if each.annotation is not None and _names(each.annotation) & ours]
                carriers = [each.arg for each in found if each.annotation and CARRIER in _names(each.annotation)]
                taken = len(found) - len(carriers) + sum(len(_taken(node, method, name) & carried) for name in carriers)
                yield Part(f"{path}:{node.lineno}", node.name, len(found), taken)


def _taken(node: ast.ClassDef, method: ast.FunctionDef, carrier: str) -> set[str]:
    """What a class takes out of a carrier: `core.journal`, and `self._core.journal` if it keeps the carrier."""
    kept = {
        target.attr
        for each in ast.walk(method)
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) and each.value.id == carrier
        for target in each.targets
        if isinstance(target, ast.Attribute)
    }
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and (
            (isinstance(each.value, ast.Name) and each.value.id == carrier)
            or (isinstance(each.value, ast.Attribute) and each.value.attr in kept)
        )
    }


def _names(annotation: ast.expr) -> set[str]:
    names = {each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)}
    quoted = {
        each.value for each in ast.walk(annotation) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    return names | {
        name for text in quoted for name in text.replace("|", " ").replace("[", " ").replace("]", " ").split()
    }


def _is_exception(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)


if __name__ == "__main__":
    main()
