"""A DBOS program: `python dbos_worker.py SYSTEM_DATABASE STORE WORKFLOW TOOL PATH`.

Starts the workflow, or recovers it if an earlier process left it. Prints `up`, then the output, or the error's code, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from dbos import DBOS, SetWorkflowID
from tests.engines.engine_tools import look_up, pay

from clicket import Runtime
from clicket.adapters.dbos import CallFailed, step_of


async def main(database: str, store: str, workflow: str, tool: str, path: str) -> None:
    DBOS(config={"name": "engines", "system_database_url": database, "log_level": "ERROR", "application_version": "1"})
    async with Runtime(tools=[pay, look_up], store=store, lease=2.0) as rt:
        call = step_of(rt)

        @DBOS.workflow(name="order")
        async def order(tool: str, arguments: dict[str, Any]) -> Any:
            return await call(tool, arguments)

        DBOS.launch()  # recovers the workflows of the process before
        print("up", flush=True)
        arguments = {"path": path, "seconds": 60} if tool == "pay" else {"path": path}
        with SetWorkflowID(workflow):
            run = await DBOS.start_workflow_async(order, tool, arguments)
        try:
            print(json.dumps({"output": await run.get_result()}), flush=True)
        except CallFailed as error:
            print(json.dumps({"code": error.code}), flush=True)
        DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
