"""Tools of a client, as an AG-UI run gives them."""

from __future__ import annotations

import pytest

from clicket.errors import InvalidInput
from clicket.server.ag_ui.run_input import FrontendToolDefinition, RunAgentInput, offers


def test_a_tool_whose_schema_explodes_is_refused() -> None:
    levels = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**levels, "d40": {}}}
    tools = [FrontendToolDefinition(name="show", parameters=schema)]
    with pytest.raises(InvalidInput, match=r"/tools/0/parameters: .*more than 4,000 paths"):
        offers(RunAgentInput(thread_id="t", run_id="r", messages=[], tools=tools))
