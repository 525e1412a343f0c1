"""Agents of other libraries over a clicket runtime: one module for each library, imported only when it is used.

    anthropic, openai   tool parameters and tool results for the vendors' SDKs. Neither imports the SDK: they read its objects, or
                        dictionaries of the same form
    openai_calls        tool calls in objects and streams of OpenAI's APIs
    langchain           tools of clicket as LangChain tools, and the reverse
    pydantic_ai         a toolset for pydantic-ai, and its models for agents of clicket
    openai_agents       tools for the OpenAI Agents SDK
    claude_agent        an MCP server for the Claude Agent SDK
    temporal, dbos      a call as an activity of Temporal, as a step of DBOS
    response_run        runs the tool calls of one response
    tool_request        one tool call as a model wrote it, and its id
    tool_search         some of the tools for a request, and `find_tools`, when there are more than fit
    pictures            images of a tool's result, for SDKs whose models can look at them
    runtime_access      tools of an async, a blocking or a remote runtime, under the names that providers accept

Whatever a model wrote, each tool call gets exactly one result, in order; a mistake of the model becomes a result that says so.
"""
