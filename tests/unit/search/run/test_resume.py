"""A search resumes from its checkpoints: it ends with the same bytes, and no finished stage is repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.search.fakes import Engine, Plans, Scores, document, kinds, leaping

from clicket.errors import UsageError
from clicket.model.chat import Usage
from clicket.search import Budget, FileCheckpoints, MemoryCheckpoints, SearchResult, deep_search, deep_search_stream
from clicket.search.usage import add_note, add_usage
from clicket.testing import ScriptedModel

QUESTION = "Where was the director of Alpha born?"
TABLE: dict[str, Any] = {
    "alpha": [document("a", "Alpha is a film by Ada Blum. " * 9, score=3.5), document("b", score=1.0)],
    "beta": ConnectionError("refused"),
    "gamma": [],
    "delta": [document("d", "Ada Blum was born in Bern. ü 中文 " * 3), {"text": "no id"}, 7],
    "slow": "hang",
}


class Killed(Exception):
    """Simulates the death of the process."""


class Fragile(MemoryCheckpoints):
    """Dies once it has saved so many."""

    def __init__(self, saves: int) -> None:
        super().__init__()
        self.saves = saves

    async def save(self, key: str, data: bytes) -> None:
        await super().save(key, data)
        self.saves -= 1
        if self.saves == 0:
            raise Killed


def options(engine: Engine) -> dict[str, Any]:
    plans = Plans(["alpha", "beta", "gamma"], ["delta", "slow"], ["epsilon"])
    return {"engine": engine, "planner": plans, "analyzer": Scores((0.3, ["more"]), (0.5, []))}


def encoded(result: SearchResult) -> bytes:
    return msgspec.json.encode(result.to_json())


def whole() -> tuple[bytes, list[str], MemoryCheckpoints]:
    engine, kept = Engine(TABLE), MemoryCheckpoints()
    result = leaping(lambda: deep_search(QUESTION, checkpoints=kept, **options(engine)))
    return encoded(result), engine.asked, kept


def test_killed_after_any_save_it_ends_with_the_same_bytes_and_repeats_nothing() -> None:
    wanted, asked, kept = whole()
    assert sorted(kept.kept) == sorted(
        "plan:1 search:1:0 search:1:1 search:1:2 analysis:1 plan:2 search:2:0 search:2:1 analysis:2 "
        "plan:3 search:3:0 analysis:3 synthesis".split()
    )
    for saves in range(1, len(kept.kept) + 1):
        fragile, first, second = Fragile(saves), Engine(TABLE), Engine(TABLE)
        with pytest.raises(Killed):
            leaping(lambda: deep_search(QUESTION, checkpoints=fragile, **options(first)))  # noqa: B023
        finished = {
            query
            for at, queries in enumerate((["alpha", "beta", "gamma"], ["delta", "slow"], ["epsilon"]), 1)
            for number, query in enumerate(queries)
            if f"search:{at}:{number}" in fragile.kept
        }
        result = leaping(lambda: deep_search(QUESTION, checkpoints=fragile, **options(second)))  # noqa: B023
        assert encoded(result) == wanted, saves
        assert not finished & set(second.asked), saves
        assert finished | set(second.asked) == set(asked), saves


def test_a_search_that_did_not_wait_is_kept_before_the_next_one_begins() -> None:
    kept, before = MemoryCheckpoints(), {}

    async def engine(query: str) -> list[Any]:
        before[query] = sum(key.startswith("search:") for key in kept.kept)
        return [document(query)]

    plans = Plans(["alpha", "beta", "gamma"])
    leaping(lambda: deep_search(QUESTION, engine=engine, planner=plans, checkpoints=kept, max_loop=1))
    assert before == {"alpha": 0, "beta": 1, "gamma": 2}


def test_a_finished_search_is_not_run_at_all() -> None:
    wanted, _, kept = whole()
    engine = Engine(TABLE)
    assert encoded(leaping(lambda: deep_search(QUESTION, checkpoints=kept, **options(engine)))) == wanted
    assert engine.asked == []


def test_notes_and_usage_of_an_empty_last_plan_are_replayed() -> None:
    async def planned(findings: Any) -> list[str]:
        add_usage(Usage(input_tokens=5))
        add_note(f"planned round {len(findings.rounds) + 1}")
        return ["alpha"] if not findings.rounds else []

    kept, given = MemoryCheckpoints(), {"planner": planned, "analyzer": Scores((0.3, ["more"]))}
    first = leaping(lambda: deep_search(QUESTION, engine=Engine(TABLE), checkpoints=kept, **given))
    assert (first.stopped, first.usage.total) == ("nothing_new", 10)
    assert first.notes == ("planned round 1", "planned round 2")
    assert encoded(leaping(lambda: deep_search(QUESTION, engine=Engine(), checkpoints=kept, **given))) == encoded(first)


def test_a_resumed_search_keeps_its_documents_though_the_engine_has_others() -> None:
    wanted, _, kept = whole()
    del kept.kept["synthesis"]
    engine = Engine(default=[document("other")])
    assert encoded(leaping(lambda: deep_search(QUESTION, checkpoints=kept, **options(engine)))) == wanted


def test_finished_work_is_not_announced_again_and_the_numbers_go_on() -> None:
    async def told(kept: MemoryCheckpoints) -> list[dict[str, Any]]:
        return [one async for one in deep_search_stream(QUESTION, checkpoints=kept, **options(Engine(TABLE)))]

    kept = MemoryCheckpoints()
    before = leaping(lambda: told(kept))
    for key in ("synthesis", "analysis:3", "search:3:0", "plan:3", "analysis:2", "search:2:1"):
        del kept.kept[key]
    after = leaping(lambda: told(kept))
    assert kinds(after)[:3] == ["searching", "search", "analyzing"]
    assert after[0]["resumed"] is True
    assert [one["seq"] for one in after] == list(range(after[0]["seq"], after[0]["seq"] + len(after)))
    extended = next(one for one in before if one["messageType"] == "extend" and one["loop"] == 2)
    assert after[0]["seq"] == extended["seq"] + 2, "after the state message before the searches"
    assert after[1]["searchResult"]["query"] == ["delta", "slow"]


def test_a_search_ended_by_time_resumes_with_the_same_end() -> None:
    engine, kept = Engine(TABLE), MemoryCheckpoints()
    given = {**options(engine), "checkpoints": kept, "max_loop": 5}
    first = leaping(lambda: deep_search(QUESTION, budget=Budget(max_seconds=19, query=30), **given))
    assert first.stopped == "budget"
    again = leaping(lambda: deep_search(QUESTION, budget=Budget(max_seconds=400), **given))
    assert encoded(again) == encoded(first)


@pytest.mark.parametrize("damage", [b"", b"{", b"null", b"[]", b'{"fingerprint":"x"}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_record_is_noted_and_done_again(damage: bytes) -> None:
    wanted, _, kept = whole()
    kept.kept["search:2:0"] = damage
    engine = Engine(TABLE)
    result = leaping(lambda: deep_search(QUESTION, checkpoints=kept, **options(engine)))
    assert engine.asked == ["delta", "epsilon"], "everything derived from it is redone"
    assert any("'search:2:0'" in note and "damaged" in note for note in result.notes)
    assert [one.id for one in result.documents] == [one["id"] for one in msgspec.json.decode(wanted)["documents"]]


@pytest.mark.parametrize("other", [{"max_loop": 2}, {"k": 3}, {"budget": Budget(max_queries=3)}])
def test_records_of_another_search_are_not_used(other: dict[str, Any]) -> None:
    _, _, kept = whole()
    engine = Engine(TABLE)
    result = leaping(lambda: deep_search(QUESTION, checkpoints=kept, **{**options(engine), **other}))
    assert "alpha" in engine.asked
    assert any("'plan:1'" in note and "another search" in note for note in result.notes)


def test_a_query_with_too_large_a_record_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.search.run.checkpoints._MAX_RECORD", 4_000)
    table = {"long": [document("l", "word " * 700)], "books": [document("b", "word " * 1_000)]}
    given: dict[str, Any] = {"planner": Plans(["long", "books"]), "analyzer": Scores((0.9, [])), "max_loop": 1}
    kept = MemoryCheckpoints()
    first = leaping(lambda: deep_search(QUESTION, engine=Engine(table), checkpoints=kept, **given))
    assert "search:1:0" in kept.kept
    assert "search:1:1" not in kept.kept
    engine = Engine(table)
    again = leaping(lambda: deep_search(QUESTION, engine=engine, checkpoints=kept, **given))
    assert engine.asked == ["books"]
    assert encoded(again) == encoded(first)


def test_checkpoints_in_files(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    first = Engine(TABLE)
    result = leaping(lambda: deep_search(QUESTION, checkpoints=FileCheckpoints(folder), **options(first)))
    assert sorted(one.suffix for one in folder.iterdir()) == [".json"] * 13
    (folder / "half.1.part").write_bytes(b"left by a process that died while it wrote")
    second = Engine(TABLE)
    again = leaping(lambda: deep_search(QUESTION, checkpoints=FileCheckpoints(folder), **options(second)))
    assert encoded(again) == encoded(result)
    assert second.asked == []
    FileCheckpoints(folder).clear()
    assert FileCheckpoints(folder).load() == {}


def test_checkpoints_need_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="folder"):
        FileCheckpoints(tmp_path / "file")


_PROGRAM = """
import asyncio, sys
import msgspec
from clicket.search import Document, deep_search

words = "Ada Blum Bern Alpha Zurich River Lake".split()
pages = [Document(id=w, title=w, text=" ".join(f"{w} knows {o}." for o in words if o != w), score=1.0) for w in words]

async def engine(query):
    return [page for page in pages if page.title.lower() in query.lower()] or pages[:2]

async def main():
    result = await deep_search("How are Ada and Zurich and the River of Bern linked?", engine=engine, max_loop=3)
    sys.stdout.buffer.write(msgspec.json.encode(result.to_json()))

asyncio.run(main())
"""


def test_the_same_bytes_under_other_hash_seeds() -> None:
    def run(seed: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        return done.stdout

    first = run("1")
    assert first == run("2")
    assert msgspec.json.decode(first)["documents"]


@pytest.mark.parametrize("parts", ["built_in", "model"])
async def test_the_stored_form_of_checkpoints_does_not_change(parts: str) -> None:
    """Neither engine nor model is called again."""
    stored = json.loads((Path(__file__).parent / "fixtures" / "checkpoints.json").read_text())[parts]
    checkpoints = MemoryCheckpoints()
    checkpoints.kept = {key: json.dumps(record).encode() for key, record in stored["checkpoints"].items()}
    engine, model = Engine(name="library"), ScriptedModel([], name="scripted")
    result = await deep_search(
        "Where was the founder of the Marrow Institute born?",
        engine=engine,
        model=model if parts == "model" else None,
        max_loop=2,
        checkpoints=checkpoints,
    )
    assert (engine.asked, model.requests) == ([], [])
    assert (result.answer, list(result.notes), result.stopped) == (stored["answer"], stored["notes"], stored["stopped"])
