"""Retries: only transient failures are retried, and the exceptions that the tool names in `retry_on`."""

from __future__ import annotations

import asyncio

from clicket import RetryableError, Runtime, ToolContext, tool


@tool(max_retries=3, retry_delay=0.1)
async def busy_service(ctx: ToolContext) -> str:
    """Raises a transient error. Its `retry_after` could set the delay."""
    if ctx.attempt < 3:
        raise RetryableError("503, come back later")
    return f"answered attempt {ctx.attempt}"


@tool(max_retries=2, retry_delay=0.05, retry_on=KeyError)
def moody(ctx: ToolContext) -> str:
    """Raises an error that `retry_on` names."""
    if ctx.attempt == 1:
        raise KeyError("not there yet")
    return "there it is"


@tool(max_retries=5)
def buggy() -> str:
    """Raises an error that is not transient, so it is not retried."""
    raise ValueError("int expected")


async def main() -> None:
    async with Runtime(tools=[busy_service, moody, buggy], store="memory://") as rt:
        for name in ("busy_service", "moody", "buggy"):
            result = await rt.call(name)
            print(f"{name}: {result.state} after {result.attempts} attempts: {result.output or result.error}")
            record = await rt.get(result.call_id)
            for attempt in record.attempts:
                wait = f", then waited {attempt.delay:.2f} s" if attempt.delay else ""
                print(f"    attempt {attempt.number}: {attempt.outcome}{wait}")


if __name__ == "__main__":
    asyncio.run(main())
