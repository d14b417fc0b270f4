"""A model from a GGUF file, on this machine: no key, no server to run, nothing leaves it. The extra `local`.

A process of its own serves the file and ends with this one. It is held to a JSON schema and obeys, except for the
bounds of numbers that are not whole; it calls no tools by itself (`wire.actions` does that for it). One request is
answered at a time, and the others wait their turn.
"""

import asyncio
import importlib.util
import json
import os
import secrets
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from holdall.llm.catalogue import Price
from holdall.llm.protocol import (
    Pace,
    Request,
    check_calls_enabled,
    check_request,
    error_for_status,
    reply_limit,
    timeout_error,
)
from holdall.values.chat import Assistant, Message, Reply, System, Usage
from holdall.values.errors import MissingExtra, ModelBusy, ModelFault, NoSuchModel
from holdall.values.record import record
from holdall.wire.actions import as_plain_messages

# What the beginning of a GGUF file says: that it is one, and for how many tokens its model was trained.
#
# Only the beginning is read, never the weights; a file that lies about its sizes is refused, not followed.


_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of each type of number
_UNSIGNED = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9
_MAX_ENTRIES = 100_000
_LONGEST_KEY = 65_535
_UNKNOWN = 4_096  # tokens, where the file does not say


class _Broken(Exception):
    pass


def trained_context(path: Path) -> int:
    """Tokens. Raises NoSuchModel if there is no such file, or it is no model."""
    try:
        with path.open("rb") as file:
            return _context_in(file)
    except OSError as refused:
        raise NoSuchModel(f"gguf:{path}: {refused.strerror or 'it cannot be read'}. {_HINT}") from refused
    except (_Broken, struct.error, RecursionError) as broken:
        raise NoSuchModel(f"gguf:{path} is not a whole GGUF file. {_HINT}") from broken


_HINT = "Name a file that ends in .gguf, as gguf:PATH, and see that its download is complete."


def _context_in(file: BinaryIO) -> int:
    if file.read(4) != _MAGIC:
        raise _Broken
    _, _, entries = struct.unpack("<IQQ", file.read(20))
    if entries > _MAX_ENTRIES:
        raise _Broken
    for _ in range(entries):
        key = _string(file, _LONGEST_KEY)
        (kind,) = struct.unpack("<I", file.read(4))
        if key.endswith(b".context_length") and kind in _UNSIGNED:
            (tokens,) = struct.unpack(_UNSIGNED[kind], file.read(_SIZES[kind]))
            return tokens if tokens > 0 else _UNKNOWN
        _skip(file, kind)
    return _UNKNOWN


def _skip(file: BinaryIO, kind: int) -> None:
    if kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    elif kind == _STRING:
        (length,) = struct.unpack("<Q", file.read(8))
        _forward(file, length)
    elif kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in _SIZES:
            _forward(file, count * _SIZES[inner])
        else:
            for _ in range(count):  # ends with the file: each needs eight bytes of it
                _skip(file, inner)
    else:
        raise _Broken


def _forward(file: BinaryIO, length: int) -> None:
    if length > 1 << 40:
        raise _Broken
    file.seek(length, 1)


def _string(file: BinaryIO, longest: int) -> bytes:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > longest:
        raise _Broken
    return file.read(length)


# One JSON request to a server on this machine and its answer, over HTTP/1.1. No more of HTTP than that takes.
#
# A cancellation closes the connection, and that is how the server learns that nobody waits any more.


_MOST = 64 * 1024 * 1024  # bytes of an answer


class NoHttpAnswer(Exception):
    """The connection was refused, or ended before the answer was whole, or what came is not HTTP with JSON."""


async def post_json(host: str, port: int, path: str, content: object, *, key: str) -> tuple[int, Any]:
    """The status and what came with it."""
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as refused:
        raise NoHttpAnswer(refused.strerror or str(refused)) from refused
    try:
        with suppress(ConnectionError):  # a server may refuse before it has read all, and its answer is there then
            writer.write(head.encode("ascii"))
            writer.write(body)
            await writer.drain()
        return await _answer(reader)
    except (OSError, EOFError, ValueError, IndexError) as broken:
        raise NoHttpAnswer(f"the connection ended without an answer ({type(broken).__name__})") from broken
    finally:
        writer.transport.abort()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    status = int((await reader.readline()).split()[1])
    length = None
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        if name.strip().lower() == "content-length":
            length = min(int(value), _MOST)
    body = await reader.read(_MOST) if length is None else await reader.readexactly(length)
    return status, json.loads(body)


# The process that serves a GGUF file, as the rest of Holdall sees it: started when first needed, and again where it
# died; ended by `end`, by the end of this process, or when nobody holds it any more.
#
# Everything here blocks: loading takes as long as the file is large.


LOAD_SECONDS = 300.0
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from holdall.llm.gguf_child import main; main()"


@record
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
        """Where it listens now; None if it does not, or not yet."""
        process = self._running[0] if self._running else None
        return process.address if process is not None and process.is_usable() else None

    def start(self) -> Address:
        """Its address, once the file is loaded. Raises NoSuchModel if it cannot be."""
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
                    f"gguf:{self._path}: the process that loads it died, perhaps out of memory. Try a smaller "
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
                env={**os.environ, "OMP_WAIT_POLICY": "passive"},  # spinning threads take the CPU from others
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
        """It has no state to lose, so it is killed."""
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


DEFAULT_CONTEXT = 8_192
THREADS = 2
TIMEOUT_SECONDS = 1_800.0  # a small machine reads thirty tokens a second
_MAX_OUTPUT = 2_048


class GgufModel:
    calls_tools = False
    keeps_schema = True
    price = Price(0.0, 0.0)
    pace = Pace(at_once=1, seconds=None)

    def __init__(
        self,
        path: Path,
        *,
        context: int | None = None,
        threads: int = THREADS,
        max_output: int | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Raises NoSuchModel if the file is not there or is no model. It is loaded by the first request."""
        if importlib.util.find_spec("xllamacpp") is None:  # pragma: no cover - the tests install every extra
            raise MissingExtra("xllamacpp", "local", "a model from a GGUF file")
        trained = trained_context(path)
        if context is not None and not 0 < context <= trained:
            raise NoSuchModel(
                f"gguf:{path} was trained for {trained:,} tokens; a context of {context:,} does not fit it."
            )
        self.path = path
        self.name = f"gguf:{path}"
        self._shown = path.name  # in faults, which a model may read: the folder is the host's affair
        self.window = context or min(trained, DEFAULT_CONTEXT)
        self.max_output = min(max_output or _MAX_OUTPUT, self.window // 2)
        self.server = GgufServer(path, context=self.window, threads=threads)
        self._timeout = timeout_seconds
        self._turn = asyncio.Lock()
        self._turn_of: asyncio.AbstractEventLoop | None = None

    async def ask(self, request: Request) -> Reply:
        check_calls_enabled(self.name)
        check_request(self, request)
        async with self._my_turn():  # its time starts when it is read, not while others are
            address = self.server.address or await asyncio.to_thread(self.server.start)
            try:
                async with asyncio.timeout(self._timeout):
                    status, answer = await self._post(address, request)
            except TimeoutError as late:
                raise timeout_error(self._shown, self._timeout) from late
            except NoHttpAnswer as broken:
                await asyncio.to_thread(self.server.drop, address)
                raise ModelBusy(f"{self._shown}: {broken}; it is started again") from broken
        if status != 200:
            raise error_for_status(self._shown, status, _error_in(answer))
        return self._reply(answer)

    async def close(self) -> None:
        self.server.end()

    def _my_turn(self) -> asyncio.Lock:
        """A lock belongs to the loop that waits for it; a program may have several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._turn_of is not loop:
            self._turn, self._turn_of = asyncio.Lock(), loop
        return self._turn

    async def _post(self, address: Address, request: Request) -> tuple[int, Any]:
        content: dict[str, Any] = {
            "messages": [{"role": _role(one), "content": one.text} for one in as_plain_messages(request.messages)],
            "max_tokens": reply_limit(self, request),
            "temperature": 0,  # the same question gets the same answer
        }
        if request.schema is not None:
            content["response_format"] = {"type": "json_schema", "json_schema": {"schema": dict(request.schema)}}
        return await post_json(address.host, address.port, "/v1/chat/completions", content, key=address.key)

    def _reply(self, answer: Any) -> Reply:
        try:
            choice, used = answer["choices"][0], answer["usage"]
            details: Mapping[str, int] = used.get("prompt_tokens_details") or {}
            return Reply(
                choice["message"]["content"] or "",
                usage=Usage(used["prompt_tokens"], used["completion_tokens"], details.get("cached_tokens", 0), 0.0),
                stop="length" if choice["finish_reason"] == "length" else "end",
                model=self.path.name,
            )
        except (KeyError, IndexError, TypeError, AttributeError) as strange:
            raise ModelFault(f"{self._shown} answered in a form that is not OpenAI's") from strange


def _role(message: Message) -> str:
    return "system" if isinstance(message, System) else "assistant" if isinstance(message, Assistant) else "user"


def _error_in(answer: Any) -> str:
    try:
        return str(answer["error"]["message"])
    except (KeyError, TypeError):
        return str(answer)
