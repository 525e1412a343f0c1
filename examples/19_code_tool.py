"""The code interpreter as a tool: one session per thread, files as artifacts, every call in the journal."""

from __future__ import annotations

import asyncio

from clicket import Runtime
from clicket.interpreter import code_interpreter


async def main() -> None:
    tool = code_interpreter(timeout=10, memory="256MiB", warm=False)
    async with Runtime(tools=[tool], store="memory://") as rt:
        # A thread keeps its variables between calls; another thread has its own.
        await rt.call("code_interpreter", {"task": "primes = [2, 3, 5, 7]"}, thread="ann")
        result = await rt.call("code_interpreter", {"task": "print(sum(primes))\nprimes[-1]"}, thread="ann")
        print(result.state, result.output["stdout"].strip(), result.output["value"])
        other = await rt.call("code_interpreter", {"task": "primes"}, thread="bob")
        print(other.state, other.output["status"], other.output["error"]["type"])

        # Files that the program writes are artifacts of its call.
        task = "open('primes.csv', 'w').write(','.join(map(str, primes)))"
        result = await rt.call("code_interpreter", {"task": task}, thread="ann")
        for file in result.output["files"]:
            print(file["name"], (await rt.artifact(file["artifact"])).decode())

        # Output arrives as events while the program runs.
        handle = await rt.submit("code_interpreter", {"task": "for p in primes:\n    print(p * p)"}, thread="ann")
        async for event in handle.events():
            if event.type == "output" and event.data["content"]["type"] == "stdout":
                print(" ", repr(event.data["content"]["content"]))

        # A program that ends its own process fails its call, and the session loses its variables.
        lost = await rt.call("code_interpreter", {"task": "import os\nos._exit(3)"}, thread="ann")
        print(lost.state, lost.error)
        again = await rt.call("code_interpreter", {"task": "primes"}, thread="ann")
        print(again.state, again.error)


if __name__ == "__main__":
    asyncio.run(main())
