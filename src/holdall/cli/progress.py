"""What takes long tells how far it is, on standard error: one line that is redrawn on a terminal, else a line now and
then, less and less often.

Nothing here does the work, or slows it down: a thread of its own asks for the text when it is due.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator

from holdall.cli.show import is_terminal
from holdall.text.escape import one_line, without_passwords
from holdall.text.numbers import size

VARIABLE = "HOLDALL_PROGRESS"
"""`off`, or the seconds until the first line."""
_FIRST_LOOK, _REDRAWN = 0.5, 0.25  # seconds, on a terminal: most work is done before a line would help
_FIRST_LINE, _SLOWEST = 5.0, 60.0  # seconds, elsewhere: 5, 10 later, 20 later, and so on
_ERASE = "\r\x1b[2K"


def before_the_first(usual: float = _FIRST_LINE) -> float | None:
    """The seconds until the first line; None where they are off."""
    said = os.environ.get(VARIABLE, "").strip().lower()
    try:
        pause = float(said or usual)
    except ValueError:
        return None
    return pause if pause >= 0 else None


def pauses() -> Iterator[float]:
    """The seconds between two lines, where nobody looks at a terminal; none where they are off."""
    pause = before_the_first()
    while pause is not None:
        yield pause
        pause = min(max(2 * pause, 1.0), _SLOWEST)


def length(seconds: float) -> str:
    """`48 s`, `4 m 12 s`, `2 h 5 m`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} m {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} m"


def time_left(done: float, total: float, seconds: float) -> str:
    """How long it will still take at this pace; empty where nothing can be said yet."""
    if not 0 < done < total or seconds < 1:
        return ""
    return f"about {length(seconds / done * (total - done))} left"


@contextlib.contextmanager
def reported(text: Callable[[float], str], *, quiet: bool = False) -> Generator[None]:
    """While the block runs: what `text` says after so many seconds. With `quiet` nothing, unless on a terminal."""
    on_terminal, first = is_terminal(sys.stderr), before_the_first(_FIRST_LOOK)
    if first is None or (quiet and not on_terminal):
        yield
        return
    over, started = threading.Event(), time.monotonic()

    def line(width: int) -> str:
        return one_line(without_passwords(text(time.monotonic() - started)), width)

    def tell() -> None:
        if not on_terminal:
            for pause in pauses():
                if over.wait(pause):
                    return
                print(line(500), file=sys.stderr, flush=True)
            return
        if over.wait(first):
            return
        while True:
            sys.stderr.write(_ERASE + line(shutil.get_terminal_size().columns - 1))
            sys.stderr.flush()
            if over.wait(_REDRAWN):
                sys.stderr.write(_ERASE)
                sys.stderr.flush()
                return

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


@contextlib.contextmanager
def bytes_done(doing: str, total: int | None = None, *, quiet: bool = False) -> Generator[Callable[[int], None]]:
    """Gives a function to call with the bytes done so far: `keeping a.log · 31.2 MB of 92.5 MB · 12 MB/s · …`."""
    done = 0

    def tick(now: int) -> None:
        nonlocal done
        done = now

    def text(seconds: float) -> str:
        of = f" of {size(total)}" if total else ""
        parts = [doing, f"{size(done)}{of}", f"{size(int(done / max(seconds, 0.001)))}/s", length(seconds)]
        return " · ".join(part for part in [*parts, time_left(done, total or 0, seconds)] if part)

    with reported(text, quiet=quiet):
        yield tick
