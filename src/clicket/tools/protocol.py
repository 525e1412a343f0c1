"""The contract of a tool, whole. The runtime reads nothing of a tool that is not written here.

`BasicTool` is the part that a tool from outside must have; `as_tool` completes it with defaults when it is registered. `Tool` is the
whole contract: every tool in a registry satisfies it. Nothing needs to be inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from clicket.tools.options import Options

__all__ = ["BasicTool", "EndsItsCalls", "SessionKey", "Tool", "Traits"]

SessionKey = str | tuple[str, str]
"""The owner of a session: a thread of the program's own, or a caller and its thread."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How the runtime treats the calls of a tool. The tool's class decides these; its user decides the `options`."""

    wants_context: bool = True
    """False: `run` never uses its context, so none is made."""
    holds_slot: bool = True
    """False: a call only makes other calls. It holds no slot of the runtime, for which those calls would wait forever."""
    ends_its_calls: bool = False
    """True: no call that it made outlives a call of it that was stopped. Its body ends them before it returns; `end_calls` does if the body
    does not stop in its grace; and a cancel that comes while no process has the call starts its body once more, which finds the cancel on
    record."""
    internal: bool = False
    """True: only clicket's own parts call it. Policies, the hub and the statistics leave it out."""
    one_call_per_thread: bool = False
    """True: it has a session per caller and thread, so calls of one thread run one after another and are never cached."""
    timeout_is_failure: bool = True
    """False: a timeout says nothing about the tool's health, because the caller's own program took the time."""
    listed: bool = True
    """False: it can be called, but no list of tools names it."""
    part_of: str = ""
    """The tool that it belongs to: only running calls of that tool can call it, and a policy that denies that tool denies it, too. Empty:
    it is a tool of its own."""
    asks: str = ""
    """Of an internal tool: why every call waits for a person's approval. Empty: none does."""
    deps: tuple[str, ...] = ()
    """Names of the deps without which it does not run."""
    any_dep: bool = True
    """It may also read others, if it has a context. False: it reads none but `deps`."""


@runtime_checkable
class BasicTool(Protocol):
    """What a tool from outside must have. `run` is a coroutine function if `is_async`, else a function that may block."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> Mapping[str, Any]: ...
    @property
    def options(self) -> Options: ...
    @property
    def is_async(self) -> bool: ...

    def bind(self, arguments: dict[str, Any]) -> Any:
        """Turn arguments that fit the schema into what `run` takes, or raise `InvalidInput`."""
        ...

    @property
    def run(self) -> Any:
        """`run(bound, ctx)`: the output, or an awaitable of it."""
        ...


@runtime_checkable
class Tool(BasicTool, Protocol):
    """The whole contract. `clicket.tools.defaults` has a default for each part that a simple tool does not need."""

    @property
    def traits(self) -> Traits: ...

    @property
    def run_sync(self) -> Callable[[Any, Any], Any] | None:
        """A blocking `run(bound, ctx)`, used in a worker thread when the caller is blocking; None: there is only `run`."""
        ...

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of outputs, where it is known."""
        ...

    def bind_plain(self, arguments: dict[Any, Any]) -> Any | None:
        """As `bind`, for arguments of which it is certain without a look at the schema that they fit, are plain JSON and hold no
        secret; None: they must be judged."""
        ...

    def data_version(self) -> str:
        """The version of the data that answers are made of. A cached answer is served only while it is the same."""
        ...

    def is_cacheable(self, output: Any) -> bool:
        """May this output of a completed call be cached?"""
        ...

    async def sweep(self, busy: frozenset[SessionKey]) -> int:
        """Close the sessions that are idle for too long and not `busy`; returns how many."""
        ...

    async def close(self) -> None:
        """Release what the tool holds. The runtime calls it when it closes; a later call may open it again."""
        ...

    def owned_by(self, owner: object) -> Tool:
        """The tool that `owner`, a registry, uses: a new one if this one has sessions and another registry uses it."""
        ...


class EndsItsCalls(Protocol):
    """What a tool has with `Traits.ends_its_calls`, beside the rest."""

    async def end_calls(self, bound: Any, ctx: Any) -> None:
        """End the calls that a body has made which does not stop in its grace: when this returns each has ended, or its cancel is on
        record. `StoreUnavailable`: it is called again."""
        ...
