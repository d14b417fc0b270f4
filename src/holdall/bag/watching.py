"""Who is told of every event: the log of the process, and OpenTelemetry where it is installed."""

import importlib
import logging
import sys

from holdall.bag.journal import Idle, Watcher
from holdall.text.escape import one_line
from holdall.values.events import Event

_LOG = logging.getLogger("holdall")


def watchers() -> dict[Watcher, Idle]:
    return {log_event: lambda: not _LOG.isEnabledFor(logging.INFO), _tell_opentelemetry: _no_opentelemetry}


def _no_opentelemetry() -> bool:
    """Only a program that uses it has imported it: importing it for nobody would cost every start."""
    return "opentelemetry.trace" not in sys.modules


def _tell_opentelemetry(event: Event) -> None:
    if not _no_opentelemetry():
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
