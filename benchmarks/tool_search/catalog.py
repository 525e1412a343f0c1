"""A catalog of 1,000 tools shaped like those of public APIs: many services, the same operations on similar things.

`catalog_work.txt` and `catalog_life.txt` are written by hand. `# id | title | naming` begins a service. A line `thing | about | parameters
| operations` makes one tool for each operation, in the wording of that service; a line `+ name | description | parameters` is one tool as
it stands. No line was made from a request in `requests.txt`. `catalog_other.txt` is a second catalog, of other services, in the wording of
their references.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["SIZE", "ListedTool", "catalog", "many", "others"]

SIZE = 1_000
_HERE = Path(__file__).parent
_IRREGULAR = {"audience": "audiences", "media": "media", "case": "cases", "index": "indexes"}
_WORDINGS: tuple[dict[str, str], ...] = (
    {
        "create": "Create {a} in {service}: {about}.",
        "list": "List {many} of {service} ({about}), optionally filtered.",
        "get": "Get {a} of {service} by its identifier.",
        "update": "Update fields of {a} in {service}.",
        "delete": "Delete {a} from {service}.",
        "archive": "Archive {a} in {service} without deleting it.",
    },
    {
        "create": "Adds a new {one} to {service}. {About}.",
        "list": "Returns a paginated collection of {service} {many}: {about}.",
        "get": "Retrieves the details of an existing {service} {one}.",
        "update": "Modifies an existing {service} {one}; fields that are not passed stay as they are.",
        "delete": "Permanently removes {a} from {service}. This cannot be undone.",
        "archive": "Moves {a} of {service} to the archive.",
    },
    {
        "create": "{Service}: create {one}. {About}.",
        "list": "{Service}: all {many} visible to the token, {about}.",
        "get": "{Service}: one {one} with all its properties.",
        "update": "{Service}: change properties of {a}.",
        "delete": "{Service}: remove {a}.",
        "archive": "{Service}: archive {a}.",
    },
)


class ListedTool(NamedTuple):
    name: str
    description: str
    input_schema: dict[str, Any]


def catalog() -> list[ListedTool]:
    """The 1,000 tools, in the order of the files."""
    tools = [tool for file in ("catalog_work.txt", "catalog_life.txt") for tool in _read(_HERE / file)]
    names = [tool.name for tool in tools]
    assert len(set(names)) == len(names), sorted(name for name in set(names) if names.count(name) > 1)
    assert len(tools) >= SIZE, f"the catalog has {len(tools)} tools"
    return tools[:SIZE]


def others() -> list[ListedTool]:
    """The tools of the second catalog."""
    return _read(_HERE / "catalog_other.txt")


def many(count: int) -> list[ListedTool]:
    """`count` tools: the catalog, then copies of it under the names of invented tenants."""
    tools, copies = catalog(), list(catalog())
    number = 0
    while len(copies) < count:
        number += 1
        copies += [
            ListedTool(f"tenant{number}_{each.name}", f"{each.description} (Tenant {number}.)", each.input_schema)
            for each in tools
        ]
    return copies[:count]


def _read(file: Path) -> list[ListedTool]:
    tools: list[ListedTool] = []
    service, title, naming, number = "", "", "", 0
    for line in file.read_text().splitlines():
        parts = [part.strip() for part in line.lstrip("#+ ").split("|")]
        if line.startswith("#"):
            service, title, naming = parts
            number += 1
        elif line.startswith("+"):
            name, description, parameters = parts
            tools.append(
                ListedTool(_named(naming, service, name.replace("-", "_")), description, _schema(parameters.split()))
            )
        else:
            thing, about, parameters, operations = parts
            words = _words(thing, about, title)
            for operation in operations.split():
                plural = _plural(thing) if operation == "list" else thing
                name = _named(naming, service, f"{operation}_{plural}")
                description = _WORDINGS[number % len(_WORDINGS)][operation].format_map(words)
                tools.append(ListedTool(name, description, _schema(_fitting(operation, parameters.split()))))
    return tools


def _words(thing: str, about: str, title: str) -> dict[str, str]:
    one = thing.replace("_", " ")
    article = "an" if one[0] in "aeiou" else "a"
    return {
        "a": f"{article} {one}",
        "one": one,
        "many": _plural(one),
        "about": about,
        "About": about[:1].upper() + about[1:],
        "service": title,
        "Service": title,
    }


def _plural(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"


def _named(naming: str, service: str, name: str) -> str:
    match naming:
        case "camel":
            first, *rest = f"{service}_{name}".split("_")
            return first + "".join(part.capitalize() for part in rest)
        case "kebab":
            return f"{service}_{name}".replace("_", "-")
        case "dotted":
            return f"{service}.{name}"
        case _:
            return f"{service}_{name}"


def _fitting(operation: str, parameters: list[str]) -> list[str]:
    """The parameters that such an operation has."""
    ids = [name for name in parameters if name.endswith(("id", "key", "number", "gid", "iid", "ids", "guid", "uid"))]
    match operation:
        case "get" | "delete" | "archive":
            return ids or parameters[:1]
        case "list":
            return [*parameters[:1], "limit", "cursor"]
        case "create":
            return [name for name in parameters if name not in ids[-1:]] or parameters
        case _:
            return parameters


def _schema(parameters: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": name.replace("_", " ")} for name in parameters},
        "required": parameters[:1],
    }
