"""dramatiq on Redis: messages sent by this process, run by worker processes, results back through Redis. All as shipped.

A message is acknowledged after it ran, so it runs again if its worker dies, whatever its effects.
"""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks import timing

URL = timing.server("BENCH_REDIS")
broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def noop(a: int) -> dict:
    return {"a": a}


def main() -> None:
    arguments = timing.budget()
    command = ("dramatiq", "benchmarks.peers.dramatiq", "--processes", str(os.cpu_count()), "--threads", "8")
    with timing.worker(*command):
        assert noop.send(1).get_result(block=True, timeout=60_000) == {"a": 1}
        figures = {
            "p50_us": timing.p50_sync(
                lambda: noop.send(1).get_result(block=True, timeout=60_000), seconds=arguments.seconds
            ),
            "per_second": timing.per_second_kept_busy(
                lambda: noop.send(1),
                lambda sent: sent.get_result(block=True, timeout=60_000),
                seconds=arguments.seconds,
            ),
        }
    timing.report(figures, timing.versions("dramatiq", "redis"))


if __name__ == "__main__":
    main()
