"""What the blocking classes of `clicket.sync` and `clicket.client` share: each runtime has one event loop in one thread.

Those classes are written by `scripts/blocking.py` from the async ones. Each of their methods runs the async method of its name on that
loop, and waits for it.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from clicket.engine.live_call import Origin
from clicket.errors import UsageError
from clicket.runtime.runtime import Runtime
from clicket.system.bridge import LoopThread, enter_with, refuse_running_loop

__all__ = ["BlockingPart", "BlockingRuntime", "BlockingSubscription", "SyncFirstRuntime"]

T = TypeVar("T")


class Openable(Protocol):
    async def open(self) -> Any: ...
    async def close(self, *, patience: float | None = None) -> None: ...


R = TypeVar("R", bound=Openable)
A = TypeVar("A")


class BlockingRuntime(Generic[R]):
    """A runtime, or a client of one, for programs without an event loop."""

    _name: ClassVar[str]
    _twin: ClassVar[str]
    """The full names of this class and of the async one, for errors."""

    def __init__(self, of: R) -> None:
        self._async = of
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return f"<sync.{repr(self._async)[1:-1]}>"

    def open(self) -> Self:
        """Start the loop's thread, and open the async one there. `with` does it."""
        refuse_running_loop(self._name)
        if self._thread is not None:
            raise UsageError("the runtime is open already.")
        self._thread = LoopThread()
        try:
            self._thread.call(self._async.open())
        except BaseException:
            self._end_thread()
            raise
        return self

    def close(self, *, patience: float | None = None) -> None:
        """Take no new calls; running ones get `patience` seconds to finish, then they are stopped."""
        if self._thread is not None and self._thread.process != os.getpid():
            self._thread = None  # a forked process forgets it: it belongs to its parent
        if self._thread is not None:
            try:
                self._loop.call(self._async.close(patience=patience))
            finally:
                self._end_thread()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(patience=0 if kind is not None else None)

    if not TYPE_CHECKING:  # type checkers refuse `async with` by themselves

        async def __aenter__(self) -> Any:
            enter_with("with", self._name, "async with", self._twin)()

        async def __aexit__(self, *_: object) -> None: ...

    @property
    def _loop(self) -> LoopThread:
        """The open loop. `UsageError`: there is none, or this thread runs another one."""
        refuse_running_loop(self._name)
        if self._thread is None:
            raise UsageError(f"the runtime is not open; use it inside `with {self._name}(...) as rt:`.")
        return self._thread

    def _over(self, of: R) -> Self:
        """The same for one caller; it shares the loop."""
        view = copy.copy(self)
        view._async = of
        return view


class BlockingPart(Generic[A]):
    """What a runtime gives: a handle, a view, a hub, an agent."""

    def __init__(self, runtime: BlockingRuntime[Any], of: A) -> None:
        self._runtime = runtime
        self._async = of

    @property
    def _loop(self) -> LoopThread:
        return self._runtime._loop

    def _over(self, of: A) -> Self:
        view = copy.copy(self)
        view._async = of
        return view

    def _make(self, rt: BlockingRuntime[Any], make: Callable[[Runtime], A]) -> None:
        """The constructor of a part that users make."""
        of = rt._async if isinstance(rt, BlockingRuntime) else None
        if not isinstance(of, Runtime):
            kind = f"{type(rt).__module__}.{type(rt).__qualname__}"
            raise UsageError(
                f"a blocking agent works with clicket.sync.Runtime, not with {kind}. With clicket.Runtime use clicket.agents; an agent of "
                "a server is client.agent(name)."
            )
        self._runtime = rt
        self._async = rt._loop.run(lambda: make(of))


class Subscribed(Protocol):
    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, *_: object) -> None: ...
    async def __anext__(self) -> Any: ...


S = TypeVar("S", bound=Subscribed)


class BlockingSubscription(BlockingPart[S], Iterator[T], Generic[S, T]):
    """An iterator that starts when it is made. `with` and `close` end it, `close` also from another thread; so does dropping it."""

    def __init__(self, runtime: BlockingRuntime[Any], of: S) -> None:
        super().__init__(runtime, of)
        self._loop.call(of.__aenter__())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> T:
        try:
            item: T = self._loop.call(self._async.__anext__())
            return item
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Yield what is pending, then end."""
        self._loop.call(self._async.__aexit__(None, None, None))

    def __del__(self) -> None:
        of, thread = self._async, self._runtime._thread
        if thread is not None:
            thread.spawn(lambda: of.__aexit__(None, None, None))


class SyncFirstRuntime(Runtime):
    """A tool that has both `run` and `run_sync` is run by the latter."""

    _origin = Origin(prefer_sync=True)
