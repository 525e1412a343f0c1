"""Bodies under way on a Ray cluster, by a name. Methods block; they raise nothing of Ray, and return what can be sent on.

An instance lives in the process of the runtime, or as an actor in the cluster if the address is `ray://`: Ray's client cannot
read streams. Ray ends the bodies when the process that submitted them ends.
"""

from __future__ import annotations

import threading
from typing import Any

from clicket.engine.executors.ray.worker import run_body

__all__ = ["BROKEN", "CANCELLED", "END", "FRAMES", "LOST", "Attempts", "Item"]

FRAMES, END, LOST, CANCELLED, BROKEN = "frames", "end", "lost", "cancelled", "broken"
"""What was read: messages; the regular end; the worker or its node is gone; it was cancelled; the body could not be set up."""
Item = tuple[str, bytes]


class Attempts:
    def __init__(self) -> None:
        self._streams: dict[str, Any] = {}
        self._lock = threading.Lock()

    def submit(self, name: str, label: str, job: bytes, options: dict[str, Any]) -> None:
        """Ask Ray for a place for a body. `options`: those of `ray.remote`."""
        import ray

        remote = ray.remote(
            num_returns="streaming",
            # A body goes on only when its last item was read: so it waits until the attempt's start is durable.
            _generator_backpressure_num_objects=1,
            max_retries=0,  # the runtime decides what is tried again
            name=f"clicket {label}",
            **options,
        )(run_body)
        with self._lock:
            self._streams[name] = remote.remote(job)

    def is_placed(self, name: str, timeout: float) -> bool:
        """Wait until the body has its resources. Also True if it never will: reading it then says why."""
        import ray

        return bool(ray.wait([self._streams[name]], timeout=timeout)[0])

    def read(self, name: str) -> Item:
        """Wait for the next item of the stream; the first one lets the body go on."""
        import ray
        from ray.exceptions import RayTaskError, RuntimeEnvSetupError, TaskCancelledError, TaskUnschedulableError

        try:
            return FRAMES, ray.get(next(self._streams[name]))
        except StopIteration:
            item = END, b""
        except TaskCancelledError:
            item = CANCELLED, b""
        except (RayTaskError, RuntimeEnvSetupError, TaskUnschedulableError) as error:
            item = BROKEN, _text(error)
        except Exception as error:  # the worker crashed, its node died, memory ran out, an object or its owner is lost
            item = LOST, _text(error)
        self.forget(name)
        return item

    def cancel(self, name: str) -> None:
        """End the worker process of the body, or take back the request. Ray gives a body no time to clean up."""
        import ray

        stream = self._streams.get(name)
        if stream is not None:
            ray.cancel(stream, force=True)

    def forget(self, name: str) -> None:
        with self._lock:
            self._streams.pop(name, None)

    def capacity(self) -> list[dict[str, float]]:
        """The resources of each live node."""
        import ray

        return [dict(node["Resources"]) for node in ray.nodes() if node.get("Alive")]


def _text(error: BaseException) -> bytes:
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[-1] if lines else ''}"
    return text.encode("utf-8", "backslashreplace")[:2_000]
