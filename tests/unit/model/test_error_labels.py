"""How an error is named in the figures: its code, and the type of what a tool raised."""

from __future__ import annotations

import pytest

from clicket.model.figures import OTHER_TYPE, error_label


@pytest.mark.parametrize(
    ("code", "type", "label"),
    [
        ("tool_error", "ValueError", "tool_error:ValueError"),
        ("tool_error", "botocore.errorfactory.Denied", "tool_error:botocore.errorfactory.Denied"),
        ("tool_error", "Größenfehler", "tool_error:Größenfehler"),
        ("tool_error", "", f"tool_error:{OTHER_TYPE}"),
        ("tool_error", "a:b", f"tool_error:{OTHER_TYPE}"),
        ("tool_error", "x" * 81, f"tool_error:{OTHER_TYPE}"),
        ("tool_error", 'a"}\n', f"tool_error:{OTHER_TYPE}"),
        ("timeout", "Timeout", "timeout"),
        ("", "", ""),
    ],
)
def test_only_exceptions_of_tools_have_a_type(code: str, type: str, label: str) -> None:
    assert error_label(code, type) == label
