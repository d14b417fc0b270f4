"""The benchmark beside other libraries: its data, its judge, its report, and our own side of it. Nothing is fetched."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import __main__ as program
from bench.lab import QUICK as QUICK_LAB
from bench.lab import ROOT, Lab
from bench.machine import Patience
from bench.peers import command, data, install, report, run
from bench.peers.catalogue import LIBRARIES, Library
from bench.peers.judge import ANSWER_MOST, Judgement, covered, judge, locate, seen_in_notice
from bench.peers.patient import Figures, Page, drive

pytestmark = pytest.mark.in_full(one_in=2)

JUDGED = Judgement(stored=1000, reached=1000, strange=0, notice=10, answer=10, answered=True)
FIGURES = Figures(
    take=0.25, reads=12, read=0.004, read_all=0.05, search=0.1, before=50_000_000, peak=70_000_000, gave_up=False
)
MACHINE = {"cores": 2, "cpu": "CPU", "memory_bytes": 8 * 10**9, "system": "Linux", "python": "3", "date": "today"}


class Book:
    """A library whose store is a text, and which shows ten characters at a time."""

    first: Any = 0

    def __init__(self, text: str, *, step: int = 10) -> None:
        self.text, self.step = text, step

    async def take(self, output: object) -> str:
        return f"{len(str(output))} characters"

    async def read(self, place: Any) -> Page:
        shown = self.text[place : place + 10]
        end = place + self.step
        return Page(f"[{shown}]", shown, end if end < len(self.text) else None)

    async def search(self, needle: str) -> str:
        return f"{needle} is somewhere"

    async def stored(self) -> bytes:
        return self.text.encode()


# Data


@pytest.mark.parametrize("case", data.CASES)
def test_the_data_is_the_same_every_time_with_the_needle_in_its_middle(tmp_path: Path, case: data.Case) -> None:
    first, second = (data.make(tmp_path / name, case, 50_000) for name in "ab")
    text = first.read_text("utf-8")
    assert text == second.read_text("utf-8")
    assert 49_500 < len(text) <= 50_000
    assert text.count(data.NEEDLE) == text.count(data.ANSWER) == 1
    assert 0.48 < text.index(data.NEEDLE) / len(text) < 0.52
    assert text.count("\n") == (0 if case != "log" else len(text.splitlines()))


def test_a_value_is_the_parsed_array_and_the_needle_has_the_shape_of_all_others(tmp_path: Path) -> None:
    value: Any = data.load(data.make(tmp_path, "value", 20_000), "value")
    assert len({tuple(record) for record in value}) == 1
    assert [record["user"]["name"] for record in value if record["trace"] == data.NEEDLE] == [data.ANSWER]


# The patient model


@pytest.mark.anyio
async def test_reading_goes_on_to_the_end_and_everything_is_judged(tmp_path: Path) -> None:
    figures = await drive(Book("0123456789" * 9 + "abc"), "x" * 77, "needle", tmp_path, most_reads=100)
    assert (figures.reads, figures.gave_up) == (10, False)
    assert figures.peak >= figures.before > 0
    assert (tmp_path / "notice").read_text("utf-8") == "77 characters"
    assert judge(tmp_path) == Judgement(stored=93, reached=93, strange=0, notice=13, answer=19, answered=False)


@pytest.mark.anyio
async def test_patience_ends_and_a_place_that_leads_back_to_itself_is_the_end(tmp_path: Path) -> None:
    assert (await drive(Book("a" * 100), "", "n", tmp_path, most_reads=3)).gave_up
    stuck = await drive(Book("a" * 100, step=0), "", "n", tmp_path, most_reads=50)
    assert (stuck.reads, stuck.gave_up) == (1, False)


# The judge


def test_only_what_stands_in_the_stored_text_counts() -> None:
    stored = b"one\ntwo\nthree\none\n"
    spans, strange = locate(stored, [b"one\ntwo", b"  3| three", b"one", b"two"])
    assert (spans, strange) == ([(0, 7), (14, 17), (4, 7)], 10)  # the later "one" is behind "two"


def test_a_line_end_between_two_pages_counts_and_any_other_gap_does_not() -> None:
    stored = b"one\ntwo three\n"
    assert covered(stored, [(0, 3), (4, 13)]) == len(stored)
    assert covered(stored, [(0, 7), (8, 13)]) == len(stored) - 1
    assert covered(stored, []) == 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))))
def test_a_byte_that_is_shown_twice_counts_once(spans: list[tuple[int, int]]) -> None:
    assert covered(b"x" * 60, spans) == len({at for start, stop in spans for at in range(start, stop)})


def test_a_preview_in_a_notice_counts_where_it_is_the_text_itself() -> None:
    stored = b"".join(b"record %04d with a value of its own\n" % number for number in range(100))
    notice = b"Too large. The first and the last lines:\nrecord 0000 with a value of its own\nrecord 0099 with"
    assert seen_in_notice(stored, notice) == [(0, 35)]  # 16 bytes may stand anywhere


@pytest.mark.parametrize(
    ("judged", "share", "found"),
    [
        (JUDGED, "100 %", "yes"),
        (replace(JUDGED, stored=10**6, reached=10**6 - 1), "99.99 %", "yes"),
        (replace(JUDGED, stored=10**6, reached=4_768, answered=False), "0.48 %", "no"),
        (replace(JUDGED, stored=10**9, reached=1, answer=ANSWER_MOST + 1), "0.01 %", "in 16 KB"),
        (replace(JUDGED, reached=0, answer=ANSWER_MOST), "0 %", "yes"),
    ],
)
def test_a_share_is_never_rounded_to_all_and_a_needle_in_a_haystack_is_not_found(
    judged: Judgement, share: str, found: str
) -> None:
    assert (report.percent(judged), report.needle(judged)) == (share, found)


# Ours


@pytest.mark.in_full
def test_ours_reaches_every_byte_and_finds_the_needle_in_every_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "QUICK", run.Effort(60_000, rounds=2))
    assert program.main(["peers", "--quick", "--only", "holdall", "--out", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "peers.json").read_text("utf-8"))
    rows = {(row["case"], row["way"]): row for row in written["rows"]}
    assert set(rows) == set(LIBRARIES["holdall"].work())
    assert {(row["share"], row["found"], row["strange"], row["gave_up"]) for row in rows.values()} == {
        (1, True, 0, False)
    }
    assert min(row["reads"] for row in rows.values()) > 3
    assert max(row["answer"] for row in rows.values()) <= ANSWER_MOST
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("run-")] == []  # no store is left
    assert capsys.readouterr().out.count("100 %") == len(rows)


# What is missing


def test_a_library_that_cannot_be_had_is_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'no route to registry.example' >&2\nexit 1\n", encoding="utf-8")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(uv.parent), prepend=":")
    assert program.main(["peers", "--quick", "--only", "deepagents", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    said = "not installed: the package registry did not give it; is there a network?"
    assert shown.out.count(said) == len(data.CASES)
    assert f"deepagents is left out: {said}" in shown.err
    assert "registry.example" in shown.err  # for whoever sits there; never for the page
    assert "registry.example" not in shown.out + (tmp_path / "peers.json").read_text("utf-8")


def test_without_uv_nothing_is_installed_and_the_reason_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(install.NotInstalled, match="there is no uv"):
        install.installed(LIBRARIES["strands-agents"], tmp_path, newest=False)


def test_a_run_that_fails_is_a_row_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab(tmp_path, QUICK_LAB, Patience(0))
    python, _ = install.installed(LIBRARIES["holdall"], tmp_path, newest=False)
    row = run.measured(
        lab, python, Library("nobody", "nobody", {"some": data.CASES}), "some", "log", run.Effort(5_000, rounds=1)
    )
    assert (row.missing, row.failed, row.figures) == ("it failed: see what the run printed", True, None)
    assert "No module named 'bench.peers.libraries.nobody'" in capsys.readouterr().err


def test_a_run_with_a_failure_is_not_published_and_the_exit_code_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "LIBRARIES", {"nobody": Library("nobody", "nobody", {"some": ("log",)})})
    monkeypatch.setattr(run, "LIBRARIES", command.LIBRARIES)
    monkeypatch.setattr(command, "FULL", run.Effort(5_000, rounds=1))
    monkeypatch.setattr(command, "ROOT", tmp_path)  # whose docs have no such page
    assert program.main(["peers", "--publish", "--out", str(tmp_path)]) == 1
    assert "FAILED nobody, some: log" in capsys.readouterr().err


# The report


def outcome(*rows: run.Row) -> run.Outcome:
    return run.Outcome(rows, {"holdall": "9.9"}, run.FULL, MACHINE, 60.0)


def test_the_page_gets_the_tables_and_keeps_its_text(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("Before.\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nAfter.\n", encoding="utf-8")
    rows = (
        run.Row("holdall", "plain", "log", FIGURES, JUDGED),
        run.Row("other", "its way", "json", missing="not installed"),
        run.Row("holdall", "plain", "json", replace(FIGURES, gave_up=True), replace(JUDGED, reached=5)),
    )
    report.publish(outcome(*rows), tmp_path)
    assert page.read_text("utf-8") == (
        "Before.\n<!-- peers: begin -->\n"
        "Measured on today: 2 cores of CPU, 8 GB of memory, Linux, Python 3.\n"
        "\n### A log of 10 MiB\n\n"
        "| library | bytes reached | needle found | taken in | reads | a read | search | memory | of it for this |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
        "| holdall 9.9, plain | 100 % | yes | 0.250 s | 12 | 4.00 ms | 100 ms | 70 MB | 20 MB |\n"
        "\n### JSON of 10 MiB on one line, as text\n\n"
        "| library | bytes reached | needle found | taken in | reads | a read | search | memory | of it for this |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
        "| other, its way | not installed |  |  |  |  |  |  |  |\n"
        "| holdall 9.9, plain | 0.50 % | yes | 0.250 s | 12+ | 4.00 ms | 100 ms | 70 MB | 20 MB |\n"
        "<!-- peers: end -->\nAfter.\n"
    )
    written = json.loads((tmp_path / "benchmarks" / "peers.json").read_text("utf-8"))
    assert [row.get("missing") for row in written["rows"]] == [None, "not installed", None]


def test_a_page_without_a_place_for_the_tables_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text("No marks.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for the table"):
        report.publish(outcome(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["benchmarks.md"]


def test_the_page_of_the_repository_tells_what_was_measured_and_of_every_library() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert page.count("<!-- peers: begin -->") == page.count("<!-- peers: end -->") == 1
    written = json.loads((ROOT / "docs" / "benchmarks" / "peers.json").read_text("utf-8"))
    assert set(written["versions"]) == set(LIBRARIES)
    work = [(row["library"], row["case"], row["way"]) for row in written["rows"]]
    assert sorted(work) == sorted((library.name, *one) for library in LIBRARIES.values() for one in library.work())
    labels = [f"| {name} {written['versions'][name]}, {way} |" for name, _, way in work]
    assert [label for label in labels if page.count(label) != labels.count(label)] == []


def test_only_a_full_run_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["peers", "--only", "holdall", "--publish"]) == 2
    assert "full run" in capsys.readouterr().err
