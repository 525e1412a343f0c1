"""Language models over their vendors' own SDKs, each imported only when a model of it is made.

    model = OpenAIModel("gpt-5-mini")                                    # the key from OPENAI_API_KEY
    model = OpenAIModel("qwen3", base_url="http://localhost:8000/v1")    # any server that speaks the same protocol
    model = AnthropicModel("claude-sonnet-5")
    model = model_of("openai:gpt-5-mini")                                # as settings name it
    model = ScriptModel("answers.json")                                  # no model at all: answers from a file
    model = as_model(function)                                           # text to text, sync or async
    model = SchemaTools(model)                                           # tools for one that knows none

A model asks once for each request: who uses it decides about trying again. `chat` gives the whole answer, `stream` tells it in
pieces as it comes.
"""

from __future__ import annotations

from clicket.models.anthropic import AnthropicModel
from clicket.models.naming import model_of
from clicket.models.openai import OpenAIModel
from clicket.models.schema_tools import SchemaTools
from clicket.models.script import ScriptModel
from clicket.search.llm.model_adapter import as_model

__all__ = ["AnthropicModel", "OpenAIModel", "SchemaTools", "ScriptModel", "as_model", "model_of"]
