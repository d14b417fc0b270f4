"""A bar on standard error for work that takes long, where a person looks; nothing anywhere else."""

import contextlib
import sys
import time
from collections.abc import Callable, Generator

from holdall.cli.show import is_terminal

_AFTER_SECONDS = 0.5  # most work is done before a bar would help


@contextlib.contextmanager
def progress(doing: str, total: int | None = None) -> Generator[Callable[[int], None] | None]:
    """Gives a function to call with the bytes done so far, or None where nobody looks."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = bar.add_task(doing, total=total)
    started = time.monotonic()
    shown = False

    def tick(done: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started >= _AFTER_SECONDS:
            bar.start()
            shown = True
        if shown:
            bar.update(task, completed=done)

    try:
        yield tick
    finally:
        bar.stop()
