"""A runtime with the code interpreter, to be killed: `python -m tests.scenarios.interpreter_child STORE THREAD TASK`.

Prints the id of its call, and a line for each block that starts; then waits for the call to end.
"""

from __future__ import annotations

import asyncio
import sys

from clicket import Runtime
from clicket.interpreter import code_interpreter


async def main(store: str, thread: str, task: str) -> None:
    async with Runtime([code_interpreter(warm=False, grace=0.3)], store=store) as rt:
        handle = await rt.submit("code_interpreter", {"task": task}, thread=thread)
        async for event in handle.events():
            content = event.data.get("content")
            if isinstance(content, dict) and content["type"] == "stdout":
                print(handle.id, content["content"].strip(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
