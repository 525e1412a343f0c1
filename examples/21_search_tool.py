"""Deep search as a tool: messages as they arrive, and a process that dies. No finished query is repeated."""

import asyncio
import os
import signal
from pathlib import Path

from clicket import Runtime
from clicket.search import Index, deep_search

DOCUMENTS = [
    ("Tarn Point Lighthouse", "The lighthouse at Tarn Point was lit in 1874. It was designed by Agnes Holloway."),
    (
        "Agnes Holloway",
        "Agnes Holloway was an engineer of harbours. She taught for nine years at the Marrow Institute.",
    ),
    ("Marrow Institute", "The Marrow Institute is a school of engineering in the city of Ardley, founded in 1849."),
    ("Quillby", "Quillby is a town of weavers. Its covered market is the oldest on the line."),
]
QUESTION = "In which city is the institute where the designer of the Tarn Point lighthouse taught?"
ASKED = Path("asked.txt")


def asked(query: str = "") -> list[str]:
    """Append the query, if any, and return all queries so far."""
    if query:
        with ASKED.open("a") as file:
            file.write(f"{query}\n")
    return ASKED.read_text().splitlines()


class Library:
    """An engine that logs its queries and kills the process at the third one."""

    name = "library"

    def __init__(self, index: Index, *, dies: bool) -> None:
        self.index = index
        self.dies = dies

    async def search(self, query: str, *, k: int = 10) -> list:
        if self.dies and len(asked()) == 2:
            await asyncio.sleep(0.2)  # let the other queries finish
            os.kill(os.getpid(), signal.SIGKILL)
        asked(query)
        return list(await self.index.search(query, k=k))


async def main(*, dies: bool) -> None:
    with Index.open() as index:
        index.add({"id": title, "title": title, "text": text} for title, text in DOCUMENTS)
        async with Runtime([deep_search.tool(engine=Library(index, dies=dies))]) as rt:
            handle = await rt.submit("deep_search", {"query": QUESTION}, id="question-1", thread="ann")
            async for event in handle.events():  # also those of earlier attempts, from the journal
                if event.type == "output":
                    message = event.data["content"]
                    print(f"  {message['seq']:>2} {message['messageType']:<12} {message['message']}")
            result = await handle.result()
    assert result.attempts == 2
    assert "Ardley" in result.output["answer"]


if __name__ == "__main__":
    ASKED.write_text("")
    if os.fork() == 0:  # a child process, which kills itself
        print("first attempt", flush=True)
        asyncio.run(main(dies=True))
    os.wait()
    print("\nsecond attempt, in another process:")
    asyncio.run(main(dies=False))
    print("\nall queries:", *asked(), sep="\n  ")
    assert len(asked()) == len(set(asked())), "a query was repeated"
