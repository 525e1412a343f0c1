"""Which caller may run which tool: allow, deny or ask. The first rule that matches decides; without rules all calls are allowed.

The order: a permission that is not granted denies; then the `rule` function; then `rules` from first to last; then the lists
`deny`, `ask` and `allow`; then the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from math import isfinite
from typing import Any, NamedTuple, get_args

import msgspec

from clicket.engine.stages.rules import ArgumentValues, CompiledCondition, Condition, Verdict
from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import canonical

__all__ = ["Decision", "Policy", "Request", "Rule", "Verdict"]

_VERDICTS = get_args(Verdict)
_MAX_PLANS = 1_000
_MAX_APPROVERS = 10
_SELECTORS = ("tools", "tags", "threads", "callers", "scopes")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule can read. `arguments` are the caller's, unchecked: treat them as untrusted."""

    tool: str
    thread: str
    caller: str
    tags: frozenset[str]
    permissions: frozenset[str]
    arguments: Any
    scopes: frozenset[str] = frozenset()
    """What the caller may do, set by the authenticator: the scopes of its API key."""
    schema: Mapping[str, Any] = {}
    """The tool's input schema."""
    max_size: int = 1024 * 1024
    """Arguments of more bytes are not read."""


class Decision(NamedTuple):
    verdict: Verdict
    reason: str
    timeout: float | None = None
    """Seconds that a person has to decide, if the policy asks."""
    plain: dict[str, Any] | None = None
    """The arguments as the conditions read them, if any did: the call must run with exactly these."""
    rule: str = ""
    """What asks: a hash of the rule or the entry of a list, without its reason. A grant answers only questions of the same one."""
    approvers: int = 1
    """How many different people must approve."""
    self_approval: bool = False
    """The caller may approve its own call."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`Rule(verdict="ask", tools=["pay*"], when=[Condition(path="/amount", op=">", value=100)], reason="big payments")`.

    Every selector that is given must match: `tools`, `tags`, `threads`, `callers` and `scopes` are lists of names or globs, of
    which one must fit; of `when`, every condition must be met.

    For rules that ask: `timeout` are the seconds that a person has to decide; `approvers` is how many different people must approve;
    `self_approval`: whether the caller may approve its own call. What is left out is as in the policy.
    """

    verdict: Verdict
    """What becomes of the calls that match."""
    tools: Sequence[str] = ()
    """Names of tools, or globs."""
    tags: Sequence[str] = ()
    """Tags of tools."""
    threads: Sequence[str] = ()
    """Threads of calls."""
    callers: Sequence[str] = ()
    """Callers of calls."""
    scopes: Sequence[str] = ()
    """Scopes of callers."""
    when: Sequence[Condition] = ()
    """Conditions on the arguments, all of which must be met."""
    reason: str = ""
    """What callers and approvers read."""
    timeout: float | None = None
    """Seconds that a person has to decide; as in the policy unless given."""
    approvers: int | None = None
    """How many different people must approve; as in the policy unless given."""
    self_approval: bool | None = None
    """Whether the caller may approve its own call; as in the policy unless given."""

    def __post_init__(self) -> None:
        if self.verdict not in _VERDICTS:
            near = did_you_mean(str(self.verdict), _VERDICTS)
            raise UsageError(f"verdict must be one of {', '.join(_VERDICTS)}, not {self.verdict!r}.{near}")
        for name in _SELECTORS:
            msgspec.structs.force_setattr(self, name, _names(name, getattr(self, name)))
        when = self.when
        if isinstance(when, Condition) or not isinstance(when, list | tuple):
            raise UsageError(f"when must be a list of conditions, not {when!r}.")
        if not all(isinstance(each, Condition) for each in when):
            raise UsageError("when must be a list of conditions: Condition(path=…, op=…, value=…).")
        msgspec.structs.force_setattr(self, "when", tuple(when))
        if type(self.reason) is not str:
            raise UsageError(f"reason must be text, not {self.reason!r}.")
        for name in ("timeout", "approvers", "self_approval"):
            if getattr(self, name) is not None and self.verdict != "ask":
                raise UsageError(f"{name} is for rules that ask; take it out, or set verdict to 'ask'.")
        if self.timeout is not None:
            _seconds("timeout", self.timeout)
        if self.approvers is not None:
            _check_approvers(self.approvers)
        if self.self_approval is not None:
            _check_self_approval(self.self_approval)


RuleFunction = Callable[[Request], Verdict | None]
_Plan = tuple[tuple[tuple[int, Rule, tuple[CompiledCondition, ...]], ...], Decision]


class Policy:
    """`Policy(deny=["rm_*"], ask=["pay"])` matches tools by name or `tag:NAME`; `rules` can say more, and come first.

    `rule` is a function that decides before all rules; if it returns None, it does not decide. `granted` are the permissions
    that callers of this runtime have; a tool that names others is denied. Without `granted`, a caller has its scopes as
    permissions; an admin and the program itself have all.
    `approval_timeout`: seconds that a person has to decide; None: no limit. `approvers`: how many different people must approve a
    call. `self_approval`: a caller may approve its own calls; without it, another person must.
    """

    def __init__(
        self,
        *,
        rules: Iterable[Rule] = (),
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        ask: Iterable[str] = (),
        default: Verdict = "allow",
        rule: RuleFunction | None = None,
        granted: Iterable[str] | None = None,
        approval_timeout: float | None = 24 * 3600.0,
        approvers: int = 1,
        self_approval: bool = False,
    ) -> None:
        if default not in _VERDICTS:
            near = did_you_mean(str(default), _VERDICTS)
            raise UsageError(f"a policy's default must be one of {', '.join(_VERDICTS)}, not {default!r}.{near}")
        if approval_timeout is not None:
            _seconds("approval_timeout", approval_timeout)
        _check_approvers(approvers)
        _check_self_approval(self_approval)
        self.rules: tuple[Rule, ...] = tuple(rules)
        for each in self.rules:
            if not isinstance(each, Rule):
                raise UsageError(f"rules must be a list of Rule(verdict=…, …), not of {each!r}. A function is `rule=`.")
        self._conditions = [tuple(CompiledCondition(condition) for condition in each.when) for each in self.rules]
        lists: tuple[tuple[Verdict, Iterable[str]], ...] = (("deny", deny), ("ask", ask), ("allow", allow))
        self._patterns = {verdict: _names(verdict, given) for verdict, given in lists}
        self._plans: dict[tuple[str, frozenset[str]], _Plan] = {}
        self._default: Verdict = default
        self._rule = rule
        self._granted = None if granted is None else frozenset(_names("granted", granted))
        self.approval_timeout: float | None = approval_timeout
        self.approvers: int = approvers
        self.self_approval: bool = self_approval
        self._by_rule = [self._decision_of(number, each) for number, each in enumerate(self.rules, start=1)]
        self.is_open: bool = not (
            self.rules or any(self._patterns.values()) or default != "allow" or rule or granted is not None
        )

    def decide(self, request: Request) -> Decision:
        """The verdict and its reason."""
        missing = self._missing(request.permissions, request.caller, request.scopes)
        if missing:
            return Decision("deny", missing)
        if self._rule is not None:
            verdict = self._rule(request)
            if verdict is not None:
                if verdict not in _VERDICTS:
                    return Decision(
                        "deny", f"the policy's rule answered {verdict!r}, which is neither allow, deny nor ask"
                    )
                return self._decision(verdict, "the policy's rule says so", "function")
        rules, listed = self._plan(request.tool, request.tags)
        if not rules:
            return listed
        values = ArgumentValues(request.arguments, request.schema, request.max_size)
        for number, each, conditions in rules:
            if _selects(each, request):
                closed = each.verdict != "allow"
                if all(condition.is_met(values, closed=closed) for condition in conditions):
                    return self._by_rule[number - 1]._replace(plain=values.plain)
        return listed._replace(plain=values.plain)

    def _decision(self, verdict: Verdict, reason: str, rule: str) -> Decision:
        return Decision(verdict, reason, self.approval_timeout, None, rule, self.approvers, self.self_approval)

    def _decision_of(self, number: int, rule: Rule) -> Decision:
        """The decision of a rule that matches."""
        found = self._decision(rule.verdict, rule.reason or f"rule {number} says so", _hash_of(rule))
        own: dict[str, Any] = {
            "timeout": rule.timeout,
            "approvers": rule.approvers,
            "self_approval": rule.self_approval,
        }
        return found._replace(**{name: value for name, value in own.items() if value is not None})

    def _missing(self, permissions: frozenset[str], caller: str, scopes: frozenset[str]) -> str:
        """The permissions that are not granted, as text; empty: all are. Unless the policy says what is granted, a named caller
        has its scopes; an admin and the program itself have every permission. Other rules do not change that."""
        granted = self._granted
        if granted is None:
            granted = scopes if caller and "admin" not in scopes else permissions
        lacking = permissions - granted
        return f"the permission {', '.join(sorted(lacking))} is not granted" if lacking else ""

    def forbids(self, request: Request, *, in_every_thread: bool = False) -> str | None:
        """Why the policy denies every call of a tool, for all arguments; None: it may allow some. `in_every_thread`: whatever the thread
        is, not only in that of the request."""
        missing = self._missing(request.permissions, request.caller, request.scopes)
        if missing or self._rule is not None:  # a function's answer is not known before a call
            return missing or None
        rules, listed = self._plan(request.tool, request.tags)
        for number, each, conditions in rules:
            if _selects(each, request, in_some_thread=in_every_thread):
                if each.verdict != "deny":
                    return None
                if not conditions and not (in_every_thread and each.threads):
                    return each.reason or f"rule {number} says so"
        return listed.reason if listed.verdict == "deny" else None

    def _plan(self, tool: str, tags: frozenset[str]) -> _Plan:
        """What depends on the tool alone: the rules that could match its calls, and the decision if none does."""
        plan = self._plans.get((tool, tags))
        if plan is None:
            rules = tuple(
                (number, each, conditions)
                for number, (each, conditions) in enumerate(zip(self.rules, self._conditions, strict=True), start=1)
                if (not each.tools or _fits(each.tools, (tool,))) and (not each.tags or _fits(each.tags, tags))
            )
            verdict, reason = self._by_lists(tool, tags)
            plan = rules, self._decision(verdict, reason, _digest(["list", reason]))
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[tool, tags] = plan
        return plan

    def _by_lists(self, tool: str, tags: frozenset[str]) -> tuple[Verdict, str]:
        names = (tool, *(f"tag:{tag}" for tag in tags))
        for verdict, patterns in self._patterns.items():
            for pattern in patterns:
                if _fits((pattern,), names):
                    return verdict, f"it matches {verdict} = {pattern!r}"
        return self._default, "it is the policy's default"


def _selects(rule: Rule, request: Request, *, in_some_thread: bool = False) -> bool:
    """Does a rule that matches the tool also match thread, caller and scopes? `in_some_thread`: the thread may be any."""
    return (
        (in_some_thread or not rule.threads or _fits(rule.threads, (request.thread,)))
        and (not rule.callers or _fits(rule.callers, (request.caller,)))
        and (not rule.scopes or _fits(rule.scopes, request.scopes))
    )


def _hash_of(rule: Rule) -> str:
    """Of what the rule selects. Its reason and its times may change; the question stays the same."""
    when = [[each.path, each.op, True if each.value is msgspec.UNSET else each.value] for each in rule.when]
    return _digest(["rule", *(list(getattr(rule, name)) for name in _SELECTORS), when])


def _digest(parts: list[Any]) -> str:
    return sha256(canonical(parts)).hexdigest()[:32]


def _fits(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _names(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """A list of names. Text is refused: it is iterable, so `deny="pay"` would mean three tools of one letter."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"{what} must be a list of names, not {given!r}. Write [{given!r}].")
    names = tuple(given)
    for name in names:
        if type(name) is not str:
            raise UsageError(f"{what} must be a list of names, and {name!r} is none.")
    return names


def _check_approvers(given: Any) -> None:
    if type(given) is not int or not 1 <= given <= _MAX_APPROVERS:
        raise UsageError(f"approvers must be a number from 1 to {_MAX_APPROVERS}, not {given!r}.")


def _check_self_approval(given: Any) -> None:
    if type(given) is not bool:
        raise UsageError(f"self_approval must be true or false, not {given!r}.")


def _seconds(what: str, given: Any) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given) or given <= 0:
        raise UsageError(f"{what} must be a number of seconds above 0, not {given!r}.")
