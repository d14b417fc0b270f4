"""Servers on the SDK, gateways and viewers without the time that imports take: a process that has them forks for each.

python -I -S launch.py SOCKET PROGRAM WORD…   is that program: with the streams, folder and variables of this process.
                                              Its end is the program's end, and the other way round.

`sdk_server` gives the words of such a command. The forked server is a process of its own: nothing is shared with others.
What looks at the process itself (its id, its parent, its memory, its command line) starts the program without this.
"""

import os
import signal
import socket
import sys

_ENDED = b"ended "


def _become(place: str, words: list[str]) -> int:
    """Only what is built in: this runs in a Python without its site."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(place)
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    told = "\0".join([os.getcwd(), str(len(words)), *words, *variables]).encode("utf-8", "surrogateescape")
    socket.send_fds(link, [len(told).to_bytes(4, "big")], [0, 1, 2])
    link.sendall(told)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: link.sendall(bytes((number,))))
    for stream in (0, 1, 2):  # the server has them now; who waits for their end waits for its end
        os.close(stream)
    said = b""
    while not said.endswith(b"\n") and (more := link.recv(100)):
        said += more
    status = int(said.removeprefix(_ENDED) or 1)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(_become(sys.argv[1], sys.argv[2:]))

# All below is the process that forks, and whoever starts it.

import atexit  # noqa: E402
import contextlib  # noqa: E402
import functools  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import pkgutil  # noqa: E402
import runpy  # noqa: E402
import select  # noqa: E402
import shlex  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

import holdall  # noqa: E402
from holdall.text.tokens import default_tokenizer  # noqa: E402

HOLDALL = str(Path(sys.executable).parent / "holdall")


def sdk_server(program: str) -> list[str]:
    """The words to start `program` with, and arguments may follow them."""
    return [sys.executable, "-I", "-S", __file__, _forking()[0], program]


def forked(words: Sequence[str]) -> list[str]:
    """The same command; the installed `holdall` is a fork. Where it is another program, nothing changes."""
    return [*sdk_server(HOLDALL), *words[1:]] if words[0] == HOLDALL else [*words]


@functools.cache
def folder_with_holdall() -> str:
    """For the PATH of a shell: the `holdall` in it is a fork."""
    program = Path(_forking()[0]).with_name("bin") / "holdall"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(sdk_server(HOLDALL))} "$@"\n')
    program.chmod(0o755)
    return str(program.parent)


def unforked(words: Sequence[str]) -> list[str]:
    """The installed program after all. `env` becomes it, with the same id and parent."""
    return ["env", *words]


def neutral_folder() -> str:
    """One in which nothing is, to start a program in: what a configuration names is hashed where it is below that."""
    return os.path.dirname(_forking()[0])


def parent_of_forks() -> int:
    """The process that all programs of `sdk_server` and `forked` have as their parent."""
    return _forking()[1]


def seconds_of_forks() -> float:
    """Of processor: they are not children of ours, so the system does not add them to us. 0 where it cannot be known."""
    if not _forking.cache_info().currsize:
        return 0.0
    with contextlib.suppress(OSError):
        figures = Path(f"/proc/{_forking()[1]}/stat").read_text().rpartition(")")[2].split()
        return sum(int(ticks) for ticks in figures[11:15]) / os.sysconf("SC_CLK_TCK")
    return 0.0


@functools.cache
def _forking() -> tuple[str, int]:
    """Where it listens, and its id. One for each process that runs tests; it ends with it."""
    folder = tempfile.mkdtemp(prefix="holdall-sdk-")
    place = os.path.join(folder, "s")
    script = "from tests.upstream.launch import serve; import sys; serve(sys.argv[1])"
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", script, place], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(folder)

    atexit.register(end)
    return place, process.pid


def serve(place: str) -> None:
    """Fork for whoever connects."""
    _import_everything()
    gc.disable()  # in each fork its first round would copy all that was imported
    gc.freeze()

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    print("ready", flush=True)
    links: dict[socket.socket, int] = {}
    while True:
        ready, _, _ = select.select([listener, 0, woken, *links], [], [])
        if 0 in ready:  # whoever started this has ended
            for pid in links.values():
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        if woken in ready:
            os.read(woken, 1000)
            _bury(links)
        for link in [one for one in links if one in ready]:
            numbers = link.recv(100)
            for number in numbers or bytes((signal.SIGKILL,)):
                os.kill(links[link], number)
            if not numbers:
                del links[link]
        if listener in ready:
            link, _ = listener.accept()
            given = _received(link)
            pid = os.fork()
            if pid == 0:
                listener.close()
                for other in (link, *links):
                    other.close()
                _run(*given)
            for stream in given[0]:
                os.close(stream)
            links[link] = pid


def _import_everything() -> None:
    """What servers, gateways and viewers import, also once they run."""
    for module in (
        "mcp.server.mcpserver", "uvicorn.protocols.http.auto", "uvicorn.lifespan.on", "uvicorn.loops.auto",
        "anyio._backends._asyncio", "holdall.config",
    ):  # fmt: skip
        importlib.import_module(module)
    for package in ("holdall.cli", "holdall.mcp", "holdall.web", "holdall.wire", "holdall.policy", "holdall.verbs"):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(found.name)
    for name in holdall.__all__:
        getattr(holdall, name)
    default_tokenizer().count("")  # reads its vocabulary
    importlib.import_module("holdall.store.bundle.rules").shared_rules()


def _received(link: socket.socket) -> tuple[list[int], list[str]]:
    size, streams, _, _ = socket.recv_fds(link, 4, 3)
    left = int.from_bytes(size, "big")
    told = b""
    while len(told) < left:
        told += link.recv(left - len(told))
    return streams, told.decode("utf-8", "surrogateescape").split("\0")


def _run(streams: list[int], told: list[str]) -> None:
    """The program, in this process. Never returns."""
    gc.enable()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    folder, count, *rest = told
    words, variables = rest[: int(count)], rest[int(count) :]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(dict(one.split("=", 1) for one in variables))
    sys.argv = words
    code: object = 0
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _bury(links: dict[socket.socket, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            for link in [one for one, pid in links.items() if pid == ended[0]]:
                del links[link]
                with contextlib.suppress(OSError):
                    link.sendall(_ENDED + str(os.waitstatus_to_exitcode(ended[1])).encode() + b"\n")
                link.close()
