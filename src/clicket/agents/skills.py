"""`Skills`: folders with instructions for special tasks (the Agent Skills format), which a model loads when it needs them.

The model reads the names and descriptions of all skills with its instructions, which are on record; the text of a skill, and the files
beside it, are results of tool calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import msgspec

from clicket.agents.agent_parts import part_of_agents
from clicket.agents.middleware import Middleware
from clicket.agents.turn import Turn
from clicket.errors import UsageError, did_you_mean
from clicket.model.names import place_mark
from clicket.system.folder import FileRefused, Folder, text_of
from clicket.tools import Tool

__all__ = ["Skills"]

_FILE = "SKILL.md"
_MAX_FILE = 1024 * 1024
_MAX_DESCRIPTION = 1_024
_MAX_LISTED = 200
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KEY = re.compile(r"([A-Za-z_][\w-]*):(?:[ \t](.*))?")
_INTRODUCTION = (
    "There are skills: instructions for special tasks. Before you do such a task, read its skill with load_skill."
)


class _Skill(msgspec.Struct, frozen=True):
    name: str
    description: str
    folder: Folder


class Skills(Middleware):
    """`Skills("skills")`: the skills of the folders below these; each has a file SKILL.md that begins with its `name`, which is that of its
    folder, and its `description`. A folder that has a SKILL.md itself is one skill. Links are not followed.

    They are looked for when this is made; their texts are read when a model asks for them. `UsageError` names the file and line of
    what is wrong.
    """

    def __init__(self, *folders: str | os.PathLike[str]) -> None:
        if not folders or not all(isinstance(each, str | os.PathLike) for each in folders):
            raise UsageError("Skills takes the paths of folders: Skills('skills').")
        self._skills: dict[str, _Skill] = {}
        for path in folders:
            for skill in _found(path):
                if skill.name in self._skills:
                    places = f"{self._skills[skill.name].folder.root} and {skill.folder.root}"
                    raise UsageError(f"two skills are named {skill.name!r}: {places}. Remove or rename one.")
                self._skills[skill.name] = skill
        mark = place_mark("\n".join(os.fspath(each) for each in folders))
        self.own_tools: tuple[Tool, ...] = tuple(
            part_of_agents(each, mark, read_only=True) for each in (self._load_skill, self._read_skill_file)
        )

    def __repr__(self) -> str:
        return f"<skills {', '.join(self._skills)}>"

    def tools(self, turn: Turn) -> Sequence[Tool]:
        return self.own_tools

    def instructions(self, turn: Turn) -> str:
        return "\n".join([_INTRODUCTION, *(f"- {each.name}: {each.description}" for each in self._skills.values())])

    def _load_skill(self, name: str) -> str:
        """Read a skill: its instructions, and the names of the files beside it."""
        skill = self._named(name)
        text = text_of(skill.folder.read((_FILE,), _MAX_FILE), f"{name}/{_FILE}")
        beside = [entry.path for entry in skill.folder.walk((), frozenset()) if entry.path != _FILE]
        more = [f"[and {len(beside) - _MAX_LISTED:,} more]"] if len(beside) > _MAX_LISTED else []
        files = ["", "Files of this skill, for read_skill_file:", *beside[:_MAX_LISTED], *more] if beside else []
        return "\n".join([_body(text).strip(), *files])

    def _read_skill_file(self, skill: str, path: str) -> str:
        """Read a text file of a skill. The path is relative to the skill's folder, as load_skill lists it."""
        folder = self._named(skill).folder
        return text_of(folder.read(folder.parts(path), _MAX_FILE), path)

    def _named(self, name: str) -> _Skill:
        skill = self._skills.get(name)
        if skill is None:
            known = ", ".join(self._skills) or "none"
            raise FileRefused(f"there is no skill {name[:100]!r}.{did_you_mean(name, self._skills)} There are: {known}")
        return skill


def _found(path: str | os.PathLike[str]) -> Iterator[_Skill]:
    folder = Folder(path)
    entries = folder.listed(())
    if any(entry.parts[-1] == _FILE for entry in entries):
        yield _skill(folder)
        return
    found = [Folder(folder.root / entry.parts[-1]) for entry in entries if entry.kind == "folder"]
    skills = [each for each in found if any(entry.parts[-1] == _FILE for entry in each.listed(()))]
    if not skills:
        raise UsageError(f"there are no skills in {os.fspath(path)}: a skill is a folder with a file {_FILE}.")
    yield from map(_skill, skills)


def _skill(folder: Folder) -> _Skill:
    where = folder.root / _FILE
    try:
        text = text_of(folder.read((_FILE,), _MAX_FILE), str(where))
    except FileRefused as error:
        raise UsageError(f"the skill {folder.root.name!r} cannot be read: {error.message}.") from None
    keys = _front_matter(text, str(where))
    for key in ("name", "description"):
        if not keys.get(key):
            raise UsageError(f"{where}: it has no {key}. Begin the file with ---, name: …, description: …, ---.")
    name, description = keys["name"], " ".join(keys["description"].split())
    if len(name) > 64 or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: {name[:100]!r} is not a name for a skill: up to 64 of a-z, 0-9 and single '-'.")
    if name != folder.root.name:
        raise UsageError(
            f"{where}: the skill is named {name!r}, and its folder {folder.root.name!r}. Give both one name."
        )
    if len(description) > _MAX_DESCRIPTION:
        raise UsageError(
            f"{where}: the description has {len(description):,} characters, and {_MAX_DESCRIPTION:,} are allowed."
        )
    return _Skill(name, description, folder)


def _split(text: str) -> tuple[list[str], str] | None:
    """The lines of the front matter, and the text after it."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return None
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    return None if end is None else (lines[1:end], "\n".join(lines[end + 1 :]))


def _body(text: str) -> str:
    split = _split(text)
    return text if split is None else split[1]


def _front_matter(text: str, where: str) -> dict[str, str]:
    """The keys of the outer level whose values are texts: the part of YAML that the format uses for the two that count here."""
    split = _split(text)
    if split is None:
        raise UsageError(f"{where}: it does not begin with a front matter between two lines of ---.")
    found: dict[str, str] = {}
    lines = split[0]
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            raise UsageError(f"{where}, line {number + 1}: {line.strip()[:100]!r} is not 'key: value'.")
        more: list[str] = []
        while number < len(lines) and (not lines[number].strip() or lines[number][0] in " \t"):
            more.append(lines[number])
            number += 1
        found[match[1]] = _value((match[2] or "").strip(), more, f"{where}, line {number + 1 - len(more)}")
    return found


def _value(first: str, more: list[str], where: str) -> str:
    """A scalar: plain, quoted, or a block; over several lines its lines are joined, except in a block that keeps them."""
    rest = [line.strip() for line in more]
    if first[:1] in ("|", ">"):
        return ("\n" if first[0] == "|" else " ").join(rest).strip()
    whole = " ".join(filter(None, [first, *rest]))
    if whole[:1] == '"':
        try:
            return str(msgspec.json.decode(whole, type=str))
        except msgspec.MsgspecError:
            raise UsageError(
                f"{where}: {whole[:100]} is not a quoted text: a quote is missing, or an escape is wrong."
            ) from None
    if whole[:1] == "'":
        inner = whole[1:-1].replace("''", "")
        if len(whole) < 2 or whole[-1] != "'" or "'" in inner:
            raise UsageError(f"{where}: {whole[:100]} is not a quoted text: a quote is missing.")
        return whole[1:-1].replace("''", "'")
    return re.split(r"(?:^|[ \t])#", whole, maxsplit=1)[0].strip()
