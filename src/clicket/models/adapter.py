"""Turns a function, or another library's model, into a `ChatModel`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from clicket.errors import ClicketError, UsageError
from clicket.model.chat import ChatReply, ChatRequest, TypedBy
from clicket.model.ports.services import ChatModel
from clicket.models.langchain import LangChainModel, is_langchain_model
from clicket.models.pydantic_ai import PydanticAIModel, is_pydantic_ai_model
from clicket.system.bridge import run_in_thread

__all__ = ["as_model"]

_METHODS = ("achat", "ainvoke", "chat", "invoke")
"""Methods of other libraries' models, the async ones first. `chat` is one that takes a text."""
_TEXT_PARAMETERS = ("messages", "message", "prompt", "text", "query", "question", "input", "content")


def as_model(given: Any) -> ChatModel:
    """A `ChatModel` is returned as it is. A model of LangChain or of pydantic-ai gets messages and tools, and may call tools.

    A function, or a method of another library's model, gets the prompt as one text, and cannot be offered tools: wrap it in `SchemaTools`.

    A function whose first parameter is called `messages` gets a list of `{"role", "content"}`. It returns a text, or an object with
    a text as `content` or `text`. Functions that are not async run in a thread.
    """
    if isinstance(given, str):
        raise UsageError(f"model= is the name {given!r}. Make the model first: clicket.models.model_of({given!r}).")
    if isinstance(given, type):
        raise UsageError(f"model= is the class {given.__name__} itself. Make one: {given.__name__}(…).")
    if _is_chat_model(given):
        model: ChatModel = given if isinstance(getattr(given, "name", None), str) else _Nameless(given)
        return model
    if is_langchain_model(given):
        return LangChainModel(given)
    if is_pydantic_ai_model(given):
        return PydanticAIModel(given)
    if inspect.isroutine(given):
        return _Function(given, getattr(given, "__name__", "function"))
    for ask in (*(getattr(given, method, None) for method in _METHODS), given):
        if callable(ask):
            return _Function(ask, type(given).__name__)
    raise UsageError(
        f"model= is {type(given).__name__}. Give a ChatModel (clicket.models.OpenAIModel, AnthropicModel), or a function, "
        "sync or async, that takes the prompt and returns the answer."
    )


def _is_chat_model(given: Any) -> bool:
    """Has it an async `chat` that takes a request? The `chat` of other libraries takes a text."""
    chat = getattr(given, "chat", None)
    return inspect.iscoroutinefunction(chat) and _first_parameter(chat) not in _TEXT_PARAMETERS


def _first_parameter(function: Callable[..., Any]) -> str:
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # some built-ins have no signature
        return ""


class _Nameless:
    def __init__(self, model: Any) -> None:
        self.name = type(model).__name__
        self.typed_by: TypedBy = getattr(model, "typed_by", "text")
        self.sees_images: bool = bool(getattr(model, "sees_images", False))
        self.chat = model.chat


class _Function:
    def __init__(self, ask: Callable[..., Any], name: str) -> None:
        self.name = name
        self._ask = ask
        self._takes_messages = _first_parameter(ask) == "messages"
        # A callable object may have an async __call__; so may what a partial wraps.
        self._is_async = inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(
            getattr(ask, "__call__", None)  # noqa: B004 - not a question whether it can be called
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        if request.tools and request.tool_choice != "none":
            raise UsageError(
                f"the model {self.name} takes a text and cannot be offered tools ({_some(request)}). Describe them in the prompt: "
                "SchemaTools(as_model(model)), of clicket.models; or use a model that can call tools."
            )
        prompt: Any = request.text
        if self._takes_messages:
            prompt = [{"role": one.role, "content": one.content} for one in request.messages]
        if self._is_async:
            answer = await self._ask(prompt)
        else:
            answer = await run_in_thread(lambda: self._ask(prompt))
            if inspect.isawaitable(answer):
                answer = await answer
        return _reply(answer, self.name)


def _some(request: ChatRequest) -> str:
    names = [offer.name for offer in request.tools]
    return ", ".join((*names[:5], "…") if len(names) > 5 else names)


def _reply(answer: Any, name: str) -> ChatReply:
    if isinstance(answer, ChatReply):
        return answer
    for place in (answer, _member(answer, "content"), _member(answer, "text")):
        if isinstance(place, str):
            return ChatReply(text=place)
        if isinstance(place, list):  # parts, as LangChain's messages have them
            parts = [one if isinstance(one, str) else _member(one, "text") for one in place]
            return ChatReply(text="".join(one for one in parts if isinstance(one, str)))
    raise ClicketError(f"The model {name} answered with {type(answer).__name__}, which holds no text.")


def _member(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
