"""Rules by tool, tag, thread, caller, scope and arguments; the first that matches decides. Also as a file declares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clicket import Condition, Policy, Rule, Runtime, Settings
from clicket.engine.stages import Request, declared_policy
from clicket.errors import UsageError


def request(**given: Any) -> Request:
    usual: dict[str, Any] = {
        "tool": "pay", "thread": "t1", "caller": "ann", "tags": frozenset({"money"}), "permissions": frozenset(),
        "arguments": {"amount": 50},
    }  # fmt: skip
    return Request(**{**usual, **given})


def verdict(policy: Policy, **given: Any) -> str:
    return policy.decide(request(**given)).verdict


@pytest.mark.parametrize(
    ("selectors", "fits"),
    [
        ({}, True),
        ({"tools": ["pay"]}, True),
        ({"tools": ["refund", "p*"]}, True),
        ({"tools": ["PAY"]}, False),
        ({"tags": ["money"]}, True),
        ({"tags": ["mon*"]}, True),
        ({"tags": ["files"]}, False),
        ({"threads": ["t*"]}, True),
        ({"threads": ["prod-*"]}, False),
        ({"callers": ["ann"]}, True),
        ({"callers": ["bob", ""]}, False),
        ({"scopes": ["call"]}, True),
        ({"scopes": ["admin"]}, False),
        ({"scopes": ["admin", "c*"]}, True),
        ({"tools": ["pay"], "tags": ["files"]}, False),
        ({"tools": ["pay"], "tags": ["money"], "threads": ["t1"], "callers": ["a*"], "scopes": ["call"]}, True),
        ({"when": [Condition(path="/amount", op=">", value=40)]}, True),
        ({"when": [Condition(path="/amount", op=">", value=40), Condition(path="/amount", op="<", value=45)]}, False),
        ({"tools": ["other"], "when": [Condition(path="/amount", op=">", value=40)]}, False),
    ],
)
def test_a_rule_matches_when_all_its_selectors_do(selectors: dict[str, Any], fits: bool) -> None:
    policy = Policy(rules=[Rule(verdict="deny", **selectors)])
    assert not policy.is_open
    assert verdict(policy, scopes=frozenset({"call", "read"})) == ("deny" if fits else "allow")


def test_a_caller_without_scopes_has_none_that_fits() -> None:
    policy = Policy(rules=[Rule(verdict="allow", scopes=["*"])], default="deny")
    assert verdict(policy) == "deny"
    assert verdict(policy, scopes=frozenset({"read"})) == "allow"


def test_the_first_rule_that_matches_decides_then_the_lists_then_the_default() -> None:
    big = Condition(path="/amount", op=">", value=100)
    policy = Policy(
        rules=[
            Rule(verdict="allow", callers=["root"]),
            Rule(verdict="ask", tools=["pay"], when=[big], reason="big payments", timeout=60),
            Rule(verdict="deny", threads=["closed"]),
        ],
        deny=["pay_all"],
        ask=["refund"],
        default="allow",
        approval_timeout=600,
    )
    assert verdict(policy, caller="root", arguments={"amount": 500}, thread="closed") == "allow"
    asked = policy.decide(request(arguments={"amount": 500}, thread="closed"))
    assert (asked.verdict, asked.reason, asked.timeout) == ("ask", "big payments", 60)
    assert verdict(policy, thread="closed") == "deny"
    assert verdict(policy, tool="pay_all") == "deny"
    listed = policy.decide(request(tool="refund"))
    assert (listed.verdict, listed.timeout) == ("ask", 600)
    assert verdict(policy) == "allow"


def test_the_function_and_the_permissions_come_before_the_rules() -> None:
    allow = Rule(verdict="allow")
    assert verdict(Policy(rules=[allow], rule=lambda request: "deny")) == "deny"
    assert verdict(Policy(rules=[allow], granted=[]), permissions=frozenset({"spend"})) == "deny"
    assert verdict(Policy(rules=[Rule(verdict="deny")], rule=lambda request: None)) == "deny"


class Unreadable:
    """Arguments that raise when read."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("the arguments were read")


def test_arguments_are_read_only_if_a_rule_with_conditions_could_match() -> None:
    when = [Condition(path="/amount", op=">", value=1)]
    policy = Policy(rules=[Rule(verdict="deny", tools=["other"], when=when), Rule(verdict="ask", tools=["pay"])])
    decided = policy.decide(request(arguments=Unreadable()))
    assert (decided.verdict, decided.plain) == ("ask", None)


def test_what_was_judged_is_handed_on() -> None:
    policy = Policy(rules=[Rule(verdict="deny", when=[Condition(path="/amount", op=">", value=100)])])
    assert policy.decide(request(arguments='{"amount": 7}')).plain == {"amount": 7}
    assert policy.decide(request(arguments="{")).verdict == "deny"


@pytest.mark.parametrize("arguments", [{"amount": "5"}, {"amount": None}, {}, "{", b"\xff", 5, Unreadable])
def test_a_rule_in_doubt_denies_asks_and_does_not_allow(arguments: Any) -> None:
    arguments = arguments() if arguments is Unreadable else arguments
    small, big = Condition(path="/amount", op="<", value=10), Condition(path="/amount", op="!=", value=1)
    assert verdict(Policy(rules=[Rule(verdict="allow", when=[small])], default="deny"), arguments=arguments) == "deny"
    assert verdict(Policy(rules=[Rule(verdict="deny", when=[big])]), arguments=arguments) == "deny"
    assert verdict(Policy(rules=[Rule(verdict="ask", when=[big])]), arguments=arguments) == "ask"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rule(verdict="refuse"), "allow, deny, ask"),
        (lambda: Rule(verdict="dney"), "Did you mean 'deny'"),
        (lambda: Rule(verdict="deny", tools="pay"), "['pay']"),
        (lambda: Rule(verdict="deny", tools=[5]), "5 is none"),
        (lambda: Rule(verdict="deny", callers=None), "a list of names"),
        (lambda: Rule(verdict="deny", when=Condition(path="/a", value=1)), "a list of conditions"),
        (lambda: Rule(verdict="deny", when=[{"path": "/a"}]), "Condition(path="),
        (lambda: Rule(verdict="deny", reason=5), "reason must be text"),
        (lambda: Rule(verdict="deny", timeout=5), "rules that ask"),
        (lambda: Rule(verdict="ask", timeout=0), "above 0"),
        (lambda: Rule(verdict="ask", timeout=True), "above 0"),
        (lambda: Policy(rules=[lambda request: "deny"]), "`rule=`"),
        (lambda: Policy(deny="pay"), "['pay']"),
        (lambda: Policy(default="alow"), "Did you mean 'allow'"),
        (lambda: Policy(approval_timeout=-1), "above 0"),
    ],
)
def test_mistakes_in_python_are_named(make: Any, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        make()
    assert says in raised.value.message


# In a file, or in the environment.

TOML = """
[policy]
default = "deny"
approval_timeout = 3600
granted = ["spend"]
allow = ["read_*"]

[[policy.rules]]
verdict = "ask"
tools = ["pay*"]
scopes = ["call"]
reason = "payments above 100"
timeout = 60
when = [{ path = "/amount", op = ">", value = 100 }, { path = "/to/*", op = "matches", value = "[a-z]+" }]

[[policy.rules]]
verdict = "allow"
tools = ["pay*"]
"""


def load(folder: Path, text: str) -> Settings:
    path = folder / "clicket.toml"
    path.write_text(text)
    return Settings.load(file=path, environ={})


def test_a_policy_from_a_file(tmp_path: Path) -> None:
    settings = load(tmp_path, TOML)
    policy = settings.policy
    scopes = frozenset({"call"})
    big = policy.decide(request(arguments={"amount": 500, "to": ["ann"]}, scopes=scopes))
    assert (big.verdict, big.reason, big.timeout) == ("ask", "payments above 100", 60)
    assert verdict(policy, arguments={"amount": 5, "to": ["ann"]}, scopes=scopes) == "allow"
    assert verdict(policy, tool="read_mail") == "allow"
    assert verdict(policy, tool="other") == "deny"
    assert verdict(policy, permissions=frozenset({"more"})) == "deny"
    assert policy.approval_timeout == 3600
    assert settings.origins["policy"].endswith("clicket.toml")
    assert load(tmp_path, "[policy]\napproval_timeout = false").policy.approval_timeout is None


def test_a_policy_from_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "clicket.toml"
    path.write_text(TOML)
    text = json.dumps({"rules": [{"verdict": "deny", "tools": ["x"]}]})
    policy = Settings.load(file=path, environ={"CLICKET_POLICY": text}).policy
    assert verdict(policy) == "allow"
    assert verdict(policy, tool="x") == "deny"
    for wrong in ("{", "[]", '{"deny": ["a"], "deny": []}', '{"dney": []}'):
        with pytest.raises(UsageError, match="CLICKET_POLICY"):
            Settings.load(file=path, environ={"CLICKET_POLICY": wrong})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[policy]\ndefualt = 'deny'", ["unknown key 'defualt'", "'default'"]),
        ("[policy]\ndefault = 'dney'", ["'deny'"]),
        ("[policy]\ndeny = 'pay'", ["a list of texts"]),
        ("[policy]\napproval_timeout = 'long'", ["approval_timeout", "a number"]),
        ("policy = 5", ["must be a table"]),
        ("[policy.rules]\nverdict = 'deny'", ["rules must be a list of tables"]),
        (
            "[[policy.rules]]\nverdict = 'deny'\n[[policy.rules]]\ntool = ['a']",
            ["rules, number 2", "'tool'", "'tools'"],
        ),
        ("[[policy.rules]]\ntools = ['a']", ["rules, number 1", "it needs verdict"]),
        ("[[policy.rules]]\nverdict = 'denied'", ["rules, number 1", "'deny'"]),
        ("[[policy.rules]]\nverdict = 'deny'\ntools = 'a'", ["rules, number 1", "a list of texts"]),
        ("[[policy.rules]]\nverdict = 'deny'\nwhen = { path = '/a' }", ["rules, number 1", "a list of tables"]),
        (
            "[[policy.rules]]\nverdict = 'deny'\nwhen = [{ op = '==', value = 1 }]",
            ["rules, number 1: when, number 1", "it needs path"],
        ),
        (
            "[[policy.rules]]\nverdict = 'deny'\nwhen = [{ path = 'a', value = 1 }]",
            ["rules, number 1: when, number 1", "'/a'"],
        ),
        (
            "[[policy.rules]]\nverdict = 'deny'\nwhen = [{ path = '/a', value = 1 }, { path = '/a', op = 'mtches', value = '' }]",
            ["rules, number 1: when, number 2", "'matches'"],
        ),
        (
            "[[policy.rules]]\nverdict = 'deny'\nwhen = [{ path = '/a', op = 'matches', value = '(' }]",
            ["when, number 1"],
        ),
        ("[[policy.rules]]\nverdict = 'deny'\nwhen = [{ path = '/a', val = 1 }]", ["'val'", "'value'"]),
        ("[[policy.rules]]\nverdict = 'deny'\nwhen = [{ path = '/a', value = 2024-01-01 }]", ["plain JSON"]),
        ("[[policy.rules]]\nverdict = 'allow'\ntimeout = 5", ["rules, number 1", "rules that ask"]),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_place(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        load(tmp_path, text)
    for word in ["clicket.toml", *parts]:
        assert word in raised.value.message


def test_mistakes_in_settings_made_by_hand_are_named_at_once() -> None:
    with pytest.raises(UsageError, match="rules, number 1"):
        Settings(policy={"rules": [{"verdict": "deny", "tols": []}]})
    assert declared_policy({}, "here").is_open


async def test_an_explicit_policy_wins_over_the_settings() -> None:
    async def pay() -> str:
        return "paid"

    settings = Settings(store="memory://", policy={"deny": ["pay"]})
    async with Runtime([pay], settings=settings) as rt:
        refused = await rt.call("pay")
    async with Runtime([pay], settings=settings, policy=Policy()) as rt:
        allowed = await rt.call("pay")
    assert refused.error is not None
    assert refused.error.code == "permission_denied"
    assert allowed.output == "paid"
