"""Declarations of agents in settings, and errors for invalid ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clicket import Runtime, Settings, tool
from clicket.agents import ReActAgent
from clicket.agents.plan_execute import PlanExecuteAgent
from clicket.errors import NotFound, UsageError
from clicket.runtime.agent_config import agents_of, chosen, declared_agents, default_name


@tool
async def weather(city: str) -> str:
    """Weather."""
    return "sun"


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "answers.json").write_text('["yes"]')
    return f"script:{tmp_path / 'answers.json'}"


def made(agents: Any, **settings: Any) -> dict[str, Any]:
    return dict(agents_of(Runtime([weather], settings=Settings(store="memory://", agents=agents, **settings))))


def test_kinds_and_options(model: str) -> None:
    agents = made(
        {
            "one": {"model": model},
            "two": {
                "kind": "react", "model": {"kind": "script", "model": model.removeprefix("script:")}, "system": "Be brief.",
                "tools": ["weather"], "max_steps": 5, "max_calls": 9, "max_tokens": 1_000, "max_cost": 1, "max_seconds": 2.5,
                "max_repeats": False, "max_concurrency": 2, "max_observation": 1_000, "max_answer_tokens": 500,
                "model_retries": 0, "retry_delay": 0.5, "window": 50_000,
            },
            "three": {"kind": "plan", "model": model, "executor": model, "max_task_steps": 3, "max_parallel": 2},
        }
    )  # fmt: skip
    assert [type(agent) for agent in agents.values()] == [ReActAgent, ReActAgent, PlanExecuteAgent]
    assert list(agents) == [agent.name for agent in agents.values()] == ["one", "two", "three"]
    assert agents["one"].limits.max_steps == 20
    limits = agents["two"].limits
    assert (limits.max_steps, limits.max_calls, limits.max_tokens, limits.max_cost) == (5, 9, 1_000, 1)
    assert (limits.max_seconds, limits.max_repeats) == (2.5, None)
    assert agents["three"].limits.max_steps == 40


@pytest.mark.parametrize(
    ("agents", "reason"),
    [
        ({"a": 1}, r"\[agents.a\] of Settings: an agent is a table"),
        ({"a": {}}, "it has no model"),
        ({"a": {"model": "openai"}}, r"\[agents.a\] of Settings: model: 'openai'"),
        ({"a": {"model": "opnai:x"}}, "Did you mean 'openai'"),
        ({"a": {"model": 3}}, "named by a text or a table"),
        ({"a": {"model": "script:nowhere.json"}}, "cannot be read"),
        ({"a": {"modle": "x"}}, "unknown key 'modle'. Did you mean 'model'"),
        ({"a": {"model": "M", "max_step": 3}}, "Did you mean 'max_steps'"),
        ({"a": {"model": "M", "executor": "M"}}, "unknown key 'executor'. It is an option of kind = 'plan'"),
        ({"a": {"model": "M", "max_parallel": 2}}, "It is an option of kind = 'plan'"),
        ({"a": {"model": "M", "kind": "raect"}}, "no kind of agent 'raect'. Did you mean 'react'"),
        ({"a": {"model": "M", "kind": ["react"]}}, "no kind of agent"),
        ({"a": {"model": "M", "max_steps": "5"}}, "max_steps must be a whole number, not '5'"),
        ({"a": {"model": "M", "max_steps": True}}, "max_steps must be a whole number, not True"),
        ({"a": {"model": "M", "max_steps": False}}, "max_steps must be a whole number, not False"),
        ({"a": {"model": "M", "max_steps": -1}}, r"\[agents.a\]: max_steps must be"),
        ({"a": {"model": "M", "max_seconds": "1"}}, "max_seconds must be a number, or false for no limit"),
        ({"a": {"model": "M", "max_observation": 3}}, "max_observation must be"),
        ({"a": {"model": "M", "tools": "weather"}}, "tools must be a list of texts"),
        ({"a": {"model": "M", "tools": ["wether"]}}, "there is no tool 'wether'. Did you mean 'weather'"),
        ({"a": {"model": "M", "system": 4}}, "system must be a text"),
        ({"a b": {"model": "M"}}, "'a b' is not a name for an agent"),
        ({"a": {"model": "M", "kind": "plan", "max_parallel": 0}}, "max_parallel must be"),
        ({"a": {"model": "M", "kind": "plan", "executor": "x"}}, "executor: 'x'"),
        ({"a": {"model": "M", "handoffs": "a"}}, "handoffs must be a list of texts"),
        (
            {"a": {"model": "M", "handoffs": ["biling"]}, "billing": {"model": "M"}},
            r"\[agents.a\] of Settings: handoffs: there is no agent 'biling'. Did you mean 'billing'",
        ),
        ({"a": {"model": "M", "handoffs": ["a"]}}, "cannot hand over to itself"),
        ({"a": {"model": "M", "return_to": "frist"}}, "return_to is 'last' or 'first'"),
        ({"a": {"model": "M", "kind": "plan", "handoffs": ["b"]}}, "It is an option of kind = 'react'"),
        ({"a": {"model": "M", "checks": ["pii"]}}, "checks must be a list of tables"),
        (
            {"a": {"model": "M", "checks": [{"check": "pi"}]}},
            r"checks\[1\]: there is no check 'pi'. Did you mean 'pii'",
        ),
        ({"a": {"model": "M", "checks": [{"check": "pii", "on": "outptu"}]}}, "Did you mean 'output'"),
        ({"a": {"model": "M", "checks": [{"check": "pii"}]}}, "on=None"),
        ({"a": {"model": "M", "checks": [{"check": "pii", "on": "output", "kind": []}]}}, "Did you mean 'kinds'"),
        ({"a": {"model": "M", "checks": [{"check": "max_length", "on": "output"}]}}, "max_length needs characters"),
        ({"a": {"model": "M", "checks": [{"check": "max_length", "on": "output", "characters": "2"}]}}, "whole number"),
        ({"a": {"model": "M", "checks": [{"check": "no_urls_outside", "on": "output", "hosts": 5}]}}, "list of hosts"),
        ({"a": {"model": "M", "checks": [{"check": "pii", "on": "output", "kinds": 5}]}}, "list of kinds"),
    ],
)
def test_what_is_wrong_is_named(agents: Any, reason: str, model: str) -> None:
    for table in agents.values():
        for key in ("model", "executor"):
            if isinstance(table, dict) and table.get(key) == "M":
                table[key] = model
    with pytest.raises(UsageError, match=reason):
        made(agents)


async def test_checks_are_declared(model: str) -> None:
    checks = [
        {"check": "pii", "on": ["input", "output"], "kinds": ["email"]},
        {"check": "max_length", "characters": 3, "on": "input"},
    ]
    settings = Settings(store="memory://", agents={"a": {"model": model, "checks": checks}})
    async with Runtime(settings=settings) as rt:
        agent = agents_of(rt)["a"]
        assert (await agent.run("too long")).stopped == "refused"
        assert (await agent.run("hi")).text == "yes"


def test_tools_of_mcp_servers_are_not_known_yet(model: str) -> None:
    agents = {"a": {"model": model, "tools": ["theirs"]}}
    assert list(made(agents, mcp={"servers": {"x": {"url": "http://127.0.0.1:1/mcp"}}})) == ["a"]


def test_a_default(model: str) -> None:
    one = {"model": model}
    for agents, more, name in (
        ({"a": one}, {}, "a"),
        ({"a": one, "b": one}, {}, None),
        ({"a": one, "default": one}, {}, "default"),
        ({"a": one, "default": one}, {"default_agent": "a"}, "a"),
        ({}, {}, None),
    ):
        settings = Settings(store="memory://", agents=agents, **more)
        found = agents_of(Runtime([], settings=settings))
        assert default_name(found, settings) == name
        if name is not None:
            assert chosen(found, settings).name == name
        else:
            with pytest.raises((UsageError, NotFound), match=r"default_agent|clicket\.toml"):
                chosen(found, settings)
    with pytest.raises(UsageError, match=r"default_agent.*Did you mean 'helper'"):
        declared_agents(Runtime(settings=Settings(store="memory://", agents={"helper": one}, default_agent="helpr")))


def test_from_file_and_environment(tmp_path: Path, model: str) -> None:
    file = tmp_path / "clicket.toml"
    file.write_text(
        f'default_agent = "b"\n[agents.a]\nmodel = "{model}"\nmax_steps = 3\n[agents.b]\nmodel = "{model}"\n'
    )
    settings = Settings.load(file=file, environ={}, store="memory://")
    assert list(agents_of(Runtime(settings=settings))) == ["a", "b"]
    assert settings.default_agent == "b"
    file.write_text('[agents.a]\nmodel = "nonsense"\n')
    with pytest.raises(UsageError, match=rf"\[agents.a\] of {file}: model:"):
        agents_of(Runtime(settings=Settings.load(file=file, environ={}, store="memory://")))
    given = {"CLICKET_AGENTS": json.dumps({"c": {"model": model}})}
    assert list(Settings.load(file=file, environ=given).agents) == ["c"]
    for wrong in ("x", "[]", '{"a": 1, "a": 2}'):
        with pytest.raises(UsageError, match="setting agents"):
            Settings.load(file=file, environ={"CLICKET_AGENTS": wrong})


def test_secrets_are_not_shown() -> None:
    secret = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"
    agents = {"a": {"model": {"kind": "openai", "model": "x", "base_url": f"https://user:{secret}@example.org"}}}
    assert secret not in repr(Settings(agents=agents))


def test_skills_and_a_workspace(model: str, tmp_path: Path) -> None:
    (tmp_path / "skills" / "report").mkdir(parents=True)
    (tmp_path / "skills" / "report" / "SKILL.md").write_text("---\nname: report\ndescription: Writes reports.\n---\n")
    workspace = {"path": str(tmp_path), "write": False, "shell": False}
    agents = made(
        {
            "one": {"model": model, "skills": [str(tmp_path / "skills")], "workspace": workspace},
            "two": {"kind": "plan", "model": model, "workspace": {"path": str(tmp_path)}},
        }
    )
    names = [agent._lifecycle.identity.middleware for agent in agents.values()]
    assert names[0][0] == "Skills"
    assert names[0][1].endswith(f":{tmp_path} (read)")
    assert names[1][0].endswith(f":{tmp_path} (shell, write)")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("skills", "skills", "skills must be a list of texts"),
        ("skills", ["gone"], r"\[agents.a\] of Settings: skills: gone is not a folder"),
        ("workspace", {"path": "gone"}, "workspace: gone is not a folder"),
        ("workspace", {}, "workspace: Workspace takes the path of a folder"),
        ("workspace", {"pth": "."}, "workspace: unknown key 'pth'.*path"),
        ("workspace", {"path": ".", "shell": "yes"}, "workspace: Workspace takes write=True or False, and shell="),
        ("workspace", ".", "workspace must be a table"),
    ],
)
def test_wrong_skills_and_workspaces(model: str, key: str, value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        made({"a": {"model": model, key: value}})


def test_a_table_without_a_model_can_be_completed() -> None:
    """As `clicket chat --model` does."""
    settings = Settings(store="memory://", agents={"a": {"system": "Be brief."}})
    assert settings.replace(agents={"a": {**settings.values["agents"]["a"], "model": "x"}}).agents["a"].model == "x"
    with pytest.raises(UsageError, match=r"\[agents.a\] of Settings: it has no model"):
        agents_of(Runtime(settings=settings))
