"""Shortens requests to a model's context window: first old images and files are left out, then old results become references,
then old messages become a summary, or are left out if there is none. A tool call and its result are never separated."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from clicket.agents.memory import key_of
from clicket.agents.middleware import Middleware
from clicket.agents.model_chain import chain_summary
from clicket.agents.model_holds import SharedHolds
from clicket.agents.model_spend import paid_summary
from clicket.agents.read_result import as_referred, referred
from clicket.agents.transcript import storable
from clicket.agents.turn import Turn
from clicket.agents.turn_limits import check_counts
from clicket.errors import StoreUnavailable, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, ToolOffer
from clicket.model.codec import encode
from clicket.model.ports import ChatModel
from clicket.model.ports.model_chain import ModelChain

__all__ = ["ContextWindow", "Summary", "estimated", "windows_of"]

logger = logging.getLogger("clicket.agents")

SUMMARY = "agent.summary"
"""The kind of the documents that hold summaries."""
_MAX_KNOWN = 1_000
_ROOM = 0.75
"""The part of the window that is filled after shortening, so that the next steps need none and the vendor's prompt cache applies."""
_NO_ROOM = "left out to make room"
_ASK = (
    "Summarise the conversation so far for yourself: what the user wants, what was found out and done (with names, numbers, ids and "
    "artifacts as they are), what is open. Answer with the summary alone."
)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of the first `covered` messages of a thread; `digest` identifies these messages. Without a `text` they are left out."""

    covered: int
    digest: str
    text: str


_summary = msgspec.json.Decoder(Summary)


def estimated(text: str) -> int:
    """Approximate number of tokens: one for four letters, or for one character of a script such as Chinese."""
    wide = 0 if text.isascii() else sum(1 for sign in text if ord(sign) > 0x2E7F)
    return (len(text) - wide + 3) // 4 + wide


class ContextWindow(Middleware):
    """`ReActAgent(…, window=ContextWindow(100_000))`: the approximate maximum of tokens in a request.

    `keep_steps`: the number of last steps whose results stay whole if possible. `max_reference`: characters of a result that stay in its
    place. `summarize`: the model that writes summaries; without one old messages are left out. `tokens` counts the tokens of a
    text; the default is an estimate.
    """

    is_derived = True

    def __init__(
        self,
        max_tokens: int,
        *,
        keep_steps: int = 4,
        max_reference: int = 400,
        summarize: ChatModel | None = None,
        tokens: Callable[[str], int] = estimated,
    ) -> None:
        check_counts(100, max_tokens=max_tokens)
        check_counts(0, keep_steps=keep_steps)
        check_counts(50, max_reference=max_reference)
        self.max_tokens = max_tokens
        self._keep_steps = keep_steps
        self._max_reference = max_reference
        self._model = summarize
        self._tokens = tokens
        self._known: OrderedDict[str, Summary] = OrderedDict()
        self._holds = SharedHolds()

    async def before_model(self, turn: Turn, request: ChatRequest) -> ChatRequest:
        fixed = self._tools(request.tools)
        most = self.max_tokens - fixed
        whole = list(request.messages)
        if self._size(whole) <= most:
            return request
        room = int(most * _ROOM)
        messages = await self._shortened(turn, await self._as_folded(turn, whole), most, self._keep_steps)
        if self._size(messages) > most:
            messages = self._without_old_files(turn, messages, room, 1)
        if self._size(messages) > most:
            messages = await self._shortened(turn, whole, most, self._keep_steps)
            messages = await self._folded(turn, self._without_old_files(turn, messages, room, 1), room)
        if self._size(messages) > most:
            messages = await self._referred(turn, self._without_old_files(turn, messages, most, 0), most)
        return msgspec.structs.replace(request, messages=tuple(messages))

    # Sizes.

    def _size(self, messages: Sequence[ChatMessage]) -> int:
        return sum(map(self._of, messages))

    def _of(self, message: ChatMessage) -> int:
        uses = sum(self._tokens(use.name) + self._tokens(use.arguments) + 8 for use in message.uses)
        files = sum(ref.tokens for ref in message.files) if message.files else 0
        return self._tokens(message.content) + uses + files + 4

    def _tools(self, tools: Sequence[ToolOffer]) -> int:
        return sum(
            self._tokens(tool.name)
            + self._tokens(tool.description)
            + self._tokens(encode(tool.input_schema).decode())
            + 8
            for tool in tools
            if not tool.deferred
        )

    # Files become lines.

    def _without_old_files(
        self, turn: Turn, messages: list[ChatMessage], most: int, keep_steps: int
    ) -> list[ChatMessage]:
        """Leave files of old steps out, the oldest first, until the messages fit. Their lines stay, and name the artifacts."""
        last, asked = _start_of_last(messages, keep_steps), turn.messages[turn.begins]
        size, made = self._size(messages), list(messages)
        for place, message in enumerate(messages[:last]):
            if message is asked:  # it is what the turn is about
                continue
            for ref in message.files:
                if size <= most:
                    return made
                short = made[place].unseen(ref, _NO_ROOM)
                size += self._of(short) - self._of(made[place])
                made[place] = short
        return made

    # Results become references.

    async def _shortened(
        self, turn: Turn, messages: Sequence[ChatMessage], most: int, keep_steps: int
    ) -> list[ChatMessage]:
        """Leave files of old steps out, then refer to their long results, the oldest first. Each request until this one did so that had
        more than `most`, until `_ROOM` of that was filled: so this request begins as the one before it, unless that one was full."""
        made, asked, room = list(messages), turn.messages[turn.begins], int(most * _ROOM)
        sizes = [self._of(message) for message in made]
        steps = [place for place, message in enumerate(made) if message.role == "assistant"]
        size = end = with_files = whole = 0
        old: list[int] = []
        for number, until in enumerate((*steps, len(made))):
            size += sum(sizes[end:until])
            end = until
            if size <= most:
                continue
            last = steps[max(number - keep_steps, 0)] if number and keep_steps else until
            for place in range(with_files, last):
                if size <= room:
                    break
                for ref in () if messages[place] is asked else messages[place].files:
                    if size > room:
                        made[place] = made[place].unseen(ref, _NO_ROOM)
                        size += self._of(made[place]) - sizes[place]
                        sizes[place] = self._of(made[place])
                with_files = place if made[place].files and made[place] is not asked else place + 1
            while size > room and whole < last:
                if self._is_long(made[whole]):
                    old.append(whole)
                    size -= sizes[whole]
                    sizes[whole] = self._of(as_referred(made[whole], self._max_reference))
                    size += sizes[whole]
                whole += 1
        for place in old:
            made[place] = await referred(turn, made[place], self._max_reference)
        return made

    def _is_long(self, message: ChatMessage) -> bool:
        return message.role == "tool" and len(message.content) > self._max_reference * 2

    async def _referred(self, turn: Turn, messages: list[ChatMessage], most: int) -> list[ChatMessage]:
        """Refer to long results, the oldest first, until the messages fit; also to those of the last step."""
        made, size = list(messages), self._size(messages)
        for place, message in enumerate(messages):
            if size <= most:
                break
            if self._is_long(message):
                made[place] = await referred(turn, message, self._max_reference)
                size += self._of(made[place]) - self._of(message)
        return made

    # Messages become a summary.

    async def _folded(self, turn: Turn, messages: list[ChatMessage], most: int) -> list[ChatMessage]:
        head = _head_of(messages)
        cut = self._cut(messages, head, most)
        if cut <= head:
            return messages
        old = messages[head:cut]
        if self._size(old) <= self._of(ChatMessage(role="user", content=_left_out(len(old)))):
            return messages  # any summary would be longer
        folded = _with_summary(turn, messages, head, cut, await self._summary(turn, old))
        return folded if self._size(folded) < self._size(messages) else messages

    async def _as_folded(self, turn: Turn, messages: list[ChatMessage]) -> list[ChatMessage]:
        """The messages with the last summary in place of those that it covers, if these are the ones."""
        known = await self._load(turn)
        head = _head_of(messages)
        if known is None or not self._is_of(known, messages[head:]):
            return messages
        text = _headed(known.text) if known.text else _left_out(known.covered)
        return _with_summary(turn, messages, head, head + known.covered, text)

    def _is_of(self, known: Summary, old: Sequence[ChatMessage]) -> bool:
        """Is it a summary of the first of these messages? One without a text says that they are left out; a model then writes one."""
        is_written = bool(known.text) or self._model is None
        return is_written and known.covered <= len(old) and known.digest == _digest(old[: known.covered])

    def _cut(self, messages: Sequence[ChatMessage], head: int, most: int) -> int:
        """The index from which messages stay: as many as fill half of the space, without splitting a call from its result."""
        size = 0
        cut = len(messages)
        while cut > head and size + self._of(messages[cut - 1]) <= most // 2:
            cut -= 1
            size += self._of(messages[cut])
        while cut < len(messages) and messages[cut].role == "tool":
            cut += 1
        if cut == len(messages):  # the last step stays, also if it is too large
            cut = max(min(_start_of_last(messages, 1), len(messages) - 1), head)
        return cut

    async def _summary(self, turn: Turn, old: Sequence[ChatMessage]) -> str:
        left_out = _left_out(len(old))
        if self._model is None:
            await self._store(turn, Summary(covered=len(old), digest=_digest(old), text=""))
            return left_out
        known = await self._load(turn)
        if known is not None and self._is_of(known, old):
            summary = known.text
            rest = old[known.covered :]
        else:
            summary = ""
            rest = old
        if rest:
            before = (ChatMessage(role="user", content=_headed(summary)),) if summary else ()
            asked = ChatMessage(role="user", content=_ASK)
            try:
                request = ChatRequest(messages=(*before, *_without_calls(rest), asked))
                if isinstance(self._model, ModelChain):
                    reply = await chain_summary(turn, self._model, request, self._holds)
                else:
                    reply = await paid_summary(turn, self._model, request)
                if not isinstance(reply, ChatReply):
                    raise UsageError(f"{type(reply).__name__} is not a ChatReply")
            except StoreUnavailable:  # the turn waits for the store
                raise
            except Exception:  # the agent can answer without a summary
                logger.warning(
                    "thread %s: old messages could not be summarised, and are left out", turn.thread, exc_info=True
                )
                return _headed(summary) if summary else left_out
            summary = turn.sensitive.text(storable(reply.text).strip()) or summary or left_out
            await self._store(turn, Summary(covered=len(old), digest=_digest(old), text=summary))
        return _headed(summary)

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


def windows_of(given: ContextWindow | int | None, model: ChatModel) -> tuple[ContextWindow, ...]:
    """A number of tokens becomes a window whose summaries the model itself writes."""
    window = ContextWindow(given, summarize=model) if isinstance(given, int) else given
    if window is not None and not isinstance(window, ContextWindow):
        raise UsageError(
            f"window is a number of tokens or a ContextWindow, not {window!r:.100}. To change requests in another way, use middleware=[…]."
        )
    return () if window is None else (window,)


def _start_of_last(messages: Sequence[ChatMessage], steps: int) -> int:
    """The index of the first of the last `steps` messages of the model."""
    place = len(messages)
    for number in range(len(messages) - 1, -1, -1):
        if steps == 0:
            break
        if messages[number].role == "assistant":
            place, steps = number, steps - 1
    return place


def _digest(messages: Sequence[ChatMessage]) -> str:
    # Without the content of results: the same result may be whole in one request and a reference in another.
    parts = [(m.role, m.use_id, "" if m.role == "tool" else m.content, [u.id for u in m.uses]) for m in messages]
    return sha256(encode(parts)).hexdigest()


def _head_of(messages: Sequence[ChatMessage]) -> int:
    """The number of messages before the conversation: the instructions."""
    return 1 if messages and messages[0].role == "system" else 0


def _with_summary(turn: Turn, messages: Sequence[ChatMessage], head: int, cut: int, text: str) -> list[ChatMessage]:
    """A text in place of the messages from `head` to `cut`; the message of this turn stays, also if it is among them."""
    asked = [message for message in messages[head:cut] if message is turn.messages[turn.begins]]
    return [*messages[:head], ChatMessage(role="user", content=text), *asked, *messages[cut:]]


def _left_out(count: int) -> str:
    return f"[{count} earlier messages are left out here.]"


def _headed(summary: str) -> str:
    return f"[Summary of the conversation so far]\n{summary}"


def _without_calls(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Tool calls and results as text: some vendors refuse calls of tools that the request does not offer."""
    plain: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool":
            plain.append(ChatMessage(role="user", content=f"[result of {message.use_id}]\n{message.content}"))
        elif message.uses:
            calls = "\n".join(f"[calls {use.name} as {use.id}: {use.arguments}]" for use in message.uses)
            plain.append(ChatMessage(role="assistant", content=f"{message.content}\n{calls}".strip()))
        elif message.content:
            plain.append(message)
    return plain
