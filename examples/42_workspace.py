"""An agent edits the files of one folder. A process dies in the middle of an edit: the next one knows whether it happened."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from clicket import Runtime
from clicket.agents import ReActAgent, Workspace
from clicket.system.folder import Folder
from clicket.testing import ScriptedModel

EDIT = {"path": "notes.txt", "old": "end", "new": "one more line\nend"}


async def edit(place: Path) -> None:
    model = ScriptedModel([[("read_file", {"path": "notes.txt"})], [("edit_file", EDIT)], "The line is there."])
    async with Runtime(store=f"sqlite:///{place / 'calls.db'}") as rt:
        agent = ReActAgent(rt, model, middleware=[Workspace(place / "files", shell=False)])
        result = await agent.run("Add a line.", thread="t1", id="add-a-line")
        print(result.text)
        for message in result.messages:
            if message.role == "tool":
                print("  the model read:", message.content.splitlines()[0])


def die_in_the_edit() -> None:
    """The file is in its place, and nothing has been recorded of that."""
    commit = Folder.commit

    def dying(self: Folder, *given: object) -> None:
        commit(self, *given)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    Folder.commit = dying  # type: ignore[assignment, method-assign]


async def main() -> None:
    place = Path(tempfile.mkdtemp())
    (place / "files").mkdir()
    (place / "files" / "notes.txt").write_text("begin\nend\n")

    child = await asyncio.create_subprocess_exec(sys.executable, __file__, str(place))
    print("the first process ended with", await child.wait())
    await edit(place)
    text = (place / "files" / "notes.txt").read_text()
    print(text)
    assert text == "begin\none more line\nend\n"  # once


if __name__ == "__main__":
    if len(sys.argv) > 1:
        die_in_the_edit()
        asyncio.run(edit(Path(sys.argv[1])))
    else:
        asyncio.run(main())
