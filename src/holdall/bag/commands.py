"""A command as a tool: its output is kept as it comes, and its end is its exit code.

Both streams go through one pipe, so that they stay in the order in which they were written. It runs in a group of its
own: whoever ends it ends all that it started.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdall.bag.sinks import Sink

_PIECE = 1024 * 1024
_PATIENCE = 1.5  # seconds between asking a command to end and ending it


class CommandFailed(Exception):
    """It has ended with an exit code that is not 0, or by a signal."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(ending(code))


@dataclass(slots=True)
class Command:
    """`await bag.run(Command(["make", "-j2"]), tool="make")`"""

    arguments: Sequence[str]
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def pour(self, sink: Sink) -> None:
        """Run it to its end, in the calling thread. Raises CommandFailed, or OSError where it cannot be started."""
        with subprocess.Popen(
            list(self.arguments), cwd=self.cwd, env=None if self.env is None else dict(self.env), bufsize=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            self._process = process
            if self._stopped.is_set():
                self._signal(signal.SIGTERM)
            pipe = process.stdout
            while pipe is not None and (chunk := os.read(pipe.fileno(), _PIECE)):
                sink.write(chunk)
            code = process.wait()
        if code:
            raise CommandFailed(code)

    def stop(self) -> None:
        """Ask it to end, and end it where it does not."""
        self._stopped.set()
        self._signal(signal.SIGTERM)
        timer = threading.Timer(_PATIENCE, self._signal, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _signal(self, number: int) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)


def ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
