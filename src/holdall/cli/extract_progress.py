"""How far a question is: counted from the events of its calls, and drawn as a bar where a person looks."""

import contextlib
import sys
from collections.abc import Callable, Generator

from holdall.cli.extract_show import money
from holdall.cli.show import is_terminal
from holdall.text.numbers import grouped, plural
from holdall.values.chat import Usage
from holdall.values.events import Event
from holdall.values.extraction import Spent


class Underway:
    """`redraw` is called whenever something has changed."""

    def __init__(self) -> None:
        self.spent = Spent()
        self.done = 0
        self.total = 0  # chunks; 0 where none are read one by one
        self.found = 0
        self.redraw: Callable[[], None] = lambda: None

    def heard(self, event: Event) -> None:
        """An event of the session: only calls of a model count here."""
        if event.kind != "asked":
            return
        data, before = event.data, self.spent
        usage = Usage(int(data["input_tokens"]), int(data["output_tokens"]), cost=data["cost"])
        self.spent = Spent(before.calls + 1, usage=before.usage + usage, seconds=before.seconds + event.seconds)
        self.redraw()

    def read(self, done: int, total: int, found: int) -> None:
        self.done, self.total, self.found = done, total, found
        self.redraw()

    def __str__(self) -> str:
        usage = self.spent.usage
        far = f"{self.done:,}/{plural(self.total, 'chunk')} · {self.found:,} found"
        if not self.total:
            far = f"{plural(self.spent.calls, 'call')} · {grouped(usage.tokens)} tokens"
        return far if usage.cost is None else f"{far} · {money(usage.cost)}"


@contextlib.contextmanager
def drawn(work: Underway) -> Generator[None]:
    """A bar on standard error while the block runs; nothing where that is no terminal."""
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    task = bar.add_task("asking", total=None)
    work.redraw = lambda: bar.update(task, description=str(work), completed=work.done, total=work.total or None)
    with bar:
        yield
