"""An agent with skills: what the model reads of them, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.scenarios.agent_kit import Gate, Says
from tests.scenarios.kit import make

from clicket.agents import ReActAgent, Skills
from clicket.errors import UsageError
from clicket.testing import ScriptedModel

HEAD = "---\nname: {name}\ndescription: {about}\n---\n"


def skill(folder: Path, name: str, text: str = "Do it.\n", about: str = "Does something.") -> Path:
    made = folder / name
    made.mkdir(parents=True)
    (made / "SKILL.md").write_text(HEAD.format(name=name, about=about) + text)
    return made


async def test_a_model_loads_a_skill_and_reads_its_files(tmp_path: Path) -> None:
    report = skill(tmp_path / "skills", "report", "Write it in three parts.\n", "Writes reports.")
    (report / "parts").mkdir()
    (report / "parts" / "one.md").write_text("The first part.\n")
    (report / "logo.png").write_bytes(b"\x89PNG\0")
    skill(tmp_path / "skills", "tax", about="Counts taxes.")
    (tmp_path / "skills" / "README.md").write_text("no skill")
    model = ScriptedModel(
        [
            [("load_skill", {"name": "report"})],
            [("read_skill_file", {"skill": "report", "path": "parts/one.md"})],
            [("load_skill", {"name": "reports"}), ("read_skill_file", {"skill": "report", "path": "logo.png"})],
            "done",
        ]
    )
    async with make() as rt:
        agent = ReActAgent(rt, model, system="Be kind.", middleware=[Skills(tmp_path / "skills")])
        result = await agent.run("go", thread="t")
        events = [event.data async for event in agent.events("t") if event.type == "decision"]
    system = model.requests[0].messages[0].content
    assert system.startswith("Be kind.\n\n")
    assert system.endswith("\n- report: Writes reports.\n- tax: Counts taxes.")
    seen = [message.content for message in result.new_messages if message.role == "tool"]
    assert seen[0] == ("Write it in three parts.\n\nFiles of this skill, for read_skill_file:\nlogo.png\nparts/one.md")
    assert seen[1] == "The first part.\n"
    assert "there is no skill 'reports'. Did you mean 'report'?" in seen[2]
    assert "'logo.png' is a binary file" in seen[3]
    assert [each["value"] for each in events if each["on"] == "instructions"] == [system.removeprefix("Be kind.\n\n")]


async def test_what_a_model_has_read_of_skills_holds_after_a_crash(tmp_path: Path, sqlite: str) -> None:
    skill(tmp_path / "skills", "report", about="Writes reports.")
    gate = Gate()

    async def stuck(request: Any) -> str:
        await gate()
        return "done"

    async with make(store=sqlite, close_timeout=0.0) as rt:
        first = ReActAgent(rt, Says(stuck), middleware=[Skills(tmp_path / "skills")])
        await first.begin("go", thread="t")
        await gate.reached.wait()
    skill(tmp_path / "skills", "tax")
    async with make(store=sqlite) as rt:
        model = ScriptedModel([[("load_skill", {"name": "report"})], "done"])
        agent = ReActAgent(rt, model, middleware=[Skills(tmp_path / "skills")])
        result = await agent.resume("t")
        assert result is not None
        assert result.text == "done"
    assert model.requests[0].messages[0].content.endswith("\n- report: Writes reports.")


async def test_no_path_leads_out_of_a_skill(tmp_path: Path) -> None:
    made = skill(tmp_path / "skills", "report")
    other = skill(tmp_path / "skills", "other", "other")
    (tmp_path / "secret.txt").write_text("secret")
    (made / "link.txt").symlink_to(tmp_path / "secret.txt")
    (made / "folder").symlink_to(tmp_path)
    skill(tmp_path / "elsewhere", "linked")
    (tmp_path / "skills" / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    paths = [
        "../other/SKILL.md",
        "link.txt",
        "folder/secret.txt",
        str(tmp_path / "secret.txt"),
        str(other / "SKILL.md"),
        "..",
    ]
    model = ScriptedModel([[("read_skill_file", {"skill": "report", "path": path}) for path in paths], "done"])
    async with make() as rt:
        agent = ReActAgent(rt, model, middleware=[Skills(tmp_path / "skills")])
        result = await agent.run("go", thread="t")
    seen = [message.content for message in result.new_messages if message.role == "tool"]
    assert len(seen) == len(paths)
    assert all(text.startswith("file_refused: ") and "secret\n" not in text for text in seen)
    assert "linked" not in model.requests[0].messages[0].content


HEADS = [
    "name: x\ndescription: Plain, with a colon:here. # a comment",
    'name: \'x\'\ndescription: "Quoted \\u00e4 \\"text\\""',
    "name: x\ndescription: 'It''s quoted'",
    "# a comment\nname: x\nlicense: MIT\ndescription: >\n  folded over\n  two lines\nmetadata:\n  author: me\n  tags:\n    - one",
    "name: x\ndescription: >-\n  folded\n  too\nallowed-tools: Read, Write",
    "name: x\ndescription: begun\n  and continued\n  here",
    "name: x\ndescription: |\n  one\n  two\n",
]


@pytest.mark.parametrize("head", HEADS)
def test_front_matter_is_read_as_yaml_reads_it(tmp_path: Path, head: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "SKILL.md").write_text(f"---\n{head}\n---\nbody\n")
    wanted = " ".join(yaml.safe_load(head)["description"].split())
    agent_text = Skills(tmp_path).instructions(None)  # type: ignore[arg-type]
    assert agent_text.endswith(f"\n- x: {wanted}")
    assert Skills(tmp_path / "x").instructions(None) == agent_text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no front matter", "does not begin with a front matter"),
        ("---\nname: x\n", "does not begin with a front matter"),
        ("---\nname: x\n---\n", "it has no description"),
        ("---\ndescription: y\n---\n", "it has no name"),
        ("---\nname: y\ndescription: y\n---\n", "is named 'y', and its folder 'x'"),
        ("---\nname: X y\ndescription: y\n---\n", "'X y' is not a name for a skill"),
        ("---\nname: x\n- what\n---\n", r"SKILL.md, line 3: '- what' is not 'key: value'"),
        ('---\nname: x\ndescription: "open\n---\n', r"line 3: \"open is not a quoted text"),
        ("---\nname: x\ndescription: 'open\n---\n", "line 3: 'open is not a quoted text"),
        (HEAD.format(name="x", about="y" * 1_025), "has 1,025 characters, and 1,024 are allowed"),
        ("\0", "is a binary file"),
        ("x" * 2_000_000, "has 2,000,000 bytes"),
    ],
)
def test_a_broken_skill_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "SKILL.md").write_text(text)
    with pytest.raises(UsageError, match=why):
        Skills(tmp_path)


def test_folders_without_skills_and_skills_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no skills in"):
        Skills(tmp_path)
    with pytest.raises(UsageError, match="is not a folder"):
        Skills(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"Skills\('skills'\)"):
        Skills()
    skill(tmp_path / "a", "x")
    skill(tmp_path / "b", "x")
    with pytest.raises(UsageError, match="two skills are named 'x'"):
        Skills(tmp_path / "a", tmp_path / "b")
