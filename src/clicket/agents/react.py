"""An agent that thinks and acts in turn, until it has an answer."""

from __future__ import annotations

from collections.abc import Collection

from clicket.agents.acting import Actor
from clicket.agents.agent import Agent, Hosting
from clicket.agents.limits import Limits
from clicket.agents.loop import Loop
from clicket.agents.thinking import Thinker, Window
from clicket.agents.turn_lifecycle import Hook
from clicket.agents.window import window_of
from clicket.ports import ChatModel
from clicket.tools import Tool

__all__ = ["ReActAgent"]


class ReActAgent(Agent):
    """`agent = ReActAgent(rt, model, max_steps=20, system="…"); r = await agent.run("question", thread="t1")`.

    `tools`: the names that may be offered and called (all that the hub offers). `name`: agents of one name on one store share their
    threads. `max_calls`, `max_tokens`, `max_cost`, `max_seconds` and `max_repeats` bound one run. `max_observation` is how many
    characters of a result the model reads at once. `window`: about how many tokens a request may have, or
    a `ContextWindow`.
    """

    def __init__(
        self,
        rt: Hosting,
        model: ChatModel,
        *,
        name: str = "react",
        system: str = "",
        tools: Collection[str | Tool] | None = None,
        max_steps: int = 20,
        max_calls: int | None = 200,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        max_repeats: int | None = 5,
        max_concurrency: int = 5,
        max_observation: int = 32_768,
        max_answer_tokens: int | None = None,
        model_retries: int = 3,
        retry_delay: float = 1.0,
        window: Window | int | None = None,
        on_state_changed: Hook | None = None,
    ) -> None:
        thinker = Thinker(
            model,
            system=system,
            max_tokens=max_answer_tokens,
            retries=model_retries,
            retry_delay=retry_delay,
            window=window_of(window, model),
        )
        actor = Actor(max_concurrency=max_concurrency, max_observation=max_observation)
        limits = Limits(
            max_steps=max_steps,
            max_calls=max_calls,
            max_tokens=max_tokens,
            max_cost=max_cost,
            max_seconds=max_seconds,
            max_repeats=max_repeats,
        )
        loop = Loop(thinker, actor, tools)
        super().__init__(rt, loop, name=name, limits=limits, tools=loop.only or (), on_state_changed=on_state_changed)
