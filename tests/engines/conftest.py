"""A Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="a-token-for-the-tests-of-engines-alone"
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes: the head with one CPU, and another with two CPUs and a counted GPU."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=2, num_gpus=1)
    made.wait_for_nodes()
    yield made
    made.shutdown()
