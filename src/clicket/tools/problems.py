"""What is wrong with a value that does not fit a schema?

Only what does not fit is explained, and of the alternatives of a union only the one that the value comes closest to: a model needs a few
lines that help, not the errors of all alternatives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from clicket.errors import did_you_mean
from clicket.model.codec import is_small
from clicket.tools.judge import COUNTED, Judge, Verdicts, as_text, bounded, is_of_type, tags
from clicket.tools.schema_graph import Node

__all__ = ["Path", "problems_of"]

Path = tuple[str | int, ...]
_Problem = tuple[Path, str]

_MAX_CHOICES = 20
_QUOTED_NODES = 50
_QUOTED_SIZE = 2_000


def problems_of(value: Any, judge: Judge, max_steps: int) -> Iterator[_Problem]:
    """What is wrong with a value that does not fit, each with its path. `TooMuchWork`: there may be more."""
    explanation = _Explanation(judge, max_steps)
    told: set[_Problem] = set()
    with bounded():
        for problem in explanation.problems(judge.graph.root, value, ()):
            if problem not in told:
                told.add(problem)
                yield problem


class _Explanation:
    def __init__(self, judge: Judge, max_steps: int) -> None:
        self._judge = judge
        self._verdicts = Verdicts(judge, max_steps)
        self._known = list(judge.graph.root.maps.get("properties", ()))

    def problems(self, node: Node, value: Any, path: Path) -> Iterator[_Problem]:
        self._verdicts.step()
        if not node.allowed:
            yield path, self._message({"properties": {"": False}}, {"": value})
            return
        yield from self._own_problems(node, value, path)
        yield from self._problems_in_place(node, value, path)
        if isinstance(value, dict) and "propertyNames" in node.one:
            for name in value:
                if not self._verdicts.fits(node.one["propertyNames"], name):
                    for _, text in self.problems(node.one["propertyNames"], name, path):
                        yield (*path, name), f"the name of the field: {text}"
        if isinstance(value, list | tuple) and "contains" in node.one and not self._verdicts.fits_contains(node, value):
            yield path, "not as many of its items fit `contains` in the schema as must"
        wrong = (
            (key, member, inner)
            for key, member, inner in self._verdicts.members(node, value)
            if not self._verdicts.fits(inner, member)
        )
        for key, member, inner in wrong:
            yield from self._member_problems(
                key, member, inner, path, is_other=inner is node.one.get("additionalProperties")
            )
        if self._verdicts.fits_in_place(node, value):  # else too much counts as not checked
            for key, member, inner in self._verdicts.unchecked(node, value):
                yield from self._member_problems(key, member, inner, path, is_other=True)

    def _member_problems(
        self, key: str | int, member: Any, inner: Node, path: Path, *, is_other: bool
    ) -> Iterator[_Problem]:
        if is_other and not inner.allowed and isinstance(key, str):
            yield (*path, key), f"there is no such field.{self._near(key, path)}"
        else:
            yield from self.problems(inner, member, (*path, key))

    def _own_problems(self, node: Node, value: Any, path: Path) -> Iterator[_Problem]:
        is_all = not (node.in_place or node.one or node.maps or node.lists)
        if not is_all and self._verdicts.fits_own(node, value):
            return
        if node.foreign:
            yield path, f"it does not fit {node.foreign:.200}"
            return
        own = node.own
        if node.weight:
            for name in self._verdicts.missing(node, value):
                yield (*path, name), "it is required"
            listed = own.get("enum")
            if listed is not None and not self._judge.lists(node, as_text(value)):
                given = self._judge.mask or _quoted(value)
                others = f" or {len(listed) - 2} other candidates" if len(listed) > 3 else ""
                yield path, f"{given} is not one of {', '.join(map(_quoted, listed[:2]))}{others}"
            own = {word: each for word, each in own.items() if word not in COUNTED}
            if not own:
                return
        quoted = self._judge.mask is not None or is_small(value, _QUOTED_NODES, _QUOTED_SIZE)
        validator = self._judge.rest(node) if node.weight else self._judge.own(node)
        errors: Iterator[Any] = validator.iter_errors(value) if quoted else self._messages(own, value)
        for error in errors:
            if error.kind.name == "required":
                yield (*path, error.kind.property), "it is required"
            else:
                yield path, str(error.message)

    def _problems_in_place(self, node: Node, value: Any, path: Path) -> Iterator[_Problem]:
        for each in self._verdicts.demanded(node, value):
            if not self._verdicts.fits(each, value):
                yield from self.problems(each, value, path)
        for word in ("anyOf", "oneOf"):
            alternatives = node.lists.get(word)
            if alternatives is None:
                continue
            fitting = self._verdicts.fitting(node, word, value)
            if next(fitting, None) is None:
                yield from self._union_problems(word, alternatives, value, path)
            elif word == "oneOf" and next(fitting, None) is not None:
                yield path, self._message({"oneOf": [True, True]}, value)
        if "not" in node.one and self._verdicts.fits(node.one["not"], value):
            yield path, "it fits what the schema excludes with `not`"

    def _union_problems(self, word: str, alternatives: Sequence[Node], value: Any, path: Path) -> Iterator[_Problem]:
        """The problems of the alternative that the value comes closest to. That it is not null is never reported."""
        right = [each for each in alternatives if not self._judge.has_other_tag(each, value)]
        if len(right) == 1 and len(alternatives) > 1 and isinstance(value, dict):
            yield from self.problems(right[0], value, path)
            return
        ranked = sorted(
            ((_Misfit(self._verdicts, each, value), each) for each in right or alternatives),
            key=lambda pair: pair[0].rank,
        )
        if value is not None and len(ranked) > 1:
            ranked = [pair for pair in ranked if not pair[0].wants_null] or ranked
        nearest, best = ranked[0]
        if nearest.wrong_tags and len(ranked) > 1:
            yield from self._tag_problems([misfit for misfit, _ in ranked], value, path)
            return
        is_clear = len(ranked) == 1 or nearest.rank < ranked[1][0].rank
        if nearest.wrong_type and len(ranked) > 1:
            yield path, self._message({word: [False]}, value)
            return
        if not is_clear:
            yield path, self._message({word: [False]}, value)
        yield from self.problems(best, value, path)

    def _tag_problems(self, misfits: list[_Misfit], value: Any, path: Path) -> Iterator[_Problem]:
        """Each alternative wants another value in one field: the values that are allowed there are listed."""
        name = next(iter(misfits[0].wrong_tags))
        allowed = dict.fromkeys(text for misfit in misfits for text in misfit.wrong_tags.get(name, ()))
        listed = ", ".join([*allowed][:_MAX_CHOICES]) + (", …" if len(allowed) > _MAX_CHOICES else "")
        given = self._judge.mask or _quoted(value[name])
        yield (*path, name), f"{given} is not one of {listed}"

    def _messages(self, schema: dict[str, Any], value: Any) -> Iterator[Any]:
        """The errors of jsonschema-rs for keywords that need no subschema. Big values are described, not quoted."""
        mask = self._judge.mask
        if mask is None and not is_small(value, _QUOTED_NODES, _QUOTED_SIZE):
            mask = _described(value)
        return self._judge.compiled(schema, mask).iter_errors(value)

    def _message(self, schema: dict[str, Any], value: Any) -> str:
        return next((str(error.message) for error in self._messages(schema, value)), "it does not fit the schema")

    def _near(self, name: str, path: Path) -> str:
        return did_you_mean(name, self._known) if not path else ""


class _Misfit:
    """How far a value is from an alternative of a union. Right tags (a field with the one value that the alternative wants) count most."""

    def __init__(self, verdicts: Verdicts, node: Node, value: Any) -> None:
        self._verdicts = verdicts
        self.wrong_type = False
        self.wants_null = False
        self.right_tags = 0
        self.wrong_tags: dict[str, list[str]] = {}
        self.problems = 0
        self._add(node, value)
        self.rank = (self.wrong_type, bool(self.wrong_tags), -self.right_tags, self.problems)

    def _add(self, node: Node, value: Any) -> None:
        verdicts = self._verdicts
        verdicts.step()
        if not node.allowed:
            self.problems += 1
            return
        kinds = node.own.get("type")
        if kinds is not None and not is_of_type(kinds, value):
            self.wrong_type = True
            self.wants_null |= kinds == "null"
        elif not verdicts.fits_own(node, value):
            missing = [
                name for name in node.own.get("required", ()) if not isinstance(value, dict) or name not in value
            ]
            self.problems += max(len(missing), 1)
        for each in (*node.refs, *node.lists.get("allOf", ())):
            if not verdicts.fits(each, value):
                self._add(each, value)
            else:
                self.right_tags += sum(name in value for name, _ in tags(each) if isinstance(value, dict))
        for word in ("anyOf", "oneOf"):
            if word in node.lists and not any(verdicts.fits(each, value) for each in node.lists[word]):
                nearest = min((_Misfit(verdicts, each, value) for each in node.lists[word]), key=lambda each: each.rank)
                self._merge(nearest)
        own_tags = dict(tags(node))
        for key, member, inner in verdicts.members(node, value):
            fits = verdicts.fits(inner, member)
            if key in own_tags:
                self.right_tags += fits
                if not fits:
                    self.wrong_tags[str(key)] = [_quoted(each) for each in own_tags[str(key)][: _MAX_CHOICES + 1]]
            self.problems += not fits

    def _merge(self, inner: _Misfit) -> None:
        self.wrong_type |= inner.wrong_type
        self.right_tags += inner.right_tags
        self.wrong_tags |= inner.wrong_tags
        self.problems += inner.problems


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if is_small(value, _QUOTED_NODES, _QUOTED_SIZE) else _described(value)


def _described(value: Any) -> str:
    if isinstance(value, str):
        return f'{json.dumps(value[:200], ensure_ascii=False)[:-1]}…" ({len(value):,} characters)'
    if isinstance(value, dict):
        return f"an object of {len(value):,} fields"
    return f"an array of {len(value):,} items" if isinstance(value, list | tuple) else "a long value"
