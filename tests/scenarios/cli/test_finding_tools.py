"""Where commands find their tools."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scenarios.cli.commands import (
    Run,
    no_traceback,
)


class TestFindingTools:
    def test_what_a_spec_may_name(self, run: Run, folder: Path) -> None:
        (folder / "more").mkdir()
        (folder / "more" / "extra.py").write_text(
            "from cli_tools import add, boom, plain\nfrom clicket import NativeTool\nsome = [add, boom]\nnamed = {'x': add}\n"
            "class Counter(NativeTool):\n    def run(self, arguments, ctx):\n        return 1\n"
        )

        def names(*specs: str) -> list[str]:
            words = [word for spec in specs for word in ("--tools", spec)]
            done = run("tools", "--json", *words)
            assert done.returncode == 0, done.stderr
            return [each["name"] for each in json.loads(done.stdout)["tools"]]

        assert names("cli_tools:add") == ["add"]
        assert names("cli_tools:plain") == ["plain"]
        assert names("more.extra:some") == ["add", "boom"]
        assert names("more.extra:named") == ["add"]
        assert names("more/extra.py") == ["add", "boom", "counter"]
        assert names("more.extra:Counter", "cli_tools:add") == ["counter", "add"]

    def test_entry_points_and_file(self, run: Run, folder: Path) -> None:
        package = folder / "plugin-1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
        (package / "entry_points.txt").write_text("[clicket.tools]\ngood = cli_tools:add\nbad = cli_nothing\n")
        (folder / "clicket.toml").write_text('tools = ["cli_tools:boom"]\n')
        environment = {"CLICKET_TOOLS": "cli_tools:boom", "PYTHONPATH": str(folder)}
        done = run("tools", "--json", **environment)
        assert [each["name"] for each in json.loads(done.stdout)["tools"]] == ["boom", "add"]
        assert "warning: the tools of cli_nothing could not be loaded" in done.stderr
        alone = run("tools", "--json", "--tools", "cli_tools:boom", **environment)
        assert [each["name"] for each in json.loads(alone.stdout)["tools"]] == ["boom"]

    def test_broken_module_is_named_with_its_line_and_traceback_only_when_asked(self, run: Run, folder: Path) -> None:
        (folder / "cli_broken.py").write_text("import os\n\nvalue = 1 / 0\n")
        done = run("call", "add", "--tools", "cli_broken")
        assert done.returncode == 2
        assert "ZeroDivisionError" in done.stderr
        assert "cli_broken.py:3" in done.stderr
        assert no_traceback(done)
        asked = run("call", "add", "--tools", "cli_broken", "--debug")
        assert asked.returncode == 2
        assert "Traceback" in asked.stderr
