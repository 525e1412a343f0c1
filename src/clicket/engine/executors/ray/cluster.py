"""The connection to an existing Ray cluster, made when the first call needs it. clicket never starts a cluster.

A program that has called `ray.init` itself keeps its connection, with its own settings; then no address is needed.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from typing import Any

from clicket.engine.executors.ray.attempts import LOST, Attempts, Item
from clicket.errors import ClicketError, UsageError

__all__ = ["Cluster", "RayUnavailable", "check_ray"]

_INSTALL = "pip install 'clicket[ray]'"
_connecting = threading.Lock()
_users = 0
"""Runtimes of this process that use a connection that clicket made."""


class RayUnavailable(ClicketError):
    """No place on the Ray cluster could be had, so the tool did not run."""

    code = "tool_unavailable"
    blames_tool = False

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


def check_ray(address: str | None) -> None:
    """Raise a `UsageError` if no tool with isolation='ray' can run here. Does not connect."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"a tool with isolation='ray' needs the package 'ray', which is not installed. {_INSTALL}.")
    if address == "local":
        raise UsageError(
            "setting ray (CLICKET_RAY) is 'local', and clicket never starts a Ray cluster. Start one with "
            "`ray start --head`, then set CLICKET_RAY=auto."
        )
    if address is None:
        import ray

        if not ray.is_initialized():
            raise UsageError(
                "a tool with isolation='ray' needs the address of a Ray cluster: set CLICKET_RAY to ray://HOST:10001, to the "
                "address of its head node (HOST:6379), or to auto for the cluster of this machine."
            )


class Cluster:
    """Methods block, and are called from threads; those of `Attempts` beside `connect` and `close`."""

    def __init__(self, address: str | None) -> None:
        self.address = address
        self._attempts: Any = None
        self._actor: Any = None
        self._connected = False
        self._was_connected = False
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Connect, if that has not been done. Raises `UsageError` or `RayUnavailable`.

        The error is retryable if there was a connection before, or if it was lost at once, with a node of the cluster: then the cluster
        may be starting again.
        """
        with self._lock:
            if self._attempts is not None:
                return
            check_ray(self.address)
            import ray

            with _connecting:
                self._init(ray)
            if not ray.util.client.ray.is_connected():
                self._attempts = Attempts()
                self._was_connected = True
                return
            remote = ray.remote(num_cpus=0, max_concurrency=1_000)(Attempts)
            try:
                self._actor = remote.remote()
                ray.get(self._actor.capacity.remote())
            except Exception as error:
                self._actor = None
                if _is_lost(ray, error):
                    raise RayUnavailable(
                        f"the connection to the Ray cluster at {self.address} was lost ({_line(error)}).",
                        retryable=True,
                    ) from error
                raise RayUnavailable(
                    f"the Ray cluster at {self.address} cannot run clicket ({_line(error)}). Install the same versions of "
                    "clicket and Python on its nodes."
                ) from error
            self._was_connected = True
            self._attempts = _Remote(ray, self._actor, on_lost=self._on_lost)

    def _init(self, ray: Any) -> None:
        global _users
        if not ray.is_initialized():
            try:
                ray.init(self.address, log_to_driver=False)
            except Exception as error:
                raise RayUnavailable(
                    f"no connection to the Ray cluster at {self.address} ({_line(error)}). Is it up, and does this process have "
                    "its token (RAY_AUTH_TOKEN)?",
                    retryable=self._was_connected,
                ) from error
        elif _users == 0:
            return  # the program's own connection
        if not self._connected:
            self._connected = True
            _users += 1

    @property
    def is_connected(self) -> bool:
        return self._attempts is not None

    @property
    def attempts(self) -> Attempts:
        assert self._attempts is not None, "connect comes first"
        return self._attempts  # type: ignore[no-any-return]

    def _on_lost(self) -> None:
        """The actor is gone: the next `connect` makes another one."""
        self._attempts = self._actor = None

    def close(self) -> None:
        """End the connection, if clicket made it and no other runtime of this process uses it."""
        global _users
        with self._lock, _connecting:
            if self._attempts is None and not self._connected:
                return
            import ray

            self._attempts = None
            if self._actor is not None:
                ray.kill(self._actor)
                self._actor = None
            if self._connected:
                self._connected = False
                _users -= 1
                if _users == 0:
                    ray.shutdown()


class _Remote:
    """`Attempts` in the cluster: an actor is called, and its loss is that of all its bodies."""

    def __init__(self, ray: Any, actor: Any, *, on_lost: Callable[[], None]) -> None:
        self._ray = ray
        self._actor = actor
        self._on_lost = on_lost

    def _ask(self, method: str, *given: Any) -> Any:
        try:
            return self._ray.get(getattr(self._actor, method).remote(*given))
        except (self._ray.exceptions.RayActorError, ConnectionError):
            self._on_lost()
            raise

    def submit(self, name: str, label: str, job: bytes, options: dict[str, Any]) -> None:
        self._ask("submit", name, label, job, options)

    def is_placed(self, name: str, timeout: float) -> bool:
        return bool(self._ask("is_placed", name, timeout))

    def read(self, name: str) -> Item:
        try:
            kind, data = self._ask("read", name)
        except Exception as error:  # the actor raises nothing: it is gone, or the client's server has forgotten it
            self._on_lost()
            return LOST, _line(error).encode()
        return kind, data

    def cancel(self, name: str) -> None:
        self._ask("cancel", name)

    def forget(self, name: str) -> None:
        self._ask("forget", name)

    def capacity(self) -> list[dict[str, float]]:
        return list(self._ask("capacity"))


def _is_lost(ray: Any, error: Exception) -> bool:
    """The connection, or the node that clicket's actor was placed on, is gone. Not: the actor cannot be made there."""
    if isinstance(error, ray.exceptions.RayActorError):
        return not getattr(error, "actor_init_failed", False)
    return isinstance(error, ConnectionError)


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
