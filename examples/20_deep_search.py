"""A question that needs several documents: no model, no key, no network, and every sentence of the answer is cited."""

import asyncio

from clicket.search import Index, deep_search

DOCUMENTS = [
    ("Tarn Point Lighthouse", "The lighthouse at Tarn Point was lit in 1874. It was designed by Agnes Holloway."),
    (
        "Agnes Holloway",
        "Agnes Holloway was an engineer of harbours. She taught for nine years at the Marrow Institute.",
    ),
    ("Marrow Institute", "The Marrow Institute is a school of engineering in the city of Ardley, founded in 1849."),
    ("Quillby", "Quillby is a town of weavers. Its covered market is the oldest on the line."),
    ("Brackwater", "Brackwater is a port. Its town museum keeps the papers of pilots."),
    ("Orme Island", "Orme Island has 340 inhabitants, a school and two farms."),
]
QUESTION = "In which city is the institute where the designer of the Tarn Point lighthouse taught?"


async def main() -> None:
    with Index.open() as index:  # in memory; Index.open("notes.db") is a file, and index.add_folder("notes") fills it
        index.add({"id": title, "title": title, "text": text} for title, text in DOCUMENTS)
        result = await deep_search(QUESTION, engine=index)

    for one in result.rounds:  # the queries of each round: names found in one round become queries of the next
        print(f"round {one.number}: {', '.join(one.queries)}")
    print(f"\n{result.answer}\n")
    documents = {one.id: one for one in result.documents}
    for number, citation in enumerate(result.citations, 1):
        assert citation.holds(documents[citation.doc])  # the citation is verbatim, checked by hash
        print(f"[{number}] {citation.doc}, characters {citation.start}-{citation.end}")
    print(f"\nended because: {result.stopped}")
    assert any("city of Ardley" in one.text for one in result.citations)


if __name__ == "__main__":
    asyncio.run(main())
