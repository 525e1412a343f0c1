"""`python -m tests.simulation.reached --seeds 0:2000`: which seeds reach the place of each mutant, so that a hunt runs only those.

The product runs unchanged, with a probe at each place that a mutant changes. A probe of a changed expression fires when its value
differs from what the mutant would have there, if both can be computed without a side effect; any other one when the place is run. A seed
in which no probe of a mutant fires is, callback for callback, the seed of the unchanged product: to leave it out is exact. What was found
is kept in `.cache/reached`, for this source and this workload.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.simulation.mutants import MUTANTS
from tests.simulation.planted import by_file, change_modules, changed, module_of, product_folder

__all__ = ["FIRED", "kept", "probed"]

FIRED: set[int] = set()
"""Numbers of the mutants whose places the seed has reached. `run.outcome_of` empties it before each seed."""
_CACHE = Path(__file__).parents[2] / ".cache" / "reached"
_OBSERVERS = ("judging", "hunt", "reach", "test_", "timeline")
"""Files of the simulation that change nothing of a seed's order of events."""
_PURE = (
    ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.IfExp, ast.Subscript, ast.Slice, ast.Tuple,
    ast.List, ast.Set, ast.Dict, ast.Starred, ast.JoinedStr, ast.FormattedValue, ast.GeneratorExp, ast.ListComp, ast.comprehension,
    ast.keyword, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_PURE_CALLS = (
    "len", "max", "min", "any", "all", "isinstance", "getattr", "get",
    "asked_for_input", "cost_in", "deaths_of", "doubt_of", "fit_schema", "fits", "process_gone", "retries_of",  # of the product
)  # fmt: skip


def fired(number: int) -> None:
    FIRED.add(number)


def differs(number: int, value: Any, other: Callable[[], Any], of_truth: bool) -> Any:
    """The value, whatever the mutant would have in its place."""
    if number not in FIRED:
        try:
            mutant = other()
            same = bool(value) is bool(mutant) if of_truth else type(value) is type(mutant) and value == mutant
        except Exception:
            same = False
        if not same:
            FIRED.add(number)
    return value


class _Probes(ast.NodeTransformer):
    """Probes of one file. Places are found by comparing its tree with that of each mutant, before any probe is put in."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._around: defaultdict[int, list[Callable[[ast.expr], ast.expr]]] = defaultdict(list)
        self._before: defaultdict[int, list[ast.stmt]] = defaultdict(list)
        self._after: defaultdict[int, list[ast.stmt]] = defaultdict(list)

    def add(self, number: int, mutant: ast.Module) -> None:
        self._statements(number, self.tree.body, mutant.body, self.tree)

    # Where two trees differ.

    def _statements(self, number: int, old: list[ast.stmt], new: list[ast.stmt], owner: ast.AST) -> None:
        first = _common(old, new)
        last = _common(old[first:][::-1], new[first:][::-1])
        before, after = old[first : len(old) - last], new[first : len(new) - last]
        if len(before) == len(after) and all(
            type(one) is type(other) for one, other in zip(before, after, strict=True)
        ):
            for at, (one, other) in enumerate(zip(before, after, strict=True)):
                runs_later = not isinstance(owner, ast.Module) or isinstance(
                    one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                )
                if not (_equal(one, other) or (runs_later and self._within(number, one, other))):
                    self._place(number, old, first + at, [one], [other], owner)
        else:
            self._place(number, old, first, before, after, owner)

    def _place(
        self, number: int, old: list[ast.stmt], at: int, before: list[ast.stmt], after: list[ast.stmt], owner: ast.AST
    ) -> None:
        changes = [*before, *after]
        if isinstance(owner, ast.Module):  # wherever it is used
            found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
            inside = {id(node) for each in before for node in ast.walk(each)}
            names = {node.id for node in found if id(node) in inside and isinstance(node.ctx, ast.Store)}
            for node in found:
                if node.id in names and isinstance(node.ctx, ast.Load):
                    self._mark_around(number, node)
        elif (
            len(changes) == 1 and isinstance(branch := changes[0], ast.If) and not branch.orelse and _pure(branch.test)
        ):
            if before:  # without its test it would do what it does if that is false
                self._before[id(branch.body[0])].append(_mark(number))
            else:
                self._put(old, at, ast.If(branch.test, [_mark(number)], []), owner)
        else:
            self._put(old, at, _mark(number), owner)

    def _put(self, old: list[ast.stmt], at: int, probe: ast.stmt, owner: ast.AST) -> None:
        if at < len(old):
            self._before[id(old[at])].append(probe)
        elif old:
            self._after[id(old[-1])].append(probe)
        else:  # the branch is new
            self._before[id(owner)].append(probe)

    def _within(self, number: int, old: ast.AST, new: ast.AST, *, of_truth: bool = False) -> bool:
        """Put a probe somewhere in this node. False: its place is the node itself."""
        names = [name for name in old._fields if not _equal(getattr(old, name), getattr(new, name))]
        if len(names) != 1:
            return False
        name, one, other = names[0], getattr(old, names[0]), getattr(new, names[0])
        if isinstance(old, ast.BoolOp) and name == "values":
            return self._operands(number, old, one, other, of_truth=of_truth)
        if isinstance(one, list) and name in ("body", "orelse", "finalbody") and not isinstance(old, ast.Lambda):
            self._statements(number, one, other, old)
            return True
        if isinstance(one, list) and len(one) == len(other):
            pairs = [pair for pair in zip(one, other, strict=True) if not _equal(*pair)]
            return len(pairs) == 1 and self._node(number, *pairs[0], of_truth=False)
        truth = name == "test" or (isinstance(old, ast.UnaryOp) and isinstance(old.op, ast.Not))
        return (
            isinstance(one, ast.AST) and isinstance(other, ast.AST) and self._node(number, one, other, of_truth=truth)
        )

    def _node(self, number: int, old: ast.AST, new: ast.AST, *, of_truth: bool) -> bool:
        if type(old) is type(new) and self._within(number, old, new, of_truth=of_truth):
            return True
        if (
            not isinstance(old, ast.expr)
            or not isinstance(new, ast.expr)
            or isinstance(getattr(old, "ctx", None), ast.Store)
        ):
            return False
        if isinstance(old, ast.Starred):
            return False
        self._compare_around(number, old, new, of_truth=of_truth)
        return True

    def _operands(
        self, number: int, owner: ast.BoolOp, old: list[ast.expr], new: list[ast.expr], *, of_truth: bool
    ) -> bool:
        first = _common(old, new)
        last = _common(old[first:][::-1], new[first:][::-1])
        before, after = old[first : len(old) - last], new[first : len(new) - last]
        if len(before) != 1 or not (last or of_truth) or all(map(_pure, (*old, *new))):
            return False
        neutral: ast.expr = ast.Constant(isinstance(owner.op, ast.And))
        other = neutral if not after else after[0] if len(after) == 1 else ast.BoolOp(owner.op, after)
        return self._node(number, before[0], other, of_truth=True)

    # Probes.

    def _compare_around(self, number: int, old: ast.expr, new: ast.expr, *, of_truth: bool) -> None:
        if not (_pure(old) and _pure(new)):
            self._mark_around(number, old)
            return
        no_arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        self._around[id(old)].append(
            lambda inner: ast.Call(
                ast.Name("_differs", ast.Load()),
                [ast.Constant(number), inner, ast.Lambda(no_arguments, new), ast.Constant(of_truth)],
                [],
            )
        )

    def _mark_around(self, number: int, old: ast.expr) -> None:
        call = _mark(number).value
        self._around[id(old)].append(lambda inner: ast.BoolOp(ast.Or(), [call, inner]))

    def visit(self, node: ast.AST) -> Any:
        name = id(node)
        made = self.generic_visit(node)
        for wrap in self._around.get(name, ()):
            made = wrap(made)  # type: ignore[arg-type]
        if name in self._before or name in self._after:
            return [*self._before[name], made, *self._after[name]]
        return made


def _parsed(source: str) -> ast.Module:
    """With the text of each statement, which is faster to compare than the statement."""
    tree, lines = ast.parse(source), source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            node.text = lines[first - 1 : node.end_lineno]  # type: ignore[attr-defined]
    return tree


def _mark(number: int) -> ast.Expr:
    return ast.Expr(ast.Call(ast.Name("_fired", ast.Load()), [ast.Constant(number)], []))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, ast.stmt) and isinstance(other, ast.stmt):
        return bool(one.text == other.text)  # type: ignore[attr-defined]
    if isinstance(one, ast.AST) and isinstance(other, ast.AST):
        return ast.dump(one) == ast.dump(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _common(old: Sequence[ast.AST], new: Sequence[ast.AST]) -> int:
    """How many nodes at the beginning are the same."""
    return next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if not _equal(*pair)), min(len(old), len(new))
    )


def _pure(node: ast.expr) -> bool:
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    names = (getattr(each.func, "id", getattr(each.func, "attr", "")) for each in calls)
    return all(name in _PURE_CALLS for name in names) and all(
        isinstance(each, (*_PURE, ast.Call)) for each in ast.walk(node)
    )


def probed(source: str, mutants: Sequence[tuple[int, str]]) -> str:
    """A source with probes. `mutants`: their numbers, and the source that each has in its place."""
    probes = _Probes(_parsed(source))
    for number, other in mutants:
        probes.add(number, _parsed(other))
    tree = ast.fix_missing_locations(probes.visit(probes.tree))
    at = 1 + max(
        place
        for place, each in enumerate(tree.body)
        if isinstance(each, ast.ImportFrom) and each.module == "__future__"
    )
    tree.body[at:at] = ast.parse("from tests.simulation.reached import differs as _differs, fired as _fired").body
    return ast.unparse(tree)


def put_probes() -> None:
    """Into the product, before its first import."""
    files: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, mutant in enumerate(MUTANTS):
        for file, changes in by_file(mutant).items():
            source = (product_folder() / file).read_text("utf-8")
            files[file].append((number, changed(source, changes)))
    change_modules({module_of(file): lambda source, of=of: probed(source, of) for file, of in files.items()})  # type: ignore[misc]


# What is known.


def _file(store: str) -> Path:
    """Named after everything that decides what happens in a seed."""
    folder, here = product_folder(), Path(__file__).parent
    sources = [
        *sorted(folder.rglob("*.py")),
        *(each for each in sorted(here.glob("*.py")) if not each.name.startswith(_OBSERVERS)),
    ]
    sums = hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in sources))
    return _CACHE / f"{store or 'any'}-{sums.hexdigest()[:16]}.jsonl"


def kept(store: str = "") -> dict[int, list[str]]:
    """Of each seed that was run: the mutants whose places it reaches."""
    path = _file(store)
    return dict(map(json.loads, path.read_text("utf-8").splitlines())) if path.exists() else {}


def look(seeds: Sequence[int], jobs: int, store: str) -> Iterator[int]:
    """Run those that are not known yet. Yields how many are left."""
    put_probes()
    places = import_module("tests.simulation.places")  # the first import of the product
    run_seeds = import_module("tests.simulation.run").run_seeds
    places.only[:] = [store] if store else []
    path, known = _file(store), kept(store)
    path.parent.mkdir(parents=True, exist_ok=True)
    left = [seed for seed in seeds if seed not in known]
    with path.open("a", encoding="utf-8") as file:
        for number, outcome in enumerate(run_seeds(left, jobs)):
            file.write(json.dumps([outcome.seed, [MUTANTS[each].name for each in outcome.reached]]) + "\n")
            file.flush()
            if outcome.problems:
                print(f"seed {outcome.seed}: {outcome.problems[:2]}", file=sys.stderr)
            yield len(left) - number - 1


def main(given: Sequence[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000", help="FIRST:END")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--store", default="", help="of every seed, as of `run`")
    options = parser.parse_args(given)
    first, _, end = options.seeds.partition(":")
    for _ in look(range(int(first), int(end)), options.jobs, options.store):
        pass
    known = kept(options.store)
    for mutant in MUTANTS:
        seeds = sorted(seed for seed, names in known.items() if mutant.name in names)
        print(f"{len(seeds):>5} {seeds[0] if seeds else '':>5} {mutant.area:<12} {mutant.name}")


if __name__ == "__main__":
    from tests.simulation import reached  # the one of which the probes know

    reached.main(sys.argv[1:])
