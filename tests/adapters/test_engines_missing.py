"""The adapters for Temporal and DBOS, without their packages; with them they are in tests/engines."""

from __future__ import annotations

import importlib
import sys

import pytest

from clicket.errors import UsageError


@pytest.mark.parametrize(("name", "package"), [("temporal", "temporalio"), ("dbos", "dbos")])
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.delitem(sys.modules, f"clicket.adapters.{name}", raising=False)
    for known in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"clicket\[{name}\]"):
        importlib.import_module(f"clicket.adapters.{name}")
