"""The options that `ReActAgent` and `PlanExecuteAgent` share, as one value, and the parts that are made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from clicket.agents.chain import Chain
from clicket.agents.check import Check
from clicket.agents.context_window import ContextWindow, windows_of
from clicket.agents.model_step import Thinker
from clicket.agents.output import Output
from clicket.agents.tool_search import ToolChoice
from clicket.agents.tool_step import Actor
from clicket.agents.turn_lifecycle import Deltas, OnChange, StateChanged
from clicket.agents.turn_limits import Limits
from clicket.agents.undo_turn import UndoOn
from clicket.model.ports import ChatModel
from clicket.tools import Tool

__all__ = ["AgentOptions"]


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The fields are keywords of both constructors, which have their defaults. `ReActAgent` says what they mean."""

    name: str
    system: str
    tools: Collection[str | Tool] | None
    max_steps: int
    max_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    max_seconds: float | None
    max_repeats: int | None
    max_concurrency: int
    max_observation: int
    max_answer_tokens: int | None
    model_retries: int
    retry_delay: float
    window: ContextWindow | int | None
    tool_search: bool
    max_offered: int | None
    middleware: Iterable[object]
    checks: Iterable[Check]
    output: type[Any] | Output[Any] | Mapping[str, Any] | None
    output_retries: int
    replace: bool
    on_change: OnChange
    deltas: Deltas
    undo_on: UndoOn | Collection[UndoOn] | None
    on_state_changed: StateChanged | None

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> AgentOptions:
        """Of a constructor's `locals()`: each option is written in its signature, and nowhere again."""
        return cls(**{name: keywords[name] for name in cls.__struct_fields__})

    def thinker(self, model: ChatModel, *own: object, role: str = "") -> Thinker:
        """`own`: middleware of this model, nearer to it than that of the agent."""
        return Thinker(
            model,
            system=self.system,
            role=role,
            max_tokens=self.max_answer_tokens,
            retries=self.model_retries,
            retry_delay=self.retry_delay,
            middleware=(*own, *windows_of(self.window, model)),
        )

    def tool_choice(self, model: ChatModel) -> tuple[ToolChoice, ...]:
        return ToolChoice.of(model, self.tool_search, self.max_offered)

    def actor(self) -> Actor:
        return Actor(max_concurrency=self.max_concurrency, max_observation=self.max_observation)

    def of_agent(self) -> dict[str, Any]:
        """What an `Agent` takes of them."""
        return {
            "name": self.name,
            "system": self.system,
            "limits": Limits(**{name: getattr(self, name) for name in Limits.__struct_fields__}),
            "middleware": Chain(self.middleware, checks=self.checks, output_retries=self.output_retries),
            "output": self.output,
            "replace": self.replace,
            "on_change": self.on_change,
            "deltas": self.deltas,
            "undo_on": self.undo_on,
            "on_state_changed": self.on_state_changed,
        }
