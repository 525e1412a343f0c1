"""A report as Markdown, a page of HTML, or JUnit's XML."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from xml.etree import ElementTree as ET

from clicket.evals.report import Report, changes, headline
from clicket.evals.trial import Trial
from clicket.model.printable import marked

__all__ = ["html", "junit", "markdown"]


def markdown(report: Report) -> str:
    """For a comment of a pull request."""
    rows = [
        f"| {_cell(each.agent)} | {each.passed} of {each.trials} | {each.rate:.0%} | {each.steps:.1f} | {each.calls:.1f} | "
        f"{each.tokens:,} | {each.cost:.4f} | {each.median_seconds:.2f} | {each.slowest_seconds:.2f} |"
        for each in report.figures
    ]
    parts = [
        f"## {_cell(headline(report))}",
        "",
        "| agent | passed | rate | steps | calls | tokens | cost | median s | slowest s |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    changed = changes(report)
    if changed:
        parts += ["", *(f"- {_cell(line.strip())}" for line in changed)]
    if report.failed:
        parts += ["", "| failed | agent | why |", "|---|---|---|"]
        parts += [f"| {_cell(trial.name)} | {_cell(trial.agent)} | {_cell(trial.why)} |" for trial in report.failed]
    return "\n".join([*parts, ""])


def junit(report: Report) -> str:
    """A suite for each agent and a test for each case, as CI systems read them."""
    root = ET.Element(
        "testsuites", name=_xml(report.name), tests=str(len(report.trials)), failures=str(len(report.failed))
    )
    for figures in report.figures:
        trials = [trial for trial in report.trials if trial.agent == figures.agent]
        errors = sum(bool(trial.error) for trial in trials)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_xml(f"{report.name}.{figures.agent}"),
            tests=str(len(trials)),
            failures=str(len(trials) - figures.passed - errors),
            errors=str(errors),
            time=f"{sum(trial.seconds for trial in trials):.3f}",
            timestamp=datetime.fromtimestamp(report.at, UTC).isoformat(timespec="seconds"),
        )
        for trial in trials:
            test = ET.SubElement(
                suite,
                "testcase",
                classname=_xml(f"{report.name}.{trial.agent}"),
                name=_xml(trial.name),
                time=f"{trial.seconds:.3f}",
            )
            if not trial.passed:
                kind = "error" if trial.error else "failure"
                ET.SubElement(test, kind, message=_xml(trial.why)).text = _xml(_story(trial))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def html(report: Report) -> str:
    """One page without scripts: cases as rows, agents as columns."""
    agents = report.agents
    by_place = {(trial.name, trial.agent): trial for trial in report.trials}
    heads = "".join(
        f"<th>{escape(each.agent)}<small>{each.passed} of {each.trials} · {each.steps:.1f} steps · {each.cost:.4f} · "
        f"{each.median_seconds:.2f} s</small></th>"
        for each in report.figures
    )
    rows = []
    for name in dict.fromkeys(trial.name for trial in report.trials):
        cells = "".join(_html_cell(by_place.get((name, agent))) for agent in agents)
        rows.append(f"<tr><th scope=row>{escape(marked(name))}</th>{cells}</tr>")
    changed = "".join(f"<li>{escape(marked(line.strip()))}</li>" for line in changes(report))
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(report.name)}</title><style>{_STYLE}</style>\n<h1>{escape(marked(headline(report)))}</h1>\n"
        f"<ul>{changed}</ul>\n<table><thead><tr><th>case</th>{heads}</tr></thead><tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table>\n"
    )


_STYLE = (
    ":root{color-scheme:light dark}body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:120ch}"
    "table{border-collapse:collapse;width:100%}th,td{border:1px solid #8886;padding:.4rem .6rem;text-align:left;vertical-align:top}"
    "small{display:block;font-weight:normal;opacity:.7}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}.failed{border-left:4px solid #d33}.passed{border-left:4px solid #2a2}"
)


def _html_cell(trial: Trial | None) -> str:
    if trial is None:
        return "<td>–</td>"
    kind = "passed" if trial.passed else "failed"
    why = f"<div>{escape(marked(trial.why))}</div>" if trial.why else ""
    return (
        f"<td class={kind}><details><summary>{kind}, {trial.steps} steps, {trial.seconds:.2f} s</summary>"
        f"<pre>{escape(marked(_story(trial), lines=True))}</pre></details>{why}</td>"
    )


def _story(trial: Trial) -> str:
    """What the agent did, for a person who looks for the reason."""
    lines = [f"message: {trial.case.message}"]
    lines += [f"{'failed ' if call.failed else ''}{call} -> {call.content[:500]}" for call in trial.calls]
    lines += [
        f"answer: {trial.text}",
        *(f"{score.check}: {'passed' if score.passed else 'failed'} {score.why}" for score in trial.scores),
    ]
    if trial.error:
        lines.append(f"error: {trial.error}")
    return "\n".join(lines)


def _cell(value: str) -> str:
    return marked(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _xml(value: str) -> str:
    """XML has no way to write most control characters."""
    return marked(value, lines=True)
