"""The fixture's tools behind clicket's own server, at /mcp: `python -m tests.mcp.serve PORT STORE`."""

from __future__ import annotations

import sys

import uvicorn
from tests.mcp import fixture, fixture_extras

from clicket import Runtime
from clicket.server import create_app

if __name__ == "__main__":
    app = create_app(
        Runtime(fixture.TOOLS, store=sys.argv[2]), mcp={"extras": fixture_extras.extras, "task_after": 0.5}
    )
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=2)
