"""Import cycles between the modules of a package, including imports inside functions and typing guards."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path


@cache
def parsed(text: str) -> ast.Module:
    """Parsed once for all tests that read the package's source.

    Without the garbage collector: if it logs the traceback of a lost task meanwhile, `traceback` parses too, and CPython 3.11
    then raises `SystemError: AST constructor recursion depth mismatch`.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a source, in the order of `ast.walk`, which takes twice as long."""
    found: list[ast.AST] = [parsed(text)]
    for node in found:  # which grows meanwhile
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [child for child in value if isinstance(child, ast.AST)]
    return tuple(found)


def import_graph(package: Path) -> dict[str, set[str]]:
    """Each module of the package with the modules of it that it imports, by their dotted names.

    `from a.b import c` is an import of the module `a.b.c` if there is one, else of `a.b`. Python also runs the package
    `a` before `a.b`; this does not count, else each module would be in a cycle with every package that lists its names.
    """
    files = {_name(path, package): path for path in package.rglob("*.py")}
    return {name: _imported(path, name, files.keys()) - {name} for name, path in files.items()}


def circles(graph: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: set[frozenset[str]] = set()
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_.append(root)
        path = [(root, iter(graph[root]))]
        while path:
            node, rest = path[-1]
            for near in rest:
                if near not in index:
                    index[near] = low[near] = len(index)
                    open_.append(near)
                    path.append((near, iter(graph[near])))
                    break
                if near in open_:
                    low[node] = min(low[node], index[near])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = open_.index(node)
                    if len(component := frozenset(open_[cut:])) > 1:
                        found.add(component)
                    del open_[cut:]
    return found


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, name: str, modules: Iterable[str]) -> set[str]:
    home = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in nodes_of(path.read_text("utf-8")):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = home.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(part for part in (above, node.module) if part)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in modules else base)
    return found & set(modules)
