"""The speed benchmark on tiny sizes. What it measures there says nothing; that it measures, and can fail, does."""

import json
import math
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from bench import __main__ as program
from bench import data, report, speed
from bench.lab import FULL, QUICK, ROOT, Lab, NotEnoughRoom
from bench.machine import Patience, known_seconds
from bench.plot import plot
from bench.result import Curve, Gate, Measured, Row, shown
from bench.rounds import Compared, Turn, slope


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all jobs: the data in it is made once."""
    return tmp_path_factory.mktemp("speed")


# They start servers, browsers or many processes, and are run with the benchmarks themselves.
SLOW = {"gateway", "http", "output", "viewer", "notice", "startup"}


@pytest.mark.in_full(one_in=3)
@pytest.mark.bench
@pytest.mark.parametrize("job", [job for job in speed.JOBS if job not in SLOW or "HOLDALL_TEST_FULL" in os.environ])
def test_a_job_runs_and_tells_its_figures(job: str, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["speed", "--quick", "--only", job, "--out", str(out)]) == 0
    rows = json.loads((out / "speed.json").read_text("utf-8"))["rows"]
    assert {row["job"] for row in rows} == {"grep" if job == "line" else job}  # its figure stands among those of grep
    assert all(math.isfinite(row["figure"]) for row in rows)
    # A bound in seconds would mean something else on another machine.
    timed = [row for row in rows if row["unit"] in ("s", "ms", "µs") and row["gate"]]
    assert [row["case"] for row in timed if row["gate"]["on"] == "figure" or row["floor"] is None] == []
    assert [file.name for file in out.iterdir() if file.name.startswith("run-")] == []  # no store is left
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 2


def test_figures_curves_and_plot_are_written(tmp_path: Path) -> None:
    assert program.main(["speed", "--quick", "--only", "size", "--out", str(tmp_path)]) == 0
    assert set(json.loads((tmp_path / "speed.json").read_text("utf-8"))["curves"]) == {"ingest", "grep", "read"}
    assert ElementTree.fromstring((tmp_path / "speed.svg").read_text("utf-8")).tag.endswith("svg")


def test_a_broken_gate_is_named_and_the_exit_code_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def slow(lab: Lab) -> Measured:
        return Measured([Row("grep", "a slow one", 3.0, "s", 2.0, Gate(1.15)), Row("grep", "no gate", 9.0, "s", 1.0)])

    monkeypatch.setattr(speed, "JOBS", {"grep": slow})
    monkeypatch.setattr(program, "FULL", QUICK)
    assert program.main(["speed", "--out", str(tmp_path)]) == 1
    assert "FAILED grep: a slow one" in capsys.readouterr().err
    assert json.loads((tmp_path / "speed.json").read_text("utf-8"))["failed"] == ["grep: a slow one"]


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Row("j", "at the bound", 1.15, "s", 1.0, Gate(1.15)), "pass"),
        (Row("j", "over it", 1.16, "s", 1.0, Gate(1.15)), "fail"),
        (Row("j", "fast enough", 2.0, "s", 1.5, Gate(0.75, side="least"), inverse=True), "pass"),
        (Row("j", "too slow", 2.1, "s", 1.5, Gate(0.75, side="least"), inverse=True), "fail"),
        (Row("j", "absolute", 0.0011, "ms", 0.1, Gate(0.001, "figure")), "fail"),
        (Row("j", "a floor that was not measured", 1.0, "s", None, Gate(1.15)), "fail"),
        (Row("j", "only published", 9.0, "s", 1.0), "–"),
    ],
)
def test_a_gate_judges_the_ratio_or_the_figure(row: Row, verdict: str) -> None:
    assert row.verdict == verdict


def test_only_quiet_turns_count_where_there_are_enough() -> None:
    quiet = [Turn(1.0, 0.1), Turn(1.1, 0.1), Turn(1.2, 0.2)]
    busy = [Turn(0.1, 1.5), Turn(9.0, 1.9), Turn(7.0, 1.2)]
    found = Compared({"ours": [*busy, *quiet]})
    assert (found.median("ours"), found.others) == (1.1, 0.1)
    assert Compared({"ours": [*busy, *quiet[:1]]}).median("ours") == 1.0  # the three quietest: 1.0, 7.0 and 0.1


def test_what_a_process_of_ours_does_is_not_taken_for_the_work_of_others() -> None:
    before, known = resource.getrusage(resource.RUSAGE_CHILDREN), known_seconds()
    subprocess.run([sys.executable, "-c", "sum(n * n for n in range(3_000_000))"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert known_seconds() - known >= used - 0.05  # the kernel counts in hundredths


def test_the_power_of_a_linear_cost_is_one() -> None:
    assert slope([(size, 0.003 * size) for size in (1e6, 1e7, 1e8)]) == pytest.approx(1)
    assert slope([(size, 0.003 * size**2) for size in (1e6, 1e7, 1e8)]) == pytest.approx(2)


def test_the_data_is_the_same_every_time_and_as_large_as_asked_for(tmp_path: Path) -> None:
    first, second = (data.make(tmp_path / name, "log", data.log_lines, 100_000) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert 99_000 < first.stat().st_size <= 100_000
    document = data.make(tmp_path, "document", data.one_line, 50_000, array=True)
    assert len(json.loads(document.read_bytes())) > 100


def test_the_page_gets_the_table_and_keeps_its_text(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("Before.\n<!-- speed: begin -->\nold\n<!-- speed: end -->\nAfter.\n", encoding="utf-8")
    rows = [
        Row("grep", "a|b", 1.0, "s", 2.0, Gate(1.15, left="not told, for it holds.")),
        Row("small", "slow", 4.0, "s", 1.0, Gate(2.5, left="the disk takes 3 s.")),
    ]
    machine = {"cores": 2, "cpu": "CPU", "memory_bytes": 8 * 10**9, "system": "Linux", "python": "3", "date": "today"}
    report.publish(speed.Outcome(rows, [], machine, 60.0, judged=True), tmp_path)
    text = page.read_text("utf-8")
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "old" not in text
    assert r"| grep | a\|b | 1.00 s | 2.00 s | 0.50 × | ≤ 1.15 × | pass | – |" in text
    assert "\n- **small**: the disk takes 3 s.\n<!-- speed: end -->" in text
    assert "not told" not in text
    assert (tmp_path / "benchmarks" / "speed.svg").exists()


def test_the_page_of_the_repository_has_a_place_for_the_table() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert page.count("<!-- speed: begin -->") == page.count("<!-- speed: end -->") == 1
    assert [name for name in speed.JOBS if f"**{name}**" not in page] == []


def test_only_a_full_run_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["speed", "--quick", "--publish"]) == 2
    assert "full run" in capsys.readouterr().err


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly_full(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=10**9)

    monkeypatch.setattr("shutil.disk_usage", nearly_full)
    with pytest.raises(NotEnoughRoom, match="MB of it are missing"):
        Lab(tmp_path, FULL, Patience(0)).check_room()


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive = tmp_path / f"run-{ended.pid}-x", tmp_path / f"run-{os.getpid()}-x"
    for folder in (dead, alive):
        folder.mkdir()
    Lab(tmp_path, QUICK, Patience(0)).check_room()
    assert (dead.exists(), alive.exists()) == (False, True)


def test_the_plot_shows_every_gate_and_every_curve() -> None:
    rows = [Row("ingest", "a <pipe>", 1.0, "s", 2.0, Gate(0.75, side="least"), inverse=True), Row("x", "y", 1.0, "s")]
    picture = plot(rows, [Curve("read", [(10**6, 0.0002), (10**9, 0.0003)])])
    words = [text.text for text in ElementTree.fromstring(picture).iter() if text.tag.endswith("text")]
    assert {"ingest: a <pipe>", "2.00 × (≥ 0.75 ×)", "read", "1 MB", "1 GB", "gate"} <= set(words)
    assert "x: y" not in words


@pytest.mark.parametrize(
    ("figure", "text"), [(0.0002517, "0.252 ms"), (0.00232, "2.32 ms"), (0.0178, "17.8 ms"), (0.464, "464 ms")]
)
def test_a_figure_has_three_digits_that_count(figure: float, text: str) -> None:
    assert shown(figure, "ms") == text
