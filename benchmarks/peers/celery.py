"""Celery on Redis: tasks sent by this process, run by a worker process, results back through Redis. All as shipped.

As shipped, a task is acknowledged before it runs: one whose worker dies is lost. That is the cheapest case for the peer.
"""

from __future__ import annotations

import os

from celery import Celery

from benchmarks import timing

URL = timing.server("BENCH_REDIS")
app = Celery("bench", broker=URL, backend=URL)
app.conf.worker_hijack_root_logger = False


@app.task(name="noop")
def noop(a: int) -> dict:
    return {"a": a}


def main() -> None:
    arguments = timing.budget()
    command = ("celery", "--app", "benchmarks.peers.celery", "--quiet", "worker", "--loglevel", "CRITICAL")
    with timing.worker(*command, "--concurrency", str(os.cpu_count())):
        assert noop.delay(1).get(timeout=60) == {"a": 1}
        figures = {
            "p50_us": timing.p50_sync(lambda: noop.delay(1).get(timeout=60), seconds=arguments.seconds),
            "per_second": timing.per_second_kept_busy(
                lambda: noop.delay(1), lambda sent: sent.get(timeout=60), seconds=arguments.seconds
            ),
        }
    timing.report(figures, timing.versions("celery", "redis"))


if __name__ == "__main__":
    main()
