"""What fits into a model's window. Old results become references, then old messages a summary, and only then are they left out;
a tool call and its result stay together, whatever happens to them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from clicket.agents.limits import counted
from clicket.agents.memory import key_of
from clicket.agents.read_result import referred
from clicket.agents.thinking import Window
from clicket.agents.transcript import storable
from clicket.agents.turn import Turn
from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolOffer
from clicket.model.codec import encode
from clicket.ports import ChatModel

__all__ = ["ContextWindow", "Summary", "estimated", "window_of"]

logger = logging.getLogger("clicket.agents")

SUMMARY = "agent.summary"
"""The kind of the papers that hold summaries."""
_MAX_KNOWN = 1_000
_ROOM = 0.75
"""How full the window is after something was shortened: so that the next steps need nothing shortened, and vendors' caches hold."""
_ASK = (
    "Summarise the conversation so far for yourself: what the user wants, what was found out and done (with names, numbers, ids and "
    "artifacts as they are), what is open. Answer with the summary alone."
)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of the first messages of a thread; `digest` is theirs, so that it is never taken for that of others."""

    covered: int
    digest: str
    text: str


_summary = msgspec.json.Decoder(Summary)


def estimated(text: str) -> int:
    """Tokens of a text, without its model: about four letters each, or one sign of a script that has no letters."""
    wide = 0 if text.isascii() else sum(1 for sign in text if ord(sign) > 0x2E7F)
    return (len(text) - wide + 3) // 4 + wide


class ContextWindow:
    """`ReActAgent(…, window=ContextWindow(100_000))`: requests of at most about so many tokens.

    `keep_steps`: results of the last steps that stay whole as long as they can. `summarize`: the model that writes summaries;
    without one old messages are left out. `tokens` counts the tokens of a text; the default is a rough estimate.
    """

    def __init__(
        self,
        max_tokens: int,
        *,
        keep_steps: int = 4,
        max_reference: int = 400,
        summarize: ChatModel | None = None,
        tokens: Callable[[str], int] = estimated,
    ) -> None:
        for name, value, least in (
            ("max_tokens", max_tokens, 100),
            ("keep_steps", keep_steps, 0),
            ("max_reference", max_reference, 50),
        ):
            if type(value) is not int or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        self.max_tokens = max_tokens
        self._keep_steps = keep_steps
        self._max_reference = max_reference
        self._model = summarize
        self._tokens = tokens
        self._known: OrderedDict[str, Summary] = OrderedDict()

    async def __call__(self, turn: Turn, request: ChatRequest) -> ChatRequest:
        fixed = self._tools(request.tools)
        most = self.max_tokens - fixed
        messages = list(request.messages)
        if self._size(messages) <= most:
            return request
        messages = await self._shortened(turn, messages, int(most * _ROOM), self._keep_steps)
        if self._size(messages) > most:
            messages = await self._folded(turn, messages, int(most * _ROOM))
        if self._size(messages) > most:
            messages = await self._shortened(turn, messages, most, 0)
        return msgspec.structs.replace(request, messages=tuple(messages))

    # Sizes.

    def _size(self, messages: Sequence[ChatMessage]) -> int:
        return sum(map(self._of, messages))

    def _of(self, message: ChatMessage) -> int:
        uses = sum(self._tokens(use.name) + self._tokens(use.arguments) + 8 for use in message.uses)
        return self._tokens(message.content) + uses + 4

    def _tools(self, tools: Sequence[ToolOffer]) -> int:
        return sum(
            self._tokens(tool.name)
            + self._tokens(tool.description)
            + self._tokens(encode(tool.input_schema).decode())
            + 8
            for tool in tools
        )

    # Results become references.

    async def _shortened(
        self, turn: Turn, messages: list[ChatMessage], most: int, keep_steps: int
    ) -> list[ChatMessage]:
        """Long results of old steps are kept as files, and named; the oldest first, until it fits."""
        last = _start_of_last(messages, keep_steps)
        size, made = self._size(messages), list(messages)
        for place, message in enumerate(messages[:last]):
            if size <= most:
                break
            if message.role == "tool" and len(message.content) > self._max_reference * 2:
                short = await referred(turn, message, self._max_reference)
                size += self._of(short) - self._of(message)
                made[place] = short
        return made

    # Messages become a summary.

    async def _folded(self, turn: Turn, messages: list[ChatMessage], most: int) -> list[ChatMessage]:
        head = 1 if messages and messages[0].role == "system" else 0
        cut = self._cut(messages, head, most)
        if cut <= head:
            return messages
        old = messages[head:cut]
        summary = await self._summary(turn, old)
        # What this turn is about stays as it was asked, however long ago that is.
        asked = [message for message in old if message is turn.messages[turn.begins]]
        return [*messages[:head], ChatMessage(role="user", content=summary), *asked, *messages[cut:]]

    def _cut(self, messages: Sequence[ChatMessage], head: int, most: int) -> int:
        """From where on messages stay: as many of the last as fill half of the room, from a place where nothing is torn."""
        size, cut = 0, len(messages)
        while cut > head and size + self._of(messages[cut - 1]) <= most // 2:
            cut -= 1
            size += self._of(messages[cut])
        while cut < len(messages) and messages[cut].role == "tool":
            cut += 1
        if cut == len(messages):  # the last group alone is too large: it stays all the same
            cut = max(min(_start_of_last(messages, 1), len(messages) - 1), head)
        return cut

    async def _summary(self, turn: Turn, old: Sequence[ChatMessage]) -> str:
        left_out = f"[{len(old)} earlier messages are left out here.]"
        if self._model is None:
            return left_out
        known = await self._load(turn)
        if known is not None and known.covered <= len(old) and known.digest == _digest(old[: known.covered]):
            told, rest = known.text, old[known.covered :]
        else:
            told, rest = "", old
        if rest:
            before = (ChatMessage(role="user", content=_said(told)),) if told else ()
            asked = ChatMessage(role="user", content=_ASK)
            try:
                reply = await self._model.chat(ChatRequest(messages=(*before, *_in_words(rest), asked)))
                if not isinstance(reply, ChatReply):
                    raise UsageError(f"{type(reply).__name__} is no ChatReply")
            except Exception:  # an agent whose summary fails can still answer
                logger.warning(
                    "thread %s: old messages could not be summarised, and are left out", turn.thread, exc_info=True
                )
                return _said(told) if told else left_out
            turn.spent.usage = turn.spent.usage + counted(reply.usage)
            told = turn.declared.text(storable(reply.text).strip()) or told or left_out
            await self._store(turn, Summary(covered=len(old), digest=_digest(old), text=told))
        return _said(told)

    async def _load(self, turn: Turn) -> Summary | None:
        key = self._key(turn)
        if key not in self._known:
            document = await turn.host.records.document(SUMMARY, key)
            body = None if document is None else turn.host.reveal(SUMMARY, key, document.body)
            try:
                found = None if body is None else _summary.decode(body)
            except (msgspec.MsgspecError, ValueError):
                found = None
            if found is None:
                return None
            self._remember(key, found)
        return self._known[key]

    async def _store(self, turn: Turn, summary: Summary) -> None:
        key = self._key(turn)
        self._remember(key, summary)
        await turn.host.records.put_document(SUMMARY, key, turn.host.protect(SUMMARY, key, encode(summary)), None)

    def _remember(self, key: str, summary: Summary) -> None:
        self._known[key] = summary
        self._known.move_to_end(key)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    def _key(self, turn: Turn) -> str:
        return key_of(turn.host.caller, turn.thread, turn.mark.partition(".")[0])


def window_of(given: Window | int | None, model: ChatModel) -> Window | None:
    """A number of tokens is a window whose summaries the model itself writes."""
    return ContextWindow(given, summarize=model) if isinstance(given, int) else given


def _start_of_last(messages: Sequence[ChatMessage], steps: int) -> int:
    """Where the last so many answers of the model begin."""
    place = len(messages)
    for number in range(len(messages) - 1, -1, -1):
        if steps == 0:
            break
        if messages[number].role == "assistant":
            place, steps = number, steps - 1
    return place


def _digest(messages: Sequence[ChatMessage]) -> str:
    # Results may be whole one time and references another: what is summarised is the same conversation.
    told = [(m.role, m.use_id, "" if m.role == "tool" else m.content, [u.id for u in m.uses]) for m in messages]
    return sha256(encode(told)).hexdigest()


def _said(summary: str) -> str:
    return f"[Summary of the conversation so far]\n{summary}"


def _in_words(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Without tool calls as such: who summarises has no tools, and some vendors refuse calls of tools that are not offered."""
    told: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool":
            told.append(ChatMessage(role="user", content=f"[result of {message.use_id}]\n{message.content}"))
        elif message.uses:
            calls = "\n".join(f"[calls {use.name} as {use.id}: {use.arguments}]" for use in message.uses)
            told.append(ChatMessage(role="assistant", content=f"{message.content}\n{calls}".strip()))
        elif message.content:
            told.append(message)
    return told
