"""A Ray cluster whose head node can be killed and started again as another cluster, as after a crash of its machine."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.engines.programs import answers, free_port, kill
from tests.kit.waiting import eventually_sync

__all__ = ["RayHead"]

_RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Seconds after which Ray ends processes that cannot reach the head any more: drivers and the other nodes."""


class RayHead:
    """A head node with two CPUs, and its client server if `client`. The client's port stays the same after a restart."""

    def __init__(self, *, client: bool, reconnect: int = 5) -> None:
        os.environ[_RECONNECT] = str(reconnect)
        self._port = free_port() if client else 0
        self._cluster: Any = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"ray://127.0.0.1:{self._port}" if self._port else str(self._cluster.address)

    def start(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        if self._port:
            command = [sys.executable, "-m", "ray.util.client.server", "--address", str(self._cluster.address)]
            command += ["--host", "127.0.0.1", "--port", str(self._port), "--mode", "specific-server"]
            self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            eventually_sync(lambda: answers(self._port), timeout=60)

    def kill(self) -> None:
        """SIGKILL everything that runs there."""
        if self._server is not None:
            kill(self._server)
            self._server = None
        if self._cluster is not None:
            self._cluster.remove_node(self._cluster.head_node, False)
            self._cluster = None

    def close(self) -> None:
        self.kill()
        os.environ.pop(_RECONNECT, None)
