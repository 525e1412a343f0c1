"""Several processes, threads and hash seeds, and a killed process: a reader always sees a complete state."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clicket.search.index.index import Index

ADD = """
import sys
from clicket.search.index.index import Index

def rows():
    for number in range(3000):
        yield {"id": str(number), "text": f"new common word{number}"}
        if number == 1500:
            print("half", flush=True)
            sys.stdin.readline()

with Index.open(sys.argv[1]) as index:
    index.add(rows())
    print("done", flush=True)
    sys.stdin.readline()
"""

SEARCH = """
import json
from clicket.search.index.index import Index

rows = [{"id": f"d{n}", "title": f"Title {n % 7}", "text": f"common word{n % 13} of Person {n % 11}, born in Town {n % 5}."}
        for n in range(300)] + [{"id": "zh", "text": "绍兴市位于浙江省。" * 500}]
with Index.open() as index:
    index.add(rows)
    found = [index.find(query, k=20) for query in ("common person 3 born", "title 2 word4", "浙江绍兴", "town")]
    print(json.dumps([[(one.id, one.score, one.spans) for one in each] for each in found]))
    print(json.dumps(index.named(["person 3", "title 2"])))
"""


def start(code: str, *arguments: str, seed: str = "0") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )


def state(path: Path) -> tuple[int, int, list[str]]:
    with Index.open(path) as index:
        return index.count, index.frequencies(["common"])[0], [one.id for one in index.find("old")]


@pytest.mark.parametrize("at", ["half", "done"])
def test_a_kill_leaves_the_old_state_or_the_new_one(tmp_path: Path, at: str) -> None:
    path = tmp_path / "index.db"
    with Index.open(path) as index:
        index.add([{"id": "0", "text": "old common"}, {"id": "x", "text": "old"}])
    child = start(ADD, str(path))
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "half\n"
        assert state(path) == (2, 1, ["x", "0"])  # a reader sees nothing of an unfinished write
        if at == "done":
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
        child.kill()
    assert state(path) == ((2, 1, ["x", "0"]) if at == "half" else (3001, 3000, ["x"]))
    with Index.open(path) as index:  # and the next process can write again
        assert index.add([{"id": "again", "text": "old"}]).added == 1


def test_results_do_not_depend_on_the_hash_seed() -> None:
    outputs = []
    for seed in ("1", "2"):
        with start(SEARCH, seed=seed) as child:
            outputs.append(child.communicate()[0])
    assert outputs[0] == outputs[1]
    assert '"zh"' in outputs[0]


def test_an_open_index_sees_what_another_one_writes(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index.db") as one, Index.open(tmp_path / "index.db") as other:
        for turn in range(5):
            other.add([{"id": str(turn), "title": "Same Name", "text": f"word{turn} common"}])
            assert [found.id for found in one.find(f"word{turn}")] == [str(turn)]
            assert list(one.frequencies(["common"])) == [turn + 1]
            assert len(one.named(["same name"])[0]) == turn + 1
        other.remove(["0"])
        assert one.find("word0") == []
        assert one.fetch(["0"]) == []


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "in a thread"])
@pytest.mark.parametrize("where", ["file", "memory"])
async def test_searches_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool, where: str
) -> None:
    """Every answer is of one state: all rows of a batch, or none of them."""
    if not inline:
        monkeypatch.setattr("clicket.search.index.index.MAX_INLINE", -1)
    with Index.open(tmp_path / "index.db" if where == "file" else ":memory:") as index:

        def write() -> None:
            for batch in range(10):
                index.add({"id": f"{batch}-{one}", "text": f"common batch{batch}"} for one in range(20))

        writing = asyncio.create_task(asyncio.to_thread(write))
        while not writing.done():
            found = await asyncio.gather(*(index.search("common", k=500) for _ in range(3)))
            assert all(len(each) % 20 == 0 for each in found)
            await asyncio.sleep(0)
        await writing
        assert len(await index.search("common", k=500)) == 200
