"""The code interpreter as a tool of a runtime: one session for each thread, files as artifacts, everything in the journal."""

from __future__ import annotations

import asyncio

from clicket import Runtime
from clicket.interpreter import code_interpreter


async def main() -> None:
    tool = code_interpreter(timeout=10, memory="256MiB", warm=False)
    async with Runtime(tools=[tool], store="memory://") as rt:
        # A conversation keeps its variables from call to call; another one has its own.
        await rt.call("code_interpreter", {"task": "primes = [2, 3, 5, 7]"}, thread="ann")
        result = await rt.call("code_interpreter", {"task": "print(sum(primes))\nprimes[-1]"}, thread="ann")
        print(result.state, result.output["stdout"].strip(), result.output["value"])
        other = await rt.call("code_interpreter", {"task": "primes"}, thread="bob")
        print(other.state, other.output["status"], other.output["error"]["type"])

        # What the program wrote is an artifact of its call.
        task = "open('primes.csv', 'w').write(','.join(map(str, primes)))"
        result = await rt.call("code_interpreter", {"task": task}, thread="ann")
        for file in result.output["files"]:
            print(file["name"], (await rt.artifact(file["artifact"])).decode())

        # Output is an event as soon as it is there.
        handle = await rt.submit("code_interpreter", {"task": "for p in primes:\n    print(p * p)"}, thread="ann")
        async for event in handle.events():
            if event.type == "output" and event.data["content"]["type"] == "stdout":
                print(" ", repr(event.data["content"]["content"]))

        # A program that ends its own process fails its call; the next one begins with nothing.
        lost = await rt.call("code_interpreter", {"task": "import os\nos._exit(3)"}, thread="ann")
        print(lost.state, lost.error)
        again = await rt.call("code_interpreter", {"task": "primes"}, thread="ann")
        print(again.state, again.error)


if __name__ == "__main__":
    asyncio.run(main())
