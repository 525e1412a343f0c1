"""Skills: a model reads what there is, and loads the instructions that it needs."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from clicket import Runtime
from clicket.agents import ReActAgent, Skills
from clicket.testing import ScriptedModel

SKILL = """---
name: weekly-report
description: How the weekly report is written. Use it before you write one.
---
Three parts: done, next, risks. Follow the example in example.md.
"""


async def main() -> None:
    skills = Path(tempfile.mkdtemp())
    (skills / "weekly-report").mkdir()
    (skills / "weekly-report" / "SKILL.md").write_text(SKILL)
    (skills / "weekly-report" / "example.md").write_text("Done: the login. Next: the search. Risks: none.\n")

    model = ScriptedModel(
        [
            [("load_skill", {"name": "weekly-report"})],
            [("read_skill_file", {"skill": "weekly-report", "path": "example.md"})],
            "Done: the index. Next: the ranking. Risks: the deadline.",
        ]
    )
    async with Runtime(store="memory://") as rt:
        agent = ReActAgent(rt, model, middleware=[Skills(skills)])
        result = await agent.run("Write the weekly report.")
        print(model.requests[0].messages[0].content)
        for message in result.messages:
            print(f"{message.role}: {message.content or [use.name for use in message.uses]}")


if __name__ == "__main__":
    asyncio.run(main())
