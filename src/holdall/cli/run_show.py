"""How a run looks: its events as lines, its report on standard output, what it took on standard error.

While an agent runs, standard output is ours alone: what a tool prints by itself goes to standard error.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any, BinaryIO

from holdall.agent.toolbox import Report
from holdall.bag import Holdall
from holdall.cli import show as screen
from holdall.cli.extract_show import money
from holdall.cli.streams import NotPrinted, not_printed
from holdall.text.escape import for_people, one_line
from holdall.text.numbers import grouped, plural, size
from holdall.values.events import Event

_STDOUT, _STDERR = 1, 2
_MOST_OUTPUTS = 8


@contextlib.contextmanager
def reserved() -> Generator[BinaryIO]:
    """Standard output, for us alone: tools are other people's code, and a print in one must not be in a report."""
    sys.stdout.flush()
    with os.fdopen(os.dup(_STDOUT), "wb") as ours:
        os.dup2(_STDERR, _STDOUT)
        try:
            yield ours
        finally:
            sys.stdout.flush()
            os.dup2(ours.fileno(), _STDOUT)


class Lines:
    """One JSON object a line, each at once, from whichever thread. `gone` is called once nobody reads any more."""

    def __init__(self, out: BinaryIO, gone: Callable[[], object] = lambda: None) -> None:
        self.is_read = True
        self.refused: NotPrinted | None = None  # why it is not, where somebody would have read it
        self.gone = gone
        self._out = out
        self._lock = threading.Lock()

    def heard(self, event: Event) -> None:
        self.write(event.to_json())

    def write(self, value: Any) -> None:
        line = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
        with self._lock:
            if not self.is_read:
                return
            try:
                self._out.write(line)
                self._out.flush()
            except OSError as problem:
                self.is_read = False
                self.refused = None if isinstance(problem, BrokenPipeError) else not_printed(problem)
                _drop(self._out)
                self.gone()


def report_text(report: Report, out: BinaryIO) -> None:
    is_terminal = os.isatty(out.fileno()) and os.environ.get("TERM") != "dumb"
    text = for_people(report.text) if is_terminal else report.text
    try:
        out.write(text.rstrip("\n").encode("utf-8", "replace") + b"\n")
        out.flush()
    except OSError as problem:
        _drop(out)
        if isinstance(problem, BrokenPipeError):
            raise
        raise not_printed(problem) from problem


def _drop(out: BinaryIO) -> None:
    """What is left in the buffer has nowhere to go."""
    with contextlib.suppress(OSError), open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), out.fileno())


def about(report: Report, bag: Holdall, seconds: float) -> None:
    """On standard error: what is wrong with it, what it took, how much of what was kept its model has seen."""
    if report.synthetic:
        screen.about(f"The agent did not report: {one_line(report.why, 300)}. What it has done is kept.")
    elif report.status != "success":
        said = "it failed" if report.status == "failure" else "this is only a part of what was asked"
        screen.about(f"The agent says that {said}.")
    screen.about(took(report, bag, seconds))
    if seen := _seen(report, bag):
        screen.about(seen)
    if running := bag.still_running():
        told = ", ".join(f"{one_line(one.tool, 40)} {one.handle}" for one in running[:_MOST_OUTPUTS])
        grace = f"{bag.settings.grace_seconds:g} s"
        screen.about(f"still running: {told}. What has not ended in {grace} is cancelled; what it wrote is kept.")
    name = one_line(bag.session.name, 100)
    screen.about(f"more: holdall show --tree {name}" + (f" · holdall ls -s {name}" if seen else ""))


def took(report: Report, bag: Holdall, seconds: float) -> str:
    """`session finder-3fa9c1 · 5 turns · 7 model calls · 9 tool calls · 12,345 tokens · $0.0031 · 4.1 s`"""
    totals = bag.tree().root.totals()
    parts = [
        f"session {one_line(bag.session.name, 100)}",
        plural(report.turns, "turn"),
        plural(totals["model_calls"], "model call"),
        plural(totals["tool_calls"], "tool call"),
        f"{grouped(totals['input_tokens'] + totals['output_tokens'])} tokens",
        money(totals["cost"] or report.usage.cost),
        f"{seconds:.1f} s",
    ]
    return " · ".join(parts)


def _seen(report: Report, bag: Holdall) -> str:
    """`seen: 0.4 % of k3f9 (fetch_logs, 10.5 MB) · …`; empty where nothing was kept."""
    told: list[str] = []
    ended = [facts for facts in map(bag.kept.get, report.coverage) if facts is not None and facts.state != "running"]
    for facts in ended[:_MOST_OUTPUTS]:
        what = f"{one_line(facts.origin.tool, 40) or 'an output'}, {size(facts.measure.bytes)}"
        told.append(f"{screen.percent(report.coverage[facts.handle])} of {facts.handle} ({what})")
    if (more := len(ended) - len(told)) > 0:
        told.append(plural(more, "more output"))
    return f"seen: {' · '.join(told)}" if told else ""
