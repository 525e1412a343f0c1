"""A clicket call as a step of a DBOS workflow. Needs the extra `dbos`.

    from clicket.adapters.dbos import step_of

    call = step_of(rt)

    @DBOS.workflow()
    async def order(cents: int) -> str:
        return await call("charge", {"cents": cents})

The call's id is made of the workflow's id and the step's number. When DBOS recovers a workflow and runs the step again, the step
follows the same call: the tool runs again only if clicket's own rules allow that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from clicket.errors import UsageError
from clicket.model.ports import Caller

try:
    from dbos import DBOS
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("dbos"):
        raise
    raise UsageError(
        "clicket.adapters.dbos needs the package 'dbos', which is not installed. Install it with: pip install 'clicket[dbos]'."
    ) from None

__all__ = ["CallFailed", "call_id", "step_of"]


class CallFailed(Exception):
    """The call did not complete. `code` is its error's code. DBOS stores it as the outcome of the step."""

    def __init__(self, code: str, message: str, call_id: str) -> None:
        super().__init__(code, message, call_id)  # all of them: DBOS makes it again from these
        self.code, self.message, self.call_id = code, message, call_id

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def step_of(runtime: Caller, *, name: str = "clicket_call") -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    """A step that takes a tool's name and its arguments, and returns the call's output. Raises `CallFailed`."""

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        workflow = str(DBOS.workflow_id)
        handle = await runtime.submit(tool, arguments, id=call_id(workflow, DBOS.step_id), thread=workflow)
        result = await handle.result()
        if result.success:
            return result.output
        error = result.error
        assert error is not None, "a call that did not complete has an error"
        raise CallFailed(error.code, error.message, result.call_id)

    made: Callable[[str, dict[str, Any]], Awaitable[Any]] = DBOS.step(name=name)(call)
    return made


def call_id(workflow: str, step: int | None) -> str:
    """The id of the call that a step makes: the same when DBOS runs the step again."""
    return f"dbos/{workflow}/{step}"
