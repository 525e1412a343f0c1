"""A fake of the package `ray`: bodies run in threads of this process. `make test-engines` uses the real one."""

from __future__ import annotations

import sys
import threading
from importlib.machinery import ModuleSpec
from queue import SimpleQueue
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class RayError(Exception): ...


class TaskCancelledError(RayError): ...


class WorkerCrashedError(RayError): ...


class RayTaskError(RayError): ...


class Stream:
    """The items of one task. `place` gives it its resources, `fail` ends it as Ray would."""

    def __init__(self, items: Any) -> None:
        self.placed = threading.Event()
        self.ended = threading.Event()
        self._items = items
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._read = 0

    def place(self) -> None:
        self.placed.set()

    def fail(self, error: Exception) -> None:
        self.ended.set()
        self.placed.set()
        self._queue.put(error)

    def __next__(self) -> Any:
        self._read += 1
        if self._read == 1 and not self.ended.is_set():
            return next(self._items)
        if self._read == 2:
            threading.Thread(target=self._drain, daemon=True).start()
        item = self._queue.get()
        if isinstance(item, Exception):
            raise item
        if item is None:
            raise StopIteration
        return item

    def _drain(self) -> None:
        for item in self._items:
            self._queue.put(item)
        self._queue.put(None)


class FakeRay(ModuleType):
    """`streams`: all tasks so far. `room`: new tasks are placed at once. `lost`: so many submissions find no connection."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.streams: list[Stream] = []
        self.options: list[dict[str, Any]] = []
        self.room = True
        self.address: str | None = None
        self.down = False
        self.lost = 0
        self.util = SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: False)))
        self.exceptions = ModuleType("ray.exceptions")
        vars(self.exceptions).update(
            TaskCancelledError=TaskCancelledError, RayTaskError=RayTaskError, RayActorError=RayError,
            RuntimeEnvSetupError=RayTaskError, TaskUnschedulableError=RayTaskError,
        )  # fmt: skip

    def is_initialized(self) -> bool:
        return self.address is not None

    def init(self, address: str, **_: Any) -> None:
        if self.down:
            raise ConnectionError("no answer")
        self.address = address

    def shutdown(self) -> None:
        self.address = None

    def remote(self, **options: Any) -> Any:
        def of(function: Any) -> Any:
            def submit(*arguments: Any) -> Stream:
                if self.lost:
                    self.lost -= 1
                    raise ConnectionError("the head node is gone")
                made = Stream(function(*arguments))
                if self.room:
                    made.place()
                self.streams.append(made)
                self.options.append(options)
                return made

            return SimpleNamespace(remote=submit)

        return of

    def wait(self, streams: list[Stream], timeout: float) -> tuple[list[Stream], list[Stream]]:
        return (streams, []) if streams[0].placed.wait(timeout) else ([], streams)

    def get(self, item: Any) -> Any:
        return item

    def cancel(self, stream: Stream, force: bool) -> None:
        assert force
        stream.fail(TaskCancelledError("cancelled"))

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0, "memory": 1e9}}]


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    made = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setitem(sys.modules, "ray.exceptions", made.exceptions)
    return made
