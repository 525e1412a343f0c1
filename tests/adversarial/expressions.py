"""Every regular expression of the package, found in its source, and hard texts for each, derived from its structure.

A search is quadratic when many places of a text each start a match that fails far away. The parts of such a text are known: they
are texts that fit a part of the expression. So each expression is parsed, and the texts that fit its beginnings and its repeated
parts are repeated, alone and in pairs, between a beginning and an end that fit or do not.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the parser of `re` has no public name
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import clicket

ROOT = Path(clicket.__file__).parent
METHODS = frozenset({"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
_SCANS = METHODS - {"match", "fullmatch"}
_USE = re.compile(rf"(?<![\w.])(\w+)\.({'|'.join(sorted(METHODS))})\b")
_MAYBE = re.compile(rf"\bre\s*\.\s*(?:compile|{'|'.join(sorted(METHODS))})\b|\bpattern\s*=")
_MOST = 14


@dataclass(frozen=True)
class Expression:
    """One `re.compile`, or one `re.sub` and the like with its expression in place."""

    where: str
    """`search/text/names.py:_QUOTED`, or with the line's own text instead of a name."""
    pattern: re.Pattern[Any] | None
    """None: it is built at run time."""
    methods: frozenset[str] = field(default=frozenset())

    @property
    def scans(self) -> bool:
        """Is it tried at every place of a text, or only at its start?"""
        return bool(self.methods & _SCANS) or not self.methods


@cache
def expressions() -> tuple[Expression, ...]:
    """All expressions, in the order of files and lines. Files without any are not parsed."""
    sources = {path: path.read_text() for path in sorted(ROOT.rglob("*.py"))}
    public = _methods_by_name(sources.values())
    return tuple(
        found for path, source in sources.items() if _MAYBE.search(source) for found in _in_module(path, source, public)
    )


def _methods_by_name(sources: Iterable[str]) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for source in sources:
        for name, method in _USE.findall(source):
            used.setdefault(name, set()).add(method)
    return used


def _in_module(path: Path, source: str, public: dict[str, set[str]]) -> Iterator[Expression]:
    tree = ast.parse(source)
    calls, names = [], {}
    for statement in tree.body:
        target = _target(statement)
        for node in ast.walk(statement):
            if _is_expression(node):
                calls.append(node)
                names[id(node)] = target
    if not calls:
        return
    own = _methods_by_name([source])
    relative = path.relative_to(ROOT)
    module = importlib.import_module(".".join(("clicket", *relative.with_suffix("").parts)).removesuffix(".__init__"))
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = names[id(call)] or ""
        given = next((word.value for word in call.keywords if _is_text_pattern(word)), None)
        if given is not None:
            pattern = re.compile(eval(compile(ast.Expression(given), "<source>", "eval"), vars(module)))
            yield Expression(f"{relative}:{ast.unparse(given)[:60]}", pattern, frozenset({"search"}))
            continue
        method = call.func.attr
        found = _pattern(call, module)
        where = f"{relative}:{name}" if name else f"{relative}:{ast.unparse(call)[:60]}"
        used = own if name.startswith("_") else public
        methods = used.get(name, set()) if method == "compile" else {method}
        yield Expression(where, found, frozenset(methods))


def _is_expression(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in METHODS | {"compile"}
    ) or (isinstance(node, ast.Call) and any(_is_text_pattern(word) for word in node.keywords))


def _is_text_pattern(word: ast.keyword) -> bool:
    """`Meta(pattern="…")` and the like, with which msgspec and our query parameters search."""
    return word.arg == "pattern" and not isinstance(word.value, ast.Attribute | ast.Name)


def _target(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None


def _pattern(call: ast.Call, module: Any) -> re.Pattern[Any] | None:
    at = 1 if call.func.attr == "compile" else {"sub": 3, "subn": 3}.get(call.func.attr, 2)
    flags = [*call.args[at:][:1], *(word.value for word in call.keywords if word.arg == "flags")]
    try:
        made = [
            eval(compile(ast.Expression(each), "<source>", "eval"), vars(module)) for each in (call.args[0], *flags)
        ]
        return re.compile(*made)
    except (NameError, TypeError):
        return None


# Hard texts.


class Hard(NamedTuple):
    """A text of any size: `before`, then `units` in turn (or, `halved`, one after the other), then `after`."""

    before: str
    units: tuple[str, ...]
    after: str
    halved: bool = False

    def text(self, size: int) -> str:
        if self.halved:
            middle = "".join(unit * (size // len(self.units) // len(unit)) for unit in self.units)
        else:
            whole = "".join(self.units)
            middle = whole * (size // len(whole))
        return self.before + middle + self.after


def hard_texts(pattern: re.Pattern[Any], sample: int | None = None) -> list[Hard]:
    """Texts that repeat one part; and texts that repeat two, or start with a matching part: all of them, or a sample."""
    beginnings, repeated = _parts(pattern)
    first, last = beginnings[:5], beginnings[-4:]
    if pattern.flags & re.MULTILINE:
        last += [f"\n{each}" for each in last]
    units = list(dict.fromkeys((*repeated[:10], *_literals(pattern)[:8], *first, *last)))
    ends = ("", "\x00", "\n", "!", "a")
    plain = [Hard("", (unit,), after) for unit, after in product(units, ends[:3])]
    others = [Hard(before, (unit,), after) for before, unit, after in product(first + last, units, ends)]
    if sample is not None and sample < len(units) ** 2:
        chosen = random.Random(0)
        others = chosen.sample(others, min(sample, len(others)))
        pairs = [(chosen.choice(["", *last]), *chosen.sample(units, 2), chosen.choice(ends)) for _ in range(sample)]
    else:
        pairs = list(product(("", *last), units, units, ends))
    for before, one, other, after in pairs:
        others += [Hard(before, (one, other), after, halved=True), Hard(before, (one, other), after)]
    return plain + others


def fitted(pattern: re.Pattern[Any], text: str) -> str | bytes:
    """The text in the type of the expression."""
    return text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text


def _parts(pattern: re.Pattern[Any]) -> tuple[list[str], list[str]]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    repeated: list[str] = []
    beginnings = [""]
    for fits in _sequences(tree, repeated):
        beginnings += fits
    found = [each for each in dict.fromkeys(beginnings) if each]
    return found[: 2 * _MOST], [each for each in dict.fromkeys(repeated) if each]


def _literals(pattern: re.Pattern[Any]) -> list[str]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    found: list[str] = []

    def walk(tree: Any) -> None:
        for each in tree:
            if isinstance(each, tuple) and len(each) == 2 and each[0] in (codes.LITERAL, codes.NOT_LITERAL):
                found.append(chr(each[1]))
            elif isinstance(each, tuple | list | parser.SubPattern):
                walk(each)

    walk(parser.parse(text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags))
    return sorted(dict.fromkeys(found), key=lambda one: (one.isalnum(), one))


def _sequences(tree: Any, repeated: list[str]) -> Iterator[list[str]]:
    """For each place in the sequence: texts that match up to there."""
    so_far = [""]
    for node in tree:
        options = _options(node, repeated)
        so_far = [a + b for a in so_far[:3] for b in options[:4]]
        yield so_far


def _options(node: Any, repeated: list[str]) -> list[str]:
    code, value = node
    if code is codes.LITERAL:
        return [chr(value)]
    if code is codes.NOT_LITERAL:
        return [_other_than(lambda one: ord(one) != value)]
    if code is codes.ANY:
        return ["x"]
    if code is codes.IN:
        return _members(value)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, body = value
        inner = _whole(body, repeated)
        if most > 1:
            repeated.extend(inner[:6])
        times = max(least, 1)
        return [each * times for each in inner] + ([""] if least == 0 else [])
    if code is codes.BRANCH:
        return list(dict.fromkeys(text for branch in value[1] for text in _whole(branch, repeated)[:2]))[:8]
    if code is codes.SUBPATTERN:
        return _whole(value[-1], repeated)
    if code is codes.ATOMIC_GROUP:
        return _whole(value, repeated)
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        _whole(value[1], repeated)
    return [""]


def _whole(tree: Any, repeated: list[str]) -> list[str]:
    return list(dict.fromkeys([[""], *_sequences(tree, repeated)][-1]))


_CATEGORIES = {
    codes.CATEGORY_DIGIT: "7",
    codes.CATEGORY_NOT_DIGIT: "x",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "x",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "-",
}


def _members(value: list[Any]) -> list[str]:
    if value[0][0] is codes.NEGATE:
        refused = "".join(_members(value[1:]))
        spans = [each for code, each in value[1:] if code is codes.RANGE]
        return [
            _other_than(
                lambda one: (
                    one not in refused
                    and not any(low <= ord(one) <= high for low, high in spans)
                    and not _in_category(one, value[1:])
                )
            )
        ]
    found: list[str] = []
    for code, each in value:
        if code is codes.LITERAL:
            found.append(chr(each))
        elif code is codes.RANGE:
            found.append(chr(each[0]))
            found.append(chr(each[1]))
        elif code is codes.CATEGORY:
            found.append(_CATEGORIES.get(each, "x"))
    return found


def _in_category(one: str, value: list[Any]) -> bool:
    tests = {codes.CATEGORY_DIGIT: str.isdigit, codes.CATEGORY_SPACE: str.isspace}
    for code, each in value:
        if code is codes.CATEGORY:
            if each is codes.CATEGORY_WORD and (one.isalnum() or one == "_"):
                return True
            if each is codes.CATEGORY_NOT_WORD and not (one.isalnum() or one == "_"):
                return True
            if each in tests and tests[each](one):
                return True
    return False


def _other_than(fits: Any) -> str:
    return next((one for one in "xA1 -.,:<(\"'\n/é中" if fits(one)), "\x01")
