"""`clicket eval` and `clicket cases`: judges agents by cases; makes cases of turns that are on record."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from clicket.cli.context import Context
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import parse_duration
from clicket.cli.options import CallerOption
from clicket.cli.progress_bar import ProgressBar
from clicket.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from clicket.evals import Case, Check, Report, Trial

__all__ = ["cases", "evaluate"]

_LINE_EVERY = 10.0
_KNOWN = ("cases", "agents", "agent", "checks", "tools", "name")


async def evaluate(
    context: Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A Python file with `cases`, `agents` and `checks`; or cases: .jsonl, or a dataset of pydantic-evals (.json, .yaml).",
        ),
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An agent of the settings; repeatable. Default: the default agent, or all of FILE."
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            help="A check of clicket.evals with its arguments, such as text_contains=refunded or max_steps=5; or module:name. Repeatable.",
        ),
    ] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this case; repeatable.")] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Under which the results are kept; default: the name of FILE.")
    ] = None,
    fail_under: Annotated[
        float, typer.Option(metavar="RATE", min=0, max=1, help="Exit with 1 if fewer trials pass, such as 0.9.")
    ] = 1.0,
    junit: Annotated[Path | None, typer.Option(metavar="PATH", help="Write JUnit's XML, for CI.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="PATH", help="Write Markdown.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write a page of HTML.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-j", min=1, help="Cases that run at once.")] = 8,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.001, help="For one case.")] = 300.0,
) -> None:
    """Run cases with agents, and judge what they do.

    Cases with recorded results run no tool. Results are kept in the store: an evaluation that was interrupted goes on, and the report says
    what has changed since the last one. Exits with 1 if fewer trials pass than --fail-under says.
    """
    from clicket import evals

    if file.suffix == ".py":
        given = await _given(context, file)
        listed, agents, checks, tools = given["cases"], given["agents"], given["checks"], given["tools"]
        if agent:
            agents = _chosen(agents, agent)
    else:
        listed, agents, checks, tools = evals.load_cases(file), _declared(context, agent), [], context.tools
    checks = [*checks, *map(_check, check or ())]
    if case:
        unknown = next((each for each in case if each not in [known.name for known in listed]), None)
        if unknown is not None:
            raise UsageError(
                f"{file} has no case {unknown!r}.{did_you_mean(unknown, [known.name for known in listed])}"
            )
        listed = [known for known in listed if known.name in case]
    done = 0

    def show(trial: Trial) -> None:
        nonlocal done
        done += 1
        bar.show(f"{done} {trial.agent}/{trial.name}", done=done)

    async with context.runtime() as rt:
        with ProgressBar(context.terminal, "cases", line_every=None if context.terminal.json else _LINE_EVERY) as bar:
            report = await evals.evaluate(
                listed,
                agents,
                checks,
                tools=tools,
                name=name or file.stem,
                rt=rt,
                concurrency=concurrency,
                timeout=timeout,
                on_trial=show,
            )
    for path, written in ((junit, evals.junit), (markdown, evals.markdown), (html, evals.html)):
        if path is not None:
            path.write_text(written(report), "utf-8")
    _print(context, report)
    if report.rate < fail_under:
        raise CallFailed


def _print(context: Context, report: Report) -> None:
    if not context.terminal.json:
        context.terminal.out.print(str(report), markup=False, highlight=False, soft_wrap=True)
        return
    trials = [
        {
            "case": trial.name,
            "agent": trial.agent,
            "passed": trial.passed,
            "why": trial.why,
            "steps": trial.steps,
            "seconds": trial.seconds,
            "cost": trial.usage.cost,
            "scores": msgspec.to_builtins(trial.scores),
        }
        for trial in report.trials
    ]
    context.terminal.print_json(
        {
            "name": report.name,
            "run": report.run,
            "commit": report.commit,
            "rate": report.rate,
            "passed": report.passed,
            "agents": msgspec.to_builtins(report.figures),
            "newly_failed": [f"{trial.agent}/{trial.name}" for trial in report.newly_failed],
            "newly_passed": [f"{trial.agent}/{trial.name}" for trial in report.newly_passed],
            "trials": trials,
        }
    )


async def _given(context: Context, file: Path) -> dict[str, Any]:
    """What a Python file has; a function is called."""
    from clicket.cli.tool_loader import module_of

    module = module_of(str(file))
    found = {name: await _value(module, name) for name in _KNOWN}
    agents = found["agents"] if found["agents"] is not None else found["agent"]
    if found["cases"] is None:
        public = [name for name in vars(module) if not name.startswith("_")]
        raise UsageError(f"{file} has no `cases`: write cases = [Case('a message')].{did_you_mean('cases', public)}")
    return {
        "cases": list(found["cases"]),
        "agents": _declared(context, None) if agents is None else agents,
        "checks": [found["checks"]] if callable(found["checks"]) else list(found["checks"] or ()),
        "tools": context.tools if found["tools"] is None else found["tools"],
    }


async def _value(module: ModuleType, name: str) -> Any:
    """`cases` may be a function of nothing, sync or async; `agent`, and what is in `agents`, are functions of a runtime."""
    value = getattr(module, name, None)
    if name == "cases" and callable(value):
        value = value()
        return await value if inspect.isawaitable(value) else value
    return value


def _chosen(agents: Any, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(agents, dict):
        raise UsageError("--agent chooses among agents with names: write agents = {'name': agent, …} in the file.")
    unknown = next((name for name in names if name not in agents), None)
    if unknown is not None:
        raise UsageError(f"the file has no agent {unknown!r}.{did_you_mean(unknown, agents)}")
    return {name: agents[name] for name in names}


def _declared(context: Context, names: Sequence[str] | None) -> dict[str, Any]:
    """Agents of the settings, each as a function that makes it on a runtime."""
    from clicket.runtime.agent_config import HOW_TO_DECLARE, declared_agents, default_name
    from clicket.runtime.runtime import Runtime

    known = declared_agents(Runtime(context.tools, settings=context.settings.replace(store="memory://")))
    if not known:
        raise UsageError(f"there are no agents. {HOW_TO_DECLARE}")
    unknown = next((name for name in names or () if name not in known), None)
    if unknown is not None:
        raise UsageError(f"there is no agent {unknown!r}.{did_you_mean(unknown, known)}")
    default = default_name(known, context.settings)
    wanted = list(names or ([default] if default is not None else known))
    return {name: known[name].on for name in wanted}


def _check(text: str) -> Check:
    """`NAME=ARGUMENT,ARGUMENT`, or `module:name`."""
    from clicket import evals
    from clicket.evals import checks

    name, equals, given = text.partition("=")
    known = [each for each in checks.__all__ if each != "judge"]
    if name in known:
        arguments: list[Any] = [_argument(each) for each in given.split(",")] if equals else []
        try:
            made: Check = getattr(evals, name)(*arguments)
        except TypeError:
            raise UsageError(f"--check {text}: {name} takes other arguments; see the guide on evaluations.") from None
        return made
    if ":" not in text:
        raise UsageError(
            f"--check {text}: there is no such check.{did_you_mean(name, known)} Known: {', '.join(known)}; or module:name of a function."
        )
    from clicket.cli.tool_loader import find_named

    found: Check = find_named(text, f"--check {text}")
    return found


def _argument(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


async def cases(
    context: Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="To write, lines of JSON; .json: a dataset of pydantic-evals.")
    ],
    thread: Annotated[str | None, typer.Option(help="Only this thread.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only turns of this agent.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only turns that called this tool.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only turns that ended so long ago at most: 1h, 2d.")
    ] = None,
    caller: CallerOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most N cases.")] = 1_000,
) -> None:
    """Write turns that are on record to a file, as cases for `clicket eval`.

    Each has its message, what came before it, and the results of its tool calls. Secrets are masked; other
    data of your users is in the file.
    """
    from clicket.evals import cases_of, save_cases, to_pydantic_evals
    from clicket.model.codec import encode

    found: list[Case] = []
    if context.store_exists:
        async with context.watcher() as rt:
            of = rt if caller is None else rt.acting_for(caller)
            after = None if since is None else time.time() - parse_duration(since)
            found = await cases_of(of, thread=thread, agent=agent, tool=tool, since=after, limit=limit)
    if file.suffix == ".json":
        file.write_bytes(encode(to_pydantic_evals(found)))
    else:
        save_cases(file, found)
    if context.terminal.json:
        context.terminal.print_json({"cases": len(found), "file": str(file)})
    else:
        context.terminal.say(f"{len(found)} cases are in {file}.")
