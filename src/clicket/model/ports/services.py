"""External services that clicket uses: search, chat models, embeddings. Each is one method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from clicket.model.chat import ChatReply, ChatRequest, Delta
from clicket.model.document import Document

__all__ = ["ChatModel", "Embedder", "SearchEngine", "StreamingModel"]


class SearchEngine(Protocol):
    """Raises on failure; an empty answer means that nothing was found. `deadline`: seconds that the search has, or None."""

    @property
    def name(self) -> str: ...

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]: ...


class ChatModel(Protocol):
    """Raises on failure: `RetryableError` if a retry may help; it has the delay."""

    @property
    def name(self) -> str: ...

    async def chat(self, request: ChatRequest) -> ChatReply: ...


@runtime_checkable
class StreamingModel(ChatModel, Protocol):
    """A model that streams its answer. `tell` is called on the loop with each piece; it neither waits nor raises. The pieces
    add up to the reply that is returned. A retry after a failure sends all pieces again."""

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply: ...


class Embedder(Protocol):
    """Texts to unit vectors, one row for each: a numpy array of float32. `name` identifies the embedding space."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Any: ...
