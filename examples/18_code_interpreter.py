"""Untrusted Python in a sandbox: variables persist, errors are returned, files and the whole run can be saved.

The level `full` needs Linux with bubblewrap; `clicket doctor` shows which level this machine supports.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from clicket.interpreter import Interpreter, Result, notebook_json, to_html

TASK = """
# Sales

Read the table and add it up:

```python
import csv
rows = list(csv.DictReader(open("sales.csv")))
total = sum(int(row["amount"]) for row in rows)
print(f"{len(rows)} rows")
total
```

Save the total:

```python
with open("report.txt", "w") as file:
    file.write(f"total: {total}")
```
"""


async def main() -> list[Result]:
    async with Interpreter(timeout=2, memory="256MiB") as ci:
        result = await ci.run(TASK, files={"sales.csv": "city,amount\nOslo,40\nLima,2\n"})
        print(result.status, result.stdout.strip(), "value:", result.blocks[0].value)
        print(result.isolation.level, "isolation:", ", ".join(result.isolation.layers))
        for file in result.files:
            if file.artifact is not None:
                print(file.name, (await ci.artifact(file.artifact)).decode())

        # The session keeps its variables. Messages arrive while the program runs.
        async for message in ci.stream("for n in range(3):\n    print(total + n)"):
            if message["type"] in ("stdout", "state_change"):
                print(" ", message["type"], repr(message.get("content", message.get("to"))))

        # An exception, an endless loop and a forbidden access are results as well.
        for code in ("total / 0", "while True: pass", "open('/etc/shadow').read()"):
            failed = await ci.run(code)
            print(failed.status, failed.reason or "", failed.error.type if failed.error else "")
        return ci.history


if __name__ == "__main__":
    history = asyncio.run(main())
    Path("sales.ipynb").write_bytes(notebook_json(history))
    Path("sales.html").write_text(to_html(history, title="Sales"))
