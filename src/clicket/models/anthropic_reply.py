"""Reads a reply of Anthropic's Messages API, whole or in events. Thinking blocks are kept unchanged: the API wants them back signed."""

from __future__ import annotations

import json
from typing import Any

from clicket.model.chat import ChatReply, Ended, Usage
from clicket.model.foreign import clean, field
from clicket.models.error_translation import Endpoint, interrupted_reply, malformed_reply
from clicket.models.prices import Prices, token_count
from clicket.models.reply_builder import ReplyBuilder, ToolUseBuilder

__all__ = ["BlockReader"]

_ENDED: dict[str, Ended] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_CUT = "[cut: the answer reached its token limit while these arguments were written]"


class _Thought:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.signature = ""


class BlockReader:
    """`answer_tool`: the tool that the model must use to give structured output. Its input becomes the reply's text, and other text
    is dropped unless the model did not use the tool."""

    def __init__(self, answer: ReplyBuilder, endpoint: Endpoint, answer_tool: str = "") -> None:
        self._answer = answer
        self._endpoint = endpoint
        self._answer_tool = answer_tool
        self._open: dict[Any, Any] = {}
        self._given: dict[Any, Any] = {}
        self._aside: list[str] = []
        self._answered = False
        self._blocks: list[Any] = []
        self._reason: Any = None
        self._counts: dict[str, int] = {}
        self._thinking = 0

    def whole(self, answer: Any) -> None:
        blocks = field(answer, "content")
        if not isinstance(blocks, list):
            raise malformed_reply(self._endpoint)
        self._reason = field(answer, "stop_reason") or "end_turn"
        self._answer.known_as(field(answer, "id"), field(answer, "model"))
        for place, block in enumerate(blocks):
            # Only the last block can be incomplete when the token limit is reached, and it may look complete.
            cut = self._reason == "max_tokens" and place == len(blocks) - 1 and field(block, "type") == "tool_use"
            self._start(place, block)
            if cut and isinstance(self._open.get(place), ToolUseBuilder):
                self._given[place] = _CUT
            self._stop(place)
        self._count(field(answer, "usage"))

    def feed(self, event: Any) -> None:
        kind = field(event, "type")
        index = str(field(event, "index"))
        if kind == "message_start":
            message = field(event, "message")
            self._answer.known_as(field(message, "id"), field(message, "model"))
            self._count(field(message, "usage"))
        elif kind == "content_block_start":
            self._stop(index)
            self._start(index, field(event, "content_block"))
        elif kind == "content_block_delta":
            self._piece(index, field(event, "delta"))
        elif kind == "content_block_stop":
            self._stop(index)
        elif kind == "message_delta":
            self._reason = field(field(event, "delta"), "stop_reason") or self._reason
            self._count(field(event, "usage"))

    def reply(self, prices: Prices) -> ChatReply:
        if self._reason is None and not self._answer.full:
            raise interrupted_reply(self._endpoint)
        for index in list(self._open):
            self._stop(index)
        if not self._answered:
            self._answer.text("".join(self._aside))
        read = [self._counts.get(one, 0) for one in _READ]
        usage = Usage(  # the API counts the tokens that its cache gave or took beside the other input
            input_tokens=sum(read),
            cached_tokens=read[1],
            cache_write_tokens=read[2],
            output_tokens=self._counts.get("output_tokens", 0),
            reasoning_tokens=self._thinking,
        )
        blocks = self._kept()
        return self._answer.reply(
            ended=_ENDED.get(str(self._reason), "stop"),
            usage=prices.priced(usage),
            vendor={"anthropic": blocks} if blocks else None,
        )

    def _start(self, index: Any, block: Any) -> None:
        kind = field(block, "type")
        if kind == "text":
            self._open[index] = "text"
            self._piece(index, {"type": "text_delta", "text": field(block, "text")})
        elif kind == "thinking":
            self._open[index] = thought = _Thought()
            self._blocks.append(thought)
            self._piece(index, {"type": "thinking_delta", "thinking": field(block, "thinking")})
            self._piece(index, {"type": "signature_delta", "signature": field(block, "signature")})
        elif kind == "redacted_thinking":
            self._blocks.append({"type": kind, "data": clean(field(block, "data"))})
        elif kind == "tool_use":
            self._given[index] = field(block, "input")
            if self._answer_tool and field(block, "name") == self._answer_tool:
                if not self._answered:
                    self._open[index] = "answer"
                    self._answered = True
                return
            self._open[index] = use = self._answer.begin(field(block, "id"))
            use.name(field(block, "name"))
            self._blocks.append({"type": "tool_use"})

    def _piece(self, index: Any, delta: Any) -> None:
        """Add a delta to its block. A delta of the wrong kind, or without a block, is ignored."""
        block = self._open.get(index)
        kind = field(delta, "type")
        if kind == "text_delta" and block == "text" and isinstance(piece := field(delta, "text"), str):
            if self._answer_tool:
                self._aside.append(piece)
            else:
                self._answer.text(piece)
                self._blocks.append(len(piece))
        elif kind == "input_json_delta" and isinstance(piece := field(delta, "partial_json"), str) and piece:
            if isinstance(block, ToolUseBuilder):
                self._given.pop(index, None)
                block.arguments(piece)
            elif block == "answer":
                self._given.pop(index, None)
                self._answer.text(piece)
        elif isinstance(block, _Thought):
            if kind == "thinking_delta" and isinstance(piece := field(delta, "thinking"), str):
                block.text.append(piece)
                self._answer.thought(piece)
            elif kind == "signature_delta" and isinstance(piece := field(delta, "signature"), str):
                block.signature += piece

    def _stop(self, index: Any) -> None:
        block = self._open.pop(index, None)
        given = self._given.pop(index, None)
        if isinstance(block, ToolUseBuilder) and given:  # the input came with the block's start, not in deltas
            block.arguments(given)
        elif block == "answer" and given is not None:
            self._answer.text(json.dumps(given, ensure_ascii=False))

    def _kept(self) -> list[dict[str, Any]]:
        """The thinking blocks; with the blocks between them if the order is not the usual one (thinking, text, calls)."""
        kept: list[dict[str, Any]] = []
        for one in self._blocks:
            if isinstance(one, _Thought):
                if one.signature:  # the API does not accept it without one
                    text = clean("".join(one.text))
                    kept.append({"type": "thinking", "thinking": text, "signature": clean(one.signature)})
            elif isinstance(one, dict):
                kept.append(one)
            elif kept and kept[-1]["type"] == "text":
                kept[-1]["length"] += one
            elif one:
                kept.append({"type": "text", "length": one})
        ranks = [{"text": 1, "tool_use": 2}.get(one["type"], 0) for one in kept]
        if 0 in ranks and ranks != sorted(ranks):
            return kept
        return [one for one, rank in zip(kept, ranks, strict=True) if rank == 0]

    def _count(self, used: Any) -> None:
        for one in (*_READ, "output_tokens"):
            value = field(used, one)
            if value is not None:  # later counts replace earlier ones
                self._counts[one] = token_count(value)
        thinking = field(field(used, "output_tokens_details"), "thinking_tokens")
        self._thinking = token_count(thinking) or self._thinking
