"""Language models over their vendors' SDKs. An SDK is imported when a model of it is made.

    model = OpenAIModel("gpt-5-mini")                                    # the key from OPENAI_API_KEY
    model = OpenAIModel("qwen3", base_url="http://localhost:8000/v1")    # any server that speaks the same protocol
    model = AnthropicModel("claude-sonnet-5")
    model = model_of("openai:gpt-5-mini")                                # as settings name it
    model = ScriptModel("answers.json")                                  # no model at all: answers from a file
    model = model_of("pydantic-ai:groq:llama-3.3-70b-versatile")         # any vendor that pydantic-ai knows
    model = as_model(model)                                              # a model of LangChain or of pydantic-ai
    model = as_model(function)                                           # text to text, sync or async
    model = SchemaTools(model)                                           # tools for a model that supports none
    model = Fallback(model, other)                                       # the other one if the first one fails

A model sends each request once: its caller decides about retries. `chat` returns the whole reply, `stream` also passes on its
pieces as they arrive.

    openai, anthropic             the models of one vendor: request bodies and fallbacks
    anthropic_request             the conversation in the form of Anthropic's Messages API
    anthropic_cache               which parts of it the vendor's prompt cache keeps
    responses                     OpenAI's Responses API, in place of chat completions
    responses_request             the conversation as its items
    openai_reply                  replies of chat completions, whole or streamed
    anthropic_reply               replies of Anthropic's Messages API
    responses_reply               replies of OpenAI's Responses API
    found_tools                   results of `find_tools` as vendors get them
    adapter                       functions and other libraries' models as models
    langchain, pydantic_ai        models of LangChain and of pydantic-ai
    connection, clients           sending requests; one SDK client for each event loop
    file_blocks                   images and files in the forms of the vendors
    reply_builder                 a `ChatReply` from the pieces of a stream
    transcript                    conversations, tool names and ids that vendors accept
    schema_tools, schema_prompt   tool calls and schemas for models that support neither
    error_translation, prices     errors of the SDKs as ours; token counts and cost
    fallback, stall_guard         several models as one; giving up on a model that fell silent
    failure_reasons               why a model did not answer
    model_names, script           `model_of`; answers from a file
"""

from __future__ import annotations

from clicket.models.adapter import as_model
from clicket.models.anthropic import AnthropicModel
from clicket.models.fallback import Fallback
from clicket.models.model_names import model_of
from clicket.models.openai import OpenAIModel
from clicket.models.schema_tools import SchemaTools
from clicket.models.script import ScriptModel

__all__ = ["AnthropicModel", "Fallback", "OpenAIModel", "SchemaTools", "ScriptModel", "as_model", "model_of"]
