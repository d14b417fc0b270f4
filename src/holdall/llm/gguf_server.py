"""The process that serves a GGUF file, as the rest of Holdall sees it: started when first needed, and again where it
died; ended by `end`, by the end of this process, or when nobody holds it any more.

Everything here blocks: loading takes as long as the file is large.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdall.values.errors import ModelBusy, ModelFault, NoSuchModel

LOAD_SECONDS = 300.0
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from holdall.llm.gguf_child import main; main()"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    key: str


class GgufServer:
    def __init__(self, path: Path, *, context: int, threads: int) -> None:
        self._path = path
        self._settings = {"path": str(path), "context": context, "threads": threads}
        self._starting = threading.Lock()
        self._running: list[_Process] = []  # one, or none
        self._closed = False
        self._finalizer = weakref.finalize(self, _end_all, self._running)

    @property
    def pid(self) -> int | None:
        return self._running[0].pid if self._running else None

    @property
    def address(self) -> Address | None:
        """Where it listens now; None where it does not, or not yet."""
        process = self._running[0] if self._running else None
        return process.address if process is not None and process.is_usable() else None

    def start(self) -> Address:
        """Its address, once the file is loaded. Raises NoSuchModel where it cannot be."""
        with self._starting:
            if (listening := self.address) is not None:
                return listening
            if self._closed:
                raise ModelFault(f"gguf:{self._path} was closed")
            _end_all(self._running)
            process = _Process()
            self._running.append(process)
            answer = process.load(self._settings)
            if process.address is None or self._closed:
                _end_all(self._running)
                raise self._fault(answer)
            return process.address

    def drop(self, address: Address) -> None:
        """The process that listens there did not answer as it should: the next start is of a new one."""
        with self._starting:
            if self._running and self._running[0].address == address:
                _end_all(self._running)

    def end(self) -> None:
        """Also in the middle of loading, or of an answer."""
        self._closed = True
        _end_all(self._running)

    def _fault(self, answer: dict[str, Any]) -> Exception:
        if self._closed:
            return ModelFault(f"gguf:{self._path} was closed")
        match answer.get("error"):
            case "load":
                return NoSuchModel(
                    f"gguf:{self._path} cannot be loaded. It may be cut off, of a kind that this version of llama.cpp "
                    "does not know, or need more memory than there is (a smaller context needs less)."
                )
            case "late":
                return ModelBusy(f"gguf:{self._path} was not loaded within {LOAD_SECONDS:g} s")
            case _:
                return NoSuchModel(
                    f"gguf:{self._path}: the process that loads it died, perhaps for want of memory. Try a smaller "
                    "context (gguf:PATH?context=2048) or a smaller model."
                )


class _Process:
    def __init__(self) -> None:
        self.address: Address | None = None
        self._owner = os.getpid()
        self._connection, theirs = socket.socketpair()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, *_import_paths()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_WAIT_POLICY": "passive"},  # threads that spin take the processor from others
                start_new_session=True,  # Ctrl-C in a terminal is for the parent alone
            )
        except OSError as refused:
            self._connection.close()
            raise ModelFault(f"the process for the model cannot be started: {refused.strerror}") from refused
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_usable(self) -> bool:
        """Alive, and ours: a fork of this process must not end it, and so must not use it."""
        return self._owner == os.getpid() and self._popen.poll() is None

    def load(self, settings: dict[str, Any]) -> dict[str, Any]:
        key = secrets.token_urlsafe(32)
        try:
            self._connection.settimeout(LOAD_SECONDS)
            self._connection.sendall(json.dumps({**settings, "key": key}).encode() + b"\n")
            with self._connection.makefile("rb") as file:
                answer: dict[str, Any] = json.loads(file.readline() or b"{}")
        except TimeoutError:
            return {"error": "late"}
        except (OSError, ValueError):
            return {}
        if "address" in answer:
            where = urlsplit(str(answer["address"]))
            self.address = Address(where.hostname or "127.0.0.1", where.port or 0, key)
        return answer

    def end(self) -> None:
        """It keeps nothing that could be lost, so it is not asked."""
        if self._owner == os.getpid():
            self._popen.kill()
            self._popen.wait()
        self._connection.close()


def _end_all(processes: "list[_Process]") -> None:
    while processes:
        processes.pop().end()


def _import_paths() -> list[str]:
    """Where this process imports from, and where Holdall itself lies, however it was found."""
    own = str(Path(__file__).resolve().parents[2])
    return [*dict.fromkeys([*(os.path.abspath(path) for path in sys.path), own])]
