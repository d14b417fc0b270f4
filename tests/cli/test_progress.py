"""What takes long says how far it is: which call, which pattern, how much, how long still."""

import io
import os
import subprocess
import threading
import types
from pathlib import Path

import pytest

from holdall.cli import ask, progress
from holdall.policy.route import Forecast
from tests.cli.program import Program, started_as, until


@pytest.mark.parametrize(
    ("said", "first"), [("", [5, 10, 20, 40, 60, 60]), ("0", [0, 1, 2, 4, 8, 16]), ("off", []), ("nonsense", [])]
)
def test_lines_come_less_and_less_often(monkeypatch: pytest.MonkeyPatch, said: str, first: list[float]) -> None:
    monkeypatch.setenv(progress.VARIABLE, said)
    assert [pause for pause, _ in zip(progress.pauses(), range(6), strict=False)] == first


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "0 s"), (48, "48 s"), (252, "4 m 12 s"), (7500, "2 h 5 m")])
def test_a_length_of_time(seconds: float, told: str) -> None:
    assert progress.length(seconds) == told


def test_the_time_that_is_left_is_told_by_the_pace_so_far() -> None:
    assert progress.time_left(25, 100, 60) == "about 3 m 0 s left"
    assert progress.time_left(0, 100, 60) == progress.time_left(100, 100, 60) == ""


@pytest.mark.parametrize(
    ("pace", "told"),
    [
        (None, "up to 46 minutes on this machine (longer with a large model)"),
        (1000.0, "up to 2 minutes on this machine"),
        (10_000.0, "up to a minute on this machine"),
        (12.0, "up to 3 hours on this machine"),
    ],
)
def test_the_forecast_of_a_local_model_says_minutes(pace: float | None, told: str) -> None:
    assert ask.minutes(Forecast(10, 100_000, 9_000), pace) == told


def test_bytes_that_are_done_are_told_with_pace_and_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.VARIABLE, "0")
    monkeypatch.setattr("sys.stderr", err := io.StringIO())
    with progress.bytes_done("keeping a.log", 4000) as tick:
        tick(1000)
        until(lambda: "\n" in err.getvalue())
    assert err.getvalue().startswith("keeping a.log · ")
    assert " of 4.0 kB · " in err.getvalue()


@pytest.mark.parametrize(
    ("said", "first"), [("", 0.5), ("off", None), ("0", 0.0), ("20", 20.0), ("-1", None), ("nonsense", None)]
)
def test_a_terminal_gets_its_first_line_when_it_was_said_or_none(
    monkeypatch: pytest.MonkeyPatch, said: str, first: float | None
) -> None:
    waited: list[float] = []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return super().wait()  # until the work is over

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv(progress.VARIABLE, said)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", err := Screen())
    over = types.SimpleNamespace(Event=Over, Thread=threading.Thread)
    monkeypatch.setattr(progress, "threading", over)
    with progress.reported(lambda _: "far"):
        until(lambda: waited or first is None)
    assert waited == ([] if first is None else [first])
    assert err.getvalue() == ""


@pytest.mark.parametrize("more", [(), ("--timeout", "500")])
def test_a_wait_tells_what_it_waits_for(holdall: Program, tmp_path: Path, more: tuple[str, ...]) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    handle = holdall("exec", "--background", "--json", "--", "sh", "-c", f"echo x; cat {gate}").json["handle"]
    waiting = subprocess.Popen(
        started_as("wait", handle, "--pattern", "do[n]e", *more),
        env=holdall.environment({progress.VARIABLE: "0"}), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stderr is not None
    first = waiting.stderr.readline()
    assert first.startswith(f"waiting for {handle} sh")
    assert "until a line matches 'do[n]e'" in first
    assert ("at most 8 m 20 s more" in first) == bool(more)
    gate.write_text("done\n")
    waiting.stderr.read()
    assert waiting.wait(timeout=60) == 0
    waiting.stderr.close()


def test_json_has_no_lines_of_progress_beside_it(holdall: Program) -> None:
    handle = holdall.put(b"x\n")
    assert holdall("grep", handle, "x", "--json", env={progress.VARIABLE: "0"}).err == ""
