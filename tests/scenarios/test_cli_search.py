"""`clicket search` as users run it: rounds to stderr while they run, the answer and its sources to stdout."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url

from clicket.search import Index

QUESTION = "In which borough was the man born with whom Ada Lovelace worked?"
DOCUMENTS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was a writer. She worked with Charles Babbage."},
    {"id": "charles", "title": "Charles Babbage", "text": "Charles Babbage was an engineer. He was born in Walworth."},
    {
        "id": "walworth",
        "title": "Walworth\x1b[31m",
        "text": "Walworth is a district in the Borough of Southwark.\x1b]0;title\x07",
    },
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "place"
    (folder / ".clicket").mkdir(parents=True)
    with Index.open(folder / ".clicket" / "search.db") as index:
        index.add(DOCUMENTS)
    place = Place(folder, sqlite_url(tmp_path), "")
    yield place
    place.close()


def test_rounds_go_to_stderr_and_the_answer_can_be_piped(place: Place) -> None:
    done = place.inside("search", *QUESTION.split(), COLUMNS="200")
    assert done.returncode == 0, done.stderr
    answer, _, sources = done.stdout.partition("\nSources\n")
    assert "Borough of Southwark" in answer
    numbered = [line.split()[0] for line in sources.splitlines()]
    assert numbered == [f"[{n}]" for n in range(1, len(numbered) + 1)]
    assert "Ada Lovelace, characters 0-26" in sources
    assert all(mark in answer for mark in numbered)
    assert "\x1b" not in done.stderr, "foreign text moves no cursor"
    rounds = [line for line in done.stderr.splitlines() if line.startswith("Round ")]
    assert rounds == ["Round 1", "Round 2"]
    assert "new of 3: Ada Lovelace" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("3 documents · 2 rounds · ")
    shown = place.inside(*last.rpartition("clicket ")[2].split())
    assert shown.returncode == 0, "the search is a normal call"
    assert "from the cache" in place.inside("search", QUESTION).stderr
    assert "from the cache" not in place.inside("search", QUESTION, "--fresh").stderr


def test_for_programs_it_is_json(place: Place) -> None:
    result = place.ask("search", QUESTION, "--max-loop", "1")
    assert "Southwark" in result["output"]["answer"]
    assert len(result["output"]["rounds"]) == 1
    assert (result["success"], result["saved"]) == (True, [])
    streamed = place.inside("--json", "search", QUESTION, "--stream", "--fresh")
    *messages, last = (json.loads(line) for line in streamed.stdout.splitlines())
    assert [one["seq"] for one in messages] == list(range(1, len(messages) + 1))
    assert messages[-1]["messageType"] == "final_result"
    assert messages[-1]["result"] == last["output"]["answer"]
    assert streamed.stderr == ""


def test_reports_have_every_document_whole(place: Place) -> None:
    done = place.inside("search", QUESTION, "--report", "r.md", "--report", "r.html")
    assert done.returncode == 0, done.stderr
    assert "saved r.md · saved r.html" in " ".join(done.stderr.split())
    for name in ("r.md", "r.html"):
        text = (place.folder / name).read_text()
        assert QUESTION in text
        assert all(word in text for word in ("He was born in Walworth.", "She worked with", "Southwark"))
    assert (place.folder / "r.html").read_text().startswith("<!doctype html>")


def test_a_model_that_only_writes_the_answer(place: Place) -> None:
    # The script goes by the number of answers in the conversation, and the prompt has two examples.
    (place.folder / "answers.json").write_text(json.dumps(["-", "-", "1: Charles Babbage was born in Walworth."]))
    result = place.ask("search", "Where was Charles Babbage born?", "--model", "script:answers.json", "--brief")
    assert result["output"]["answer"] == "Charles Babbage was born in Walworth [1]."
    assert [one["text"] for one in result["output"]["citations"]] == ["He was born in Walworth."]


def test_another_model_writes_the_answer_if_the_first_cannot_be_reached(place: Place) -> None:
    (place.folder / "answers.json").write_text(json.dumps(["-", "-", "1: Charles Babbage was born in Walworth."]))
    models = ("--model", "openai:gone", "--model", "script:answers.json")
    gone = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = place.inside("--json", "search", "Where was Charles Babbage born?", *models, "--brief", **gone)
    assert json.loads(done.stdout)["output"]["answer"] == "Charles Babbage was born in Walworth [1].", done.stderr


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--engine", "brav"], 2, "no search engine of the kind 'brav'. Did you mean 'brave'?"),
        (["--engine", "brave"], 2, "BRAVE_API_KEY is not set"),
        (["--model", "gpt-x"], 2, "gpt-x"),
        (["--brief"], 2, "brief is about how a model answers, and there is none"),
        (["--report", "r.pdf"], 2, "r.pdf"),
        (["--report", "none/r.md"], 2, "none/r.md"),
        (["--timeout", "soon"], 2, "soon"),
        (["--index", "other.db"], 2, "no index other.db. Make one with: clicket index FOLDER --index other.db"),
        (["--max-loop", "0"], 2, "rounds from 1 to 10, not 0"),
        (["--max-loop", "11"], 2, "rounds from 1 to 10, not 11"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(place: Place, options: list[str], code: int, reason: str) -> None:
    done = place.inside("search", QUESTION, *options, BRAVE_API_KEY="")
    assert done.returncode == code
    assert reason in " ".join(done.stderr.split())
    assert "Settings" not in done.stderr, "the error names the command line"
    assert done.stdout == ""
    assert not (place.folder / "other.db").exists()


def test_without_a_question_or_an_index_there_is_nothing_to_do(place: Place) -> None:
    empty = place.inside("search", " ")
    assert empty.returncode == 2
    assert "question is empty" in empty.stderr
    (place.folder / ".clicket" / "search.db").unlink()
    done = place.inside("search", QUESTION)
    assert done.returncode == 2
    assert "Make one with: clicket index FOLDER. Or search the web: --engine" in " ".join(done.stderr.split())
    assert place.ask("ps", "--all")["calls"] == [], "no call was made"


def test_the_command_line_wins_over_the_settings_file(place: Place) -> None:
    (place.folder / "clicket.toml").write_text(
        '[search]\nmax_loop = 1\nengine = {kind = "searxng", url = "http://127.0.0.1:9", max_retries = 0}\n'
    )
    failed = place.inside("search", QUESTION)
    assert failed.returncode == 1
    assert "could not be reached" in " ".join(failed.stderr.split())
    done = place.inside("search", QUESTION, "--engine", "index")
    assert done.returncode == 0, done.stderr
    assert "Round 2" not in done.stderr, "the rest of the settings file applies"
    both = place.inside("--json", "search", QUESTION, "--engine", "index", "--engine", "searxng")
    assert both.returncode == 2
    assert "searxng" in both.stdout + both.stderr


def test_ctrl_c_ends_the_search_and_says_so(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # accepts connections and never answers
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        (place.folder / "clicket.toml").write_text(f'[search]\nengines = [{{kind = "searxng", url = "{url}"}}]\n')
        command = place.start("search", QUESTION)
        command.until(lambda: "Round 1" in command.err)
        command.signal(signal.SIGINT)
        assert command.ended() == 130
    assert "cancelled" in command.err
    (call,) = place.ask("ps", "--all")["calls"]
    assert (call["tool"], call["state"]) == ("deep_search", "cancelled")
