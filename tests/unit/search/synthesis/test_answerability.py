"""Questions that the documents do not answer, on a small index of mixed pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clicket.search import Index, deep_search

PAGES = {
    "quotas": "Quotas\n\nThe quota system limits the disk space of a user. The edquota command changes the limits of a user.",
    "history": "History\n\nTarn Linux was founded by Ada Holt in 1993. Ada Holt led the project until 1996.",
    "cron": "Cron\n\nThe cron daemon runs commands at fixed times. A user edits their own table with crontab -e.",
    "kernel": "Kernel\n\nTo build a kernel package, run the following command:\n\nmake deb-pkg\n\nThe package is put above the tree.",
    "levels": "Levels\n\nThe system has 7 runlevels:\n\n0 (halt the system),\n1 (single-user mode),\n6 (reboot the system).",
}


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    filler = [
        {"id": f"f{n}", "text": f"Page {n} is about part {n % 7} of the system and its manual."} for n in range(60)
    ]
    with Index.open() as index:
        index.add([{"id": name, "text": text} for name, text in PAGES.items()] + filler)
        yield index


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who founded Tarn Linux?", "founded by Ada Holt"),
        ("Which command changes the quota of a user?", "edquota"),
        ("How do I edit my crontab?", "crontab -e"),
        ("How do I build a kernel package?", "make deb-pkg"),
        ("How many runlevels does the system have?", "7 runlevels"),
        ("Which command changes the qoutas of a user?", "edquota"),
        ("如何编辑 crontab？", "crontab -e"),
    ],
)
async def test_the_first_sentence_is_the_answer(index: Index, question: str, answer: str) -> None:
    result = await deep_search(question, engine=index)
    assert result.answered
    assert answer in result.citations[0].text
    assert result.question == question


@pytest.mark.parametrize(
    "question",
    [
        "Who won the football world cup in 2014?",
        "What are the symptoms of malaria?",
        "How do I bake sourdough bread?",
        "Which team did Michael Jordan play for?",
        "When did the Berlin wall fall?",
    ],
)
async def test_a_question_without_an_answer_gets_no_sentences(index: Index, question: str) -> None:
    result = await deep_search(question, engine=index)
    assert not result.answered
    assert result.citations == ()
    assert result.answer.startswith(("The documents do not answer this question.", "Nothing was found"))
    assert result.to_json()["answered"] is False


async def test_the_items_of_a_list_are_shown_with_their_lead(index: Index) -> None:
    result = await deep_search("Which runlevel is the single-user mode?", engine=index)
    assert "The system has 7 runlevels: " in result.answer
    assert all(one.holds(index.fetch([one.doc])[0]) for one in result.citations)
