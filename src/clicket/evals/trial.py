"""What came of one case with one agent, and what the checks say of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from clicket.errors import UsageError
from clicket.evals.case import Case
from clicket.model.chat import Usage
from clicket.model.evaluation import RecordedCall, Score

__all__ = ["Check", "Trial", "judged", "name_of"]

Check = Callable[["Trial"], Any]
"""A function of a trial, sync or async. It returns a `Score`, a bool, a number from 0 to 1, a text that says what is wrong, or None if
all is well."""
_MAX_ERROR = 500
_PASSES = 0.5


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`calls` is the trajectory: the tool calls in order, with their results. `error`: the agent failed."""

    case: Case
    agent: str
    text: str = ""
    value: Any = None
    state: str = ""
    stopped: str = ""
    ended: str | None = None
    steps: int = 0
    calls: tuple[RecordedCall, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    error: str = ""
    scores: tuple[Score, ...] = ()

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def passed(self) -> bool:
        return not self.error and all(score.passed for score in self.scores)

    @property
    def why(self) -> str:
        """Why it did not pass, in one line; empty if it did."""
        if self.error:
            return self.error
        return "; ".join(
            f"{score.check}: {score.why}" if score.why else score.check for score in self.scores if not score.passed
        )


async def judged(trial: Trial, checks: Sequence[Check]) -> Trial:
    """The trial with the scores of the checks. A check that raises has failed. A trial that failed is not judged."""
    if trial.error:
        return trial
    return msgspec.structs.replace(trial, scores=tuple([await _score(check, trial) for check in checks]))


async def _score(check: Check, trial: Trial) -> Score:
    name = name_of(check)
    try:
        found = check(trial)
        if inspect.isawaitable(found):
            found = await found
    except Exception as error:
        return Score(name, False, 0.0, f"the check raised {type(error).__name__}: {error}"[:_MAX_ERROR])
    match found:
        case Score():
            return found
        case None | True:
            return Score(name, True)
        case False:
            return Score(name, False, 0.0)
        case str(why):
            return Score(name, False, 0.0, why)
        case int() | float() if 0 <= found <= 1:
            return Score(name, found >= _PASSES, float(found))
    return Score(
        name,
        False,
        0.0,
        f"the check returned {found!r:.100}: a Score, a bool, a number from 0 to 1, a text or None is wanted.",
    )


def name_of(check: Check) -> str:
    """Of the function. Raises `UsageError` if it is not one."""
    if not callable(check):
        raise UsageError(f"a check is a function of a trial, such as text_contains('refunded'), not {check!r:.100}.")
    named: Any = check if hasattr(check, "__name__") else type(check)
    return str(named.__name__)
