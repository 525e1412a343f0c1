"""A tool in five lines. clicket validates, time-limits and records every call."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Literal

from clicket import Runtime, tool


@tool(timeout=10)
async def weather(city: str, unit: Literal["c", "f"] = "c") -> dict[str, object]:
    """Current weather of a city.

    Args:
        city: the city's name in English
        unit: Celsius or Fahrenheit
    """
    return {"city": city, "temperature": 21 if unit == "c" else 70}


async def main() -> None:
    # The default store is .clicket/clicket.db. This example uses a temporary folder instead.
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime(tools=[weather], store=f"sqlite:///{folder}/calls.db") as rt:
            good = await rt.call("weather", {"city": "Lisbon"}, thread="t1")
            print(good.state, good.output, f"{good.duration * 1000:.1f} ms")

            # The error lists every invalid argument with its path; the tool does not run. A failed call is returned, not raised.
            bad = await rt.call("weather", {"city": 5, "unit": "kelvin"}, thread="t1")
            print(bad.state, bad.error)

            # Arguments may be JSON text, as models send them.
            text = await rt.call("weather", '{"city": "Oslo", "unit": "f"}', thread="t1")
            print(text.state, text.content)

            # All calls are in the journal, including the refused one.
            page = await rt.history(thread="t1")
            print([(record.tool, str(record.state)) for record in page.items])


if __name__ == "__main__":
    asyncio.run(main())
