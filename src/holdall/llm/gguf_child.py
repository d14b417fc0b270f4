"""The process that serves a GGUF file, until the parent goes away: llama.cpp's server on the loopback address.

Its standard input is the connection to the parent: one line with the settings comes in, one line with the address or
the fault goes out, and the end of the connection is the end of the process. It prints nothing and fetches nothing.
"""

import json
import os
import resource
import select
import socket
import threading
from typing import Any

import xllamacpp


def main() -> None:
    connection = socket.socket(fileno=0)
    settings = json.loads(connection.makefile("rb").readline())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with, args=(connection.fileno(),), daemon=True).start()
    try:
        server = _serve(settings)
    except Exception as refused:  # whatever the engine makes of a file that it cannot load
        _answer(connection, {"error": "load", "message": str(refused)})
    else:
        _answer(connection, {"address": server.listening_address})
        threading.Event().wait()  # the other thread ends the process; the server lives as long as its object


def _serve(settings: dict[str, Any]) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["context"]
    params.n_parallel = 1  # one request has the whole context; the others wait
    params.n_batch = params.n_ubatch = 256  # a request that is given up is noticed after so many tokens of its prompt
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = 512  # prompts that were read before; the engine's own default is 8 GB
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.cors_origins = ""
    params.endpoint_slots = params.ui = False
    params.offline = True
    params.warmup = False
    params.verbosity = -1
    return xllamacpp.Server(params)


def _answer(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _end_with(parent: int) -> None:
    watch = select.poll()
    watch.register(parent, 0)  # only the end of the connection wakes it
    watch.poll()
    os._exit(0)
