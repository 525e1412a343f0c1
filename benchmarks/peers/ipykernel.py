"""jupyter_client with ipykernel, its documented asynchronous way. Nothing isolates the kernel from the host."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from benchmarks import sessions, timing

_PATIENCE = 120.0

Kernel = tuple[AsyncKernelManager, AsyncKernelClient]


class Ipykernel:
    async def open(self) -> Kernel:
        manager = AsyncKernelManager()
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=_PATIENCE)
        return manager, client

    async def run(self, kernel: Kernel, code: str) -> str:
        client = kernel[1]
        return await self.result(client, client.execute(code))

    async def result(self, client: AsyncKernelClient, asked: str) -> str:
        """The output until the kernel reports that it is idle again, and its reply: only then is it complete."""
        output = ""
        while True:
            message: dict[str, Any] = await client.get_iopub_msg(timeout=_PATIENCE)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "stream":
                output += message["content"]["text"]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        while (await client.get_shell_msg(timeout=_PATIENCE))["parent_header"].get("msg_id") != asked:
            pass
        return output

    async def close(self, kernel: Kernel) -> None:
        manager, client = kernel
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def endless(engine: Ipykernel, kernel: Kernel, times: int) -> float:
    manager, client = kernel
    asked = ""

    async def begin() -> None:
        nonlocal asked
        asked = client.execute("print('runs', flush=True)\nwhile True: pass")
        while (await client.get_iopub_msg(timeout=_PATIENCE))["msg_type"] != "stream":
            pass

    async def stop() -> None:
        await manager.interrupt_kernel()
        await engine.result(client, asked)

    return await sessions.interrupts(begin, stop, times)


async def main() -> None:
    arguments = timing.budget()
    starts, stops, many = sessions.sizes()
    with timing.scratch() as folder:
        os.environ["JUPYTER_RUNTIME_DIR"] = os.environ["IPYTHONDIR"] = str(folder)
        engine = Ipykernel()
        figures = {"start_ms": await sessions.first_results(engine, starts)}
        kernel = await engine.open()
        figures |= await sessions.blocks(engine, kernel, arguments.seconds)
        figures["interrupt_ms"] = await endless(engine, kernel, stops)
        await engine.close(kernel)
        figures["memory"] = await sessions.at_rest(engine)
        figures |= await sessions.side_by_side(engine, many)
    timing.report(figures, timing.versions("ipykernel", "jupyter_client", "ipython", "pyzmq"))


if __name__ == "__main__":
    asyncio.run(main())
