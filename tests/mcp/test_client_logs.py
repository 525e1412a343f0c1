"""A server that writes junk: clicket ignores it, and logs a line or two, however much there is."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from tests.kit.children import ROOT
from tests.kit.waiting import eventually

from clicket import Runtime
from clicket.mcp import McpServer

JUNK = '''
import sys
sys.path[:0] = {path!r}
def junk(count):
    for number in range(count):
        sys.stdout.write("secret-of-the-server " + str(number) + "\\n")
        sys.stdout.write('{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":"no \\\\n number"}}}}\\n')
    sys.stdout.flush()
junk(300)
from mcp.server import MCPServer
server = MCPServer("junk")
@server.tool()
def echo(text: str) -> str:
    """Gives back what it gets."""
    junk(300)
    return text
server.run()
'''


async def test_junk_between_messages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    script = tmp_path / "server.py"
    script.write_text(JUNK.format(path=[str(ROOT / "src")]))
    async with Runtime(store="memory://") as runtime:
        await McpServer("junk", command=[sys.executable, str(script)]).join(runtime)
        result = await runtime.call("echo", {"text": "hello"})
        assert result.success, result.error
        await eventually(lambda: any(record.args == ("junk", 100) for record in caplog.records))
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) <= 8, [record.getMessage() for record in lines]
    assert [record for record in lines if record.exc_info or record.exc_text] == []
    text = " ".join(record.getMessage() for record in lines)
    assert "secret-of-the-server" not in text
    assert next(record.args for record in lines if record.name == "clicket.mcp") == ("junk", 1)


def test_a_servers_log_text_cannot_start_a_line_of_ours(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp.shared.tool_name_validation import validate_and_warn_tool_name

    from clicket.adapters.mcp.client_logs import guard_client_logs

    monkeypatch.setattr("clicket.adapters.mcp.client_logs.EVERY", 0.0)
    guard_client_logs()
    validate_and_warn_tool_name("x\nERROR forged: \x1b[2J" + "y" * 1_000)
    assert caplog.records
    assert all("\n" not in record.getMessage() and "\x1b" not in record.getMessage() for record in caplog.records)
    assert all(len(record.getMessage()) <= 300 for record in caplog.records)
