"""What holds a secret does not print it: a traceback, a debugger or a log line may show any `repr`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit.imports import parsed
from tests.scenarios.kit import make

import clicket
from clicket import RestTool, Settings
from clicket.client import Client
from clicket.engine.live_call import Attempt
from clicket.engine.stages.validate import Judged
from clicket.safety.credentials.connecting import Start
from clicket.safety.credentials.oauth import ClientIdentity, IssuedTokens
from clicket.safety.credentials.provider import Provider
from clicket.safety.oauth.config import OAuthConfig
from clicket.server import Options, create_app
from clicket.telemetry.webhooks.config import endpoints_of
from clicket.tools.request import Prepared

SECRET = "whsec_c2VjcmV0LWNhbmFyeS1vZi1hLXRlc3Q="
SECRET_FIELDS = re.compile(
    r"secret|password|api_key|tokens?$|headers|verifier|refresh$|^access$|cookie$|^static", re.IGNORECASE
)
MAYBE = re.compile(
    rf"^    \w*({SECRET_FIELDS.pattern.replace('$', '').replace('^', '')})\w*: ", re.IGNORECASE | re.MULTILINE
)
COUNTS = re.compile(r"^(\w+_)?tokens$")
HARMLESS = {
    "engine/executors/processes/file_outputs.py:_Frame": "token: marks the files of one output of a child",
    "engine/live_call.py:Call": "secrets: it has a repr that names its id and state",
    "safety/credentials/connecting.py:_Request": "cookie: its hash",
    "engine/stages/validate.py:Judged": "secrets: they hide their values",
    "server/a2a/handlers.py:TaskQuery": "page_token: a place in a list",
    "server/authentication.py:Principal": "by_token: a flag",
    "server/operations.py:ResponseSpec": "headers: of the documentation",
}


def value_classes() -> Iterator[tuple[str, list[str], bool]]:
    """The structs, dataclasses and named tuples of the package: their places, their fields, and whether they have a repr of their own."""
    folder = Path(clicket.__file__).parent
    for file in folder.rglob("*.py"):
        text = file.read_text()
        if not MAYBE.search(text):  # most files: to parse them all takes seconds
            continue
        for found in parsed(text).body:
            if not isinstance(found, ast.ClassDef):
                continue
            kind = " ".join(ast.unparse(each) for each in (*found.bases, *found.decorator_list))
            if not re.search(r"Struct|NamedTuple|dataclass", kind):
                continue
            fields = [
                each.target.id
                for each in found.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            ]
            has_repr = any(isinstance(each, ast.FunctionDef) and each.name == "__repr__" for each in found.body)
            yield f"{file.relative_to(folder)}:{found.name}", fields, has_repr


def test_every_value_with_a_secret_has_a_repr_of_its_own() -> None:
    bare = {
        place
        for place, fields, has_repr in value_classes()
        if not has_repr and any(SECRET_FIELDS.search(name) and not COUNTS.search(name) for name in fields)
    }
    assert sorted(bare - HARMLESS.keys()) == []


def values() -> dict[str, Any]:
    address = f"https://hooks.example.com/{SECRET}"
    webhooks = [{"url": address, "secret": SECRET, "events": ["call.ended"]}]
    found: dict[str, Any] = {
        "server options": Options(api_keys=(f"ops:read:{SECRET}",)),
        "settings": Settings(api_keys=(f"ops:read:{SECRET}",), webhooks=webhooks, secret_key="5" * 64),
        "a webhook": endpoints_of(webhooks),
        "oauth": OAuthConfig(issuer="https://login.example.com", audiences=("https://a.example.com",), client_secret=SECRET),
        "a provider": Provider(name="github", kind="oauth", issuer="https://login.example.com", client_id="me", client_secret=SECRET),
        "a client of a provider": ClientIdentity(client_id="me", client_secret=SECRET),
        "tokens of a provider": IssuedTokens(access=SECRET, refresh=SECRET),
        "the start of a connection": Start(url=address, cookie_name="c", cookie=SECRET),
        "a request": Prepared(method="GET", url=address, headers={"authorization": SECRET}, content=SECRET.encode()),
        "an attempt": Attempt(tokens={"github": SECRET}, late=(SECRET, None)),
        "judged arguments": Judged(RestTool(name="t", method="GET", url="https://a.example.com"), {"a": SECRET}, None, {"a": SECRET}),
        "a client": Client("https://a.example.com", key=SECRET),
        "a REST tool": RestTool(name="t", method="GET", url="https://a.example.com", headers={"authorization": SECRET}),
    }  # fmt: skip
    return found


def test_reprs_hide_secrets() -> None:
    for name, value in values().items():
        for shown in (repr(value), str(value), repr([value])):
            assert SECRET not in shown, name
            assert "5" * 64 not in shown, name
    assert "api_keys=(hidden)" in repr(Options(api_keys=(SECRET,)))
    assert "api_keys=()" in repr(Options())


async def test_the_parts_of_a_server_hide_its_keys() -> None:
    async with make([], api_keys=(f"ops:read:{SECRET}",)) as rt:
        app = create_app(rt, mcp=False)
        assert SECRET not in repr(app.state.clicket)
        assert SECRET not in repr(rt)
