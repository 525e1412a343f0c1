"""pydantic-ai over clicket, and its models for clicket's agents.

    agent = Agent(model, toolsets=[ClicketToolset(rt, thread)])              # the tools that a thread may use now, read for each step
    agent = ReActAgent(rt, PydanticAIModel("groq:llama-3.3-70b-versatile"))  # or as_model(model), with a Model of pydantic-ai

With a toolset, the model gets the error of a failed call (`ToolFailed`), and the run continues. A failure does not count as a retry of the
agent, because the runtime has already retried transient errors.
"""

from __future__ import annotations

from typing import Any

from clicket.adapters.response_run import answer
from clicket.adapters.runtime_access import Offer, ToolCatalog, caller_of, loop_of, offers
from clicket.adapters.tool_request import ToolRequest, local_key
from clicket.adapters.tool_search import chosen_offers
from clicket.errors import UsageError
from clicket.models.pydantic_ai import PydanticAIModel
from clicket.system.bridge import on_loop
from clicket.tools.provider_schema import shown
from clicket.tools.search import chosen_limit

try:
    from pydantic_ai import BinaryContent, RunContext, ToolDefinition
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ImportError as missing:
    raise UsageError("clicket.adapters.pydantic_ai needs pydantic-ai: pip install 'clicket[pydantic-ai]'.") from missing

__all__ = ["ClicketToolset", "PydanticAIModel"]


class _RawArguments(dict[str, Any]):
    """Carries the model's text of the arguments through pydantic-ai to the runtime, which validates it."""

    text: str | bytes | None = None


class _NoValidator:
    """Accepts all arguments: the runtime refuses bad ones, records that, and the agent's retries do not count."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> Any:
        carried = _RawArguments()
        carried.text = input if isinstance(input, str) else bytes(input)
        return carried

    def validate_python(self, input: Any, **_: Any) -> Any:
        return input


class ClicketToolset(AbstractToolset[Any]):
    """The tools of a runtime, or of a client of one, for the agents of one thread.

    `max_offered`: if there are more tools, that many and `find_tools`: those that the thread found or used last.
    """

    def __init__(self, rt: Any, thread: str, *, id: str | None = None, max_offered: int | None = None) -> None:
        chosen_limit(False, max_offered)
        self._max_offered = max_offered
        self._rt = rt
        self._caller = caller_of(rt)
        self._thread = thread
        self._id = id
        self._catalog = ToolCatalog([])

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        async def look() -> tuple[ToolCatalog, list[Offer]]:
            catalog = await ToolCatalog.of(self._caller)
            found = await offers(self._caller, self._thread, catalog)
            choice = await chosen_offers(self._caller, self._thread, max_offered=self._max_offered, found=found)
            return catalog, choice.shown

        self._catalog, listed = await on_loop(loop_of(self._rt), look)
        return {
            offer.wire: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=offer.wire,
                    description=offer.description or None,
                    parameters_json_schema=shown(offer.input_schema),
                ),
                max_retries=0,
                args_validator=_NoValidator(),
            )
            for offer in listed
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        given = tool_args.text if isinstance(tool_args, _RawArguments) else tool_args
        request = ToolRequest(id=ctx.tool_call_id or "", name=name, arguments=given)
        # A model may reuse ids; steps of a run are unique.
        response_id = f"{ctx.run_id}/{ctx.run_step}" if ctx.run_id and request.id else None

        catalog = self._catalog
        key = local_key(request, 0)
        made = await on_loop(
            loop_of(self._rt),
            lambda: answer(self._caller, catalog, request, thread=self._thread, response_id=response_id, key=key),
        )
        if made.failed:
            raise ToolFailed(made.text)
        if not made.pictures:
            return made.text
        return [made.text, *(BinaryContent(each.data, media_type=each.media_type) for each in made.pictures)]
