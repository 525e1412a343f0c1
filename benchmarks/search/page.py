"""SEARCH.md: required and measured figures, beside those of papers, with commit, machine and command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import table
from benchmarks.search import answers
from benchmarks.search.data import KNOWN
from benchmarks.search.documents import SETS
from benchmarks.search.methods import METHODS
from benchmarks.search.published import CAVEATS, PUBLISHED, SOURCES

__all__ = ["page", "tables"]

_INTRODUCTION = (
    "Made by `make bench-search DATA=<folder>`; do not edit. Recall is the share of a question's supporting passages among "
    "the first 2, 5 or 10 documents of the result, in percent; in brackets the 95 % bootstrap interval over the questions. "
    "CPU is that of the whole process, all threads, for one question, each row in a fresh process; in rows without MiniLM each "
    "question is asked in five processes, and the least counts. It grows with what else the machine does, which the load tells. "
    "No language model is used, except in the section of its own."
)
# Required recall@5: minimum, and target.
_RECALL = (
    ("round3", "no model", {"2wiki": (95, 97), "hotpotqa": (91, 94), "musique": (58, 65)}),
    ("minilm3", "with MiniLM", {"2wiki": (96, 98), "hotpotqa": (93, 96), "musique": (63, 70)}),
    ("untitled", "titles removed, no model", {"2wiki": (85, 92), "hotpotqa": (86, 92), "musique": (55, 62)}),
)


def page(kept: Mapping[str, Any], machine: str, plot: str) -> str:
    parts = ["# How well deep search finds", _INTRODUCTION, f"Machine: {machine}.", "## Required", _required(kept)]
    parts += [f"![Recall at 5 by rounds, beside published figures]({plot})"] if _sets(kept) else []
    return "\n\n".join([*parts, tables(kept)]) + "\n"


def tables(kept: Mapping[str, Any]) -> str:
    """All tables of the existing parts."""
    sets = _sets(kept)
    parts = []
    if sets:
        parts += ["## Recall of the supporting passages", _recall(sets), _sources(sets)]
        parts += ["### Intervals of recall@5, and all supporting passages in the first five", _intervals(sets)]
        parts += ["### Papers, recall at 2 / 5", _papers(sets), SOURCES, "\n".join(f"- {one}" for one in CAVEATS)]
        parts += ["## Answers, citations and cost", _ANSWERS, _answers(sets)]
        parts += ["## What `completeness_score` is worth", _CALIBRATION, _calibration(sets), _bins(sets)]
    if found := kept.get("answers"):
        parts += [
            "## The first sentence, and questions without an answer",
            answers.INTRODUCTION,
            answers.section(found["answers"]),
        ]
        parts += [_sources({"answers": found})]
    if size := _size(kept):
        parts += ["## Size", size]
    return "\n\n".join(parts)


_ANSWERS = (
    "An answer counts when it stands, word for word, in one of the first 8 cited sentences; questions without a given answer "
    "and those answered by yes or no are left out. A citation counts as verified when the passage in the data has that text "
    "at that place and the hash is the text's."
)
_CALIBRATION = (
    "The score of the last round that was made, against whether all supporting passages are among the first five. AUC is "
    "how often a question that has them scores higher than one that has not: 0.5 is chance. The second AUC is against "
    "whether the answer is in the cited sentences."
)


def _sets(kept: Mapping[str, Any]) -> dict[str, Any]:
    names = [*(name for name in KNOWN if name in kept), *(name for name in kept if name not in KNOWN)]
    return {name: kept[name] for name in names if "rows" in kept[name]}


def _head(sets: Mapping[str, Any]) -> list[str]:
    return [f"{one['title']} ({one['questions']} questions, {one['passages']:,} passages)" for one in sets.values()]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _recall(sets: Mapping[str, Any]) -> str:
    rows = [
        [method.title, *(_triple(one["rows"].get(method.name)) for one in sets.values())]
        for method in METHODS
        if any(method.name in one["rows"] for one in sets.values())
    ]
    return table(["recall @2 / @5 / @10", *_head(sets)], rows)


def _triple(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else " / ".join(_percent(row[f"recall@{k}"]) for k in (2, 5, 10))


def _intervals(sets: Mapping[str, Any]) -> str:
    rows = [
        [method.title, *(_interval(one["rows"].get(method.name)) for one in sets.values())]
        for method in METHODS
        if any(method.name in one["rows"] for one in sets.values())
    ]
    return table(["recall@5 (95 %), all in first five", *(one["title"] for one in sets.values())], rows)


def _interval(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    low, high = row["recall@5_interval"]
    return f"{_percent(row['recall@5'])} ({_percent(low)} – {_percent(high)}), {_percent(row['all_gold@5'])}"


def _papers(sets: Mapping[str, Any]) -> str:
    rows = [
        [f"{name} [{source}]", *(_pair(pairs.get(key)) for key in sets)]
        for name, source, pairs in PUBLISHED
        if any(key in pairs for key in sets)
    ]
    return table(["", *(one["title"] for one in sets.values())], rows)


def _pair(pair: tuple[float | None, float] | None) -> str:
    if pair is None:
        return "–"
    return f"{'–' if pair[0] is None else pair[0]} / {pair[1]}"


def _answers(sets: Mapping[str, Any]) -> str:
    heads = ["", "", "answer in ≤ 8 sentences", "citations verified", "most cited", "rounds", "queries"]
    heads += ["CPU ms, mean", "p95", "stopped by"]
    rows = []
    for one in sets.values():
        for method in METHODS:
            row = one["rows"].get(method.name)
            if row is None:
                continue
            cells = [one["title"], method.title]
            if not method.rounds:
                rows.append([*cells, *("–",) * 5, f"{row['cpu_ms']:.1f}", f"{row['cpu_ms_p95']:.1f}", "–"])
                continue
            cells += [_answered(row), _verified(row), str(row["most_citations"])]
            cells += [
                f"{row['rounds']:.2f}",
                f"{row['queries']:.1f}",
                f"{row['cpu_ms']:.1f}",
                f"{row['cpu_ms_p95']:.1f}",
            ]
            rows.append([*cells, ", ".join(f"{why} {count}" for why, count in row["stopped"].items())])
    return table(heads, rows)


def _answered(row: Mapping[str, Any]) -> str:
    if row["answered"] is None:
        return "–"
    low, high = row["answered_interval"]
    return f"{_percent(row['answered'])} ({_percent(low)} – {_percent(high)}) of {row['answers']}"


def _verified(row: Mapping[str, Any]) -> str:
    return f"{row['citations'] - row['wrong_citations']:,} of {row['citations']:,}"


def _calibration(sets: Mapping[str, Any]) -> str:
    rows = []
    for one in sets.values():
        for method in METHODS:
            found = one["calibration"].get(method.name)
            if found is None:
                continue
            aucs = ["–" if found[key] is None else f"{found[key]:.2f}" for key in ("auc", "auc_answer")]
            rows.append([one["title"], method.title, *aucs, f"{found['mean_score']:.2f}", f"{found['share_good']:.2f}"])
    return table(["", "", "AUC, passages", "AUC, answer", "mean score", "share that has all"], rows)


def _bins(sets: Mapping[str, Any]) -> str:
    rows = []
    for one in sets.values():
        for name in ("round3", "minilm3"):
            found = one["calibration"].get(name)
            if found is None:
                continue
            title = next(method.title for method in METHODS if method.name == name)
            cells = [
                f"{_percent(share)} of {count} ({low:.2f} – {high:.2f})" for low, high, count, share in found["bins"]
            ]
            rows.append([one["title"], title, *cells, *["–"] * (5 - len(cells))])
    heads = ["% that have all, by score", "", "lowest fifth", "second", "third", "fourth", "highest fifth"]
    return table(heads, rows) if rows else ""


def _size(kept: Mapping[str, Any]) -> str:
    rows = []
    if found := kept.get("indexing"):
        rows.append(["indexing, all sets in one file", f"{found['passages']:,} passages", _rate(found)])
    if found := kept.get("scale"):
        rows.append(["indexing, passages made of theirs", f"{found['passages']:,} passages", _rate(found)])
        told = f"{found['cpu_ms']:.1f} ms CPU mean, {found['cpu_ms_p95']:.1f} p95, {found['wall_ms']:.1f} ms of time"
        rows.append(
            [f"deep search there, 3 rounds, {found['questions']} questions", f"{found['passages']:,} passages", told]
        )
        rows.append(["the first question after opening", "", f"{found['first_cpu_ms']:.0f} ms CPU"])
    if found := kept.get("folder"):
        files = f"{found['files']:,} files"
        rows.append(["a folder, indexed for the first time", files, f"{found['first_seconds']:.1f} s"])
        rows.append(["the same again, nothing changed", files, f"{found['unchanged_seconds']:.2f} s"])
        rows.append(["the same again, one file changed", files, f"{found['one_changed_seconds']:.2f} s"])
    if found := kept.get("embedding"):
        told = f"{found['passage_cpu_ms']:.1f} ms CPU a passage, {found['question_cpu_ms']:.1f} a question"
        rows.append(["MiniLM, one thread", f"{found['passages']} passages and questions", told])
        rows.append(["MiniLM, its weights read", "", f"{found['loading_cpu_ms']:.0f} ms CPU"])
    if not rows:
        return ""
    named = {name: kept[name] for name in ("indexing", "scale", "folder", "embedding") if name in kept}
    return table(["what", "of", "measured"], rows) + "\n\n" + _sources(named)


def _rate(found: Mapping[str, Any]) -> str:
    size = found["bytes"] / 1e6
    return (
        f"{found['per_second']:,.0f} a second ({found['per_cpu_second']:,.0f} a second of CPU), {size:.0f} MB on disk"
    )


def _sources(parts: Mapping[str, Any]) -> str:
    told: dict[str, list[str]] = {}
    for name, one in parts.items():
        what = f"`{one['command']}` at commit {one['commit']}, {one['measured_at']}, load before {one['load']:.1f}"
        told.setdefault(what, []).append(name)
    return " ".join(f"{', '.join(names)}: {what}." for what, names in told.items())


# --- requirements - ----------------------------------------------------------------------------------------------------


def _required(kept: Mapping[str, Any]) -> str:
    sets, rows = _sets(kept), []
    for method, what, bars in _RECALL:
        for name, one in sets.items():
            if name in bars and method in one["rows"]:
                measured = 100 * one["rows"][method]["recall@5"]
                rows.append(_verdict(f"recall@5, {one['title']}, {what}", *bars[name], measured, "≥"))
    for one in sets.values():
        row = one["rows"].get("round3")
        if row is None:
            continue
        if row["answered"] is not None and one["title"] == KNOWN["musique"]:
            rows.append(_verdict(f"answer in ≤ 8 sentences, {one['title']}", 45, None, 100 * row["answered"], "≥"))
        rows.append(_verdict(f"CPU ms a question, {one['title']}, no model", 8, None, row["cpu_ms"], "≤"))
    wrong = sum(row["wrong_citations"] for one in sets.values() for row in one["rows"].values())
    if sets:
        rows.append(_verdict("citations that are false, all rows", 0, None, wrong, "≤"))
    rows += _required_answers(kept.get("answers", {}).get("answers", {}))
    if found := kept.get("indexing"):
        rows.append(_verdict("passages indexed a second of CPU", 2000, None, found["per_cpu_second"], "≥"))
    if found := kept.get("scale"):
        text = f"CPU ms of 95 of 100 questions at {found['passages']:,} passages"
        rows.append(_verdict(text, 40, None, found["cpu_ms_p95"], "≤"))
    if found := kept.get("folder"):
        text = f"seconds to read an unchanged folder of {found['files']:,} files again"
        rows.append(_verdict(text, 10, None, found["unchanged_seconds"], "≤"))
    return table(["what", "required", "hoped for", "measured", "ok"], rows)


def _required_answers(found: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for name, column, text, bar in (
        (f"{SETS['debian']}, held-back", "first", "in the first sentence", 30),
        (f"{SETS['debian']}, held-back", "three", "in the first three", 60),
        (KNOWN["hotpotqa"], "three", "in the first three", 75),
    ):
        if name in found:
            rows.append(_verdict(f"% of answers {text}, {name}", bar, None, 100 * found[name][column]["share"], "≥"))
    for what, text, limit, sign in (
        ("recognised", "without an answer that are recognised", 85, "≥"),
        ("refused", "with an answer that are refused", 5, "≤"),
    ):
        some, of = answers.of_all_sets(found, what)
        if of:
            rows.append(_verdict(f"% of questions {text}, all sets", limit, None, 100 * some / of, sign))
    return rows


def _verdict(text: str, bar: float, aim: float | None, measured: float, sign: str) -> list[str]:
    def met(limit: float) -> bool:
        return round(measured, 1) >= limit if sign == "≥" else round(measured, 1) <= limit

    ok = "NO" if not met(bar) else "yes" if aim is None or met(aim) else "yes, hope missed"
    return [text, f"{sign} {bar:,g}", "–" if aim is None else f"{sign} {aim:,g}", f"{measured:,.1f}", ok]
