"""What clicket asks of others: to search, to answer, to place texts in a space. Each is one method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.model.document import Document

__all__ = ["ChatModel", "Embedder", "SearchEngine", "StreamingModel"]


class SearchEngine(Protocol):
    """Raises when it failed; an empty answer means that there is nothing. `deadline` is the seconds it has, or None."""

    @property
    def name(self) -> str: ...

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]: ...


class ChatModel(Protocol):
    """Raises when it failed: `RetryableError` when asking again may help, and when."""

    @property
    def name(self) -> str: ...

    async def chat(self, request: ChatRequest) -> ChatReply: ...


@runtime_checkable
class StreamingModel(ChatModel, Protocol):
    """A model that tells its answer while it gives it. `tell` is called on the loop and neither waits nor raises; the pieces add
    up to the reply that is returned. Who asks twice after a failure gets the pieces anew."""

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply: ...


class Embedder(Protocol):
    """Texts to unit vectors, one row for each: a numpy array of float32. `name` says which space they are in."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Any: ...
