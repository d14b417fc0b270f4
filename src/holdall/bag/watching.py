"""Who is told of every event: the log of the process, and OpenTelemetry where it is installed."""

import importlib
import logging
import sys

from holdall.bag.journal import Watcher
from holdall.text.escape import one_line
from holdall.values.events import Event

_LOG = logging.getLogger("holdall")


def watchers() -> list[Watcher]:
    return [log_event, _tell_opentelemetry]


def _tell_opentelemetry(event: Event) -> None:
    """Only in a program that uses it, which has then imported it: importing it for nobody would cost every start."""
    if "opentelemetry.trace" in sys.modules:
        importlib.import_module("holdall.bag.telemetry").watch(event)


def log_event(event: Event) -> None:
    """One line, whatever a tool is named; never the content of an output."""
    level = logging.WARNING if event.kind == "unkept" else logging.INFO
    if not _LOG.isEnabledFor(level):
        return
    skipped = ("shown", "scanned", "searched", "passed", "traceback")
    told = {name: value for name, value in event.to_json().items() if name not in ("at", "event", "by", *skipped)}
    words = " ".join(f"{name}={value}" for name, value in told.items())
    _LOG.log(level, "%s %s", event.kind, one_line(words, 500))
