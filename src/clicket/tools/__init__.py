"""What can be called: tools, their schemas and options, and the context they run in.

- `protocol`: `Tool`, the whole contract; `defaults` for most of it, `completed` for tools from outside that have only a part of it
- `function`: `@tool`, which makes a tool of a function
- `deps`: values of the process that tools get: `Depends`
- `options`, `resources`, `depends`: options of a tool; what it needs on a Ray cluster; the tools that must have completed before it
- `context`: `ToolContext`, what a running tool knows and reports
- `question`: questions of a tool to a person
- `nested`: calls that a running call makes
- `pending`, `reconcile`: calls that end elsewhere, and their tokens; a tool's own check of an unknown outcome
- `undo`, `undo_tools`: how the effect of a tool's calls is undone; the inner tools that do it
- `registry`: the tools of a runtime by name
- `schema`, `plain_signature`, `pydantic_arguments`, `output_schema`: JSON Schema from type hints, and the conversion of arguments
- `check`, `model_arguments`: the compiled check of a schema; arguments as a model wrote them, normalised
- `judge`, `problems`, `output_check`: does a value fit a schema; what is wrong with it; the compiled check of an output schema
- `schema_graph`, `union_bound`: how much work a schema can cause; how much pydantic has with arguments
- `value_type`: a type that a value must have
- `provider_schema`: a schema in the form that a model provider accepts
- `answer_schema`: the schema of an answer, in the form to which a vendor can bind its model
- `native`: tools with a session for each caller and thread
- `rest`, `openapi`, `schema_refs`: HTTP operations as tools, also from an OpenAPI document
- `request`, `exchange`, `response`, `stream`: the HTTP request of a call, its redirects, its output; a response that is streamed
- `client_pool`: the HTTP clients of a tool, one for each event loop
- `place`: file and line of a declaration
- `rate`, `costs`: how often calls of a tool may start; costs that it reports
"""

from __future__ import annotations

from clicket.tools.check import Check, compile_schema
from clicket.tools.completed import CompletedTool
from clicket.tools.context import STREAMED, Sink, Streamed, ToolContext
from clicket.tools.depends import Group, names_of
from clicket.tools.deps import Depends
from clicket.tools.function import FunctionTool, tool
from clicket.tools.native import NativeTool, Session, SessionKey, SessionTool, session_key
from clicket.tools.nested import NestedCalls, nested_calls
from clicket.tools.options import Isolation, Options, Recovery, make_options
from clicket.tools.output_check import output_check
from clicket.tools.pending import Pending
from clicket.tools.protocol import BasicTool, Tool, Traits
from clicket.tools.reconcile import CallInDoubt, Continues, DidNotHappen, Happened, Unknown
from clicket.tools.registry import Registered, Registry, as_tool
from clicket.tools.resources import Resources
from clicket.tools.undo import Undo

__all__ = [
    "STREAMED",
    "BasicTool",
    "CallInDoubt",
    "Check",
    "CompletedTool",
    "Continues",
    "Depends",
    "DidNotHappen",
    "FunctionTool",
    "Group",
    "Happened",
    "Isolation",
    "NativeTool",
    "NestedCalls",
    "Options",
    "Pending",
    "Recovery",
    "Registered",
    "Registry",
    "Resources",
    "Session",
    "SessionKey",
    "SessionTool",
    "Sink",
    "Streamed",
    "Tool",
    "ToolContext",
    "Traits",
    "Undo",
    "Unknown",
    "as_tool",
    "compile_schema",
    "make_options",
    "names_of",
    "nested_calls",
    "output_check",
    "session_key",
    "tool",
]
