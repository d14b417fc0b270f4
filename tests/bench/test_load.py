"""The load benchmark: its tables, and on tiny sizes that it runs at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as program
from bench import load
from bench.lab import ROOT
from bench.load import ACTS, LARGE, markdown
from tests.upstream.launch import sdk_server

pytestmark = pytest.mark.in_full

FOUND = {
    "machine": {"date": "2026-11-17", "cores": 2, "cpu": "x", "python": "3.11.7"},
    "steps": [1_000, 10_000],
    "store": {"keep one": [{"seconds": 0.004, "growth": 1e6}, {"seconds": 0.006, "growth": 2e6}]},
    "conversations": [
        {"count": 10_000, "open": 64, "each": 0.01, "first": 0.01, "last": 0.02, "bytes": 1_500, "descriptors": 40}
    ],
    "output": {
        "sizes": [10_000_000, 1e10],
        "acts": {"keep it": [{"seconds": 0.02, "growth": 1e6}, {"seconds": 20, "growth": 2e6}]},
    },
}


def test_later_steps_are_told_as_multiples_of_the_first() -> None:
    lines = markdown(FOUND).splitlines()
    assert lines[2:5] == [
        "| outputs | 1,000 | memory | 10,000 | memory |",
        "|---|---:|---:|---:|---:|",
        "| keep one | 4 ms | 1.0 MB | 1.5 × | 2.0 MB |",
    ]
    assert lines[-5] == "| 10,000 | 64 | 10.00 ms | 10.00 ms | 20.00 ms | 1.5 kB | 40 |"
    assert lines[-3:] == [
        "| one output | 10 MB | memory | 10,000 MB | memory |",
        "|---|---:|---:|---:|---:|",
        "| keep it | 20 ms | 1.0 MB | 1000.0 × | 2.0 MB |",
    ]


def _started_by_fork(*words: str) -> "subprocess.Popen[str]":
    """Acts are forks: what they import is most of what two dozen tiny ones take. All else is as it is."""
    program = [sys.executable, "-m", "bench.load"] if words[0] not in ("act", "large") else sdk_server(load.__file__)
    return subprocess.Popen([*program, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.bench
def test_it_runs_and_writes_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "_started", _started_by_fork)
    assert program.main(["load", "--quick", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "load.json").read_text("utf-8"))
    assert set(found["store"]) == {*ACTS, "first page of the viewer"}
    assert [len(figures) for figures in found["store"].values()] == [2] * len(found["store"])
    assert [one["count"] for one in found["conversations"]] == [30, 3]
    assert {name: len(figures) for name, figures in found["output"]["acts"].items()} == dict.fromkeys(LARGE, 2)
    assert capsys.readouterr().out == markdown(found) + "\n"
    assert [file.name for file in tmp_path.iterdir()] == ["load.json"]  # no store is left
