"""The benchmark of extraction: on tiny sizes, with scripted models, and what it judges by."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as program
from bench.answers import judge
from bench.answers.clamps import tokens_in
from bench.answers.tasks import Collection, Output, Task
from bench.extract import command, report, work
from bench.extract.asking import BUDGET, Asked, Outcome, Shown, states
from bench.extract.cuts import Cut, cut, cuts
from bench.extract.rivals import RIVALS, bm25, ends, grep
from bench.lab import QUICK, ROOT, Lab
from bench.result import Gate, Measured, Row
from holdall.values.spans import Span
from tests.llm.test_naming import a_gguf

LOG = "".join(
    f"12:00:{at % 60:02} worker-{at % 7} request id=r{at:05} took {at % 97}.{at % 10} ms\n" for at in range(4000)
)
EVIDENCE = "id=r01777 took 31.7 ms"


# Holdall's own work


def test_the_first_half_runs_and_its_figures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["extract", "--quick", "--only", "work", "--out", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "extract.json").read_text("utf-8"))
    assert (written["benchmark"], written["judged"], written["failed"]) == ("extract", False, [])
    assert all(math.isfinite(row["figure"]) and row["figure"] > 0 for row in written["rows"])
    assert sum(row["gate"] is not None for row in written["rows"]) == 3
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("run-")] == []  # no store is left
    assert len(capsys.readouterr().out.splitlines()) == len(written["rows"]) + 2


def test_a_broken_gate_is_named_and_the_exit_code_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def slow(lab: Lab, sizes: work.Sizes) -> Measured:
        return Measured([Row("extract", "a slow one", 3.0, "s", 2.0, Gate(1.2)), Row("extract", "no gate", 9.0, "s")])

    monkeypatch.setattr(work, "work", slow)
    monkeypatch.setattr(command, "FULL", QUICK)
    assert program.main(["extract", "--only", "work", "--out", str(tmp_path)]) == 1
    assert "FAILED a slow one" in capsys.readouterr().err
    assert json.loads((tmp_path / "extract.json").read_text("utf-8"))["failed"] == ["a slow one"]


def test_only_a_full_run_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    for short in (["--quick"], ["--tasks", "2"]):
        assert program.main(["extract", "--publish", *short]) == 2
        assert "full run" in capsys.readouterr().err


# What is cut, and what the other ways show of it


def a_task(where: Sequence[Span], *, id: str = "log-1", question: str = "How long did request r01777 take?") -> Task:
    return Task(id, "log", "needle", question, ("31.7",), tuple(where), "all", last=where[-1].end)


def a_span(text: str, piece: str) -> Span:
    start = text.encode().index(piece.encode())
    return Span(start, start + len(piece.encode()))


def test_a_cut_has_the_evidence_as_it_was_and_lines_from_everywhere() -> None:
    output, task = Output("log", "serve", LOG.encode()), a_task([a_span(LOG, EVIDENCE)])
    made = cut(output, [task], 4000)
    data = made.output.data
    assert 3600 <= len(data) < 4800
    assert made.whole == len(LOG)
    (moved,) = made.tasks
    assert data[moved.where[0].start : moved.where[0].end].decode() == EVIDENCE
    assert moved.last == moved.where[0].end
    lines = data.decode().splitlines(keepends=True)
    assert set(lines) <= set(LOG.splitlines(keepends=True))
    numbers = [int(line.split("id=r")[1][:5]) for line in lines]
    assert numbers == sorted(numbers)
    assert numbers[0] < 800
    assert numbers[-1] > 3200


def test_evidence_that_is_too_long_for_a_cut_is_left_out() -> None:
    tasks = (a_task([a_span(LOG, EVIDENCE)]), a_task([Span(0, 2000)], id="log-2"), a_task([Span(9, 10)], id="log-3"))
    collection = Collection({"log": Output("log", "serve", LOG.encode())}, tasks)
    (made,) = cuts(collection, "needle", 4000)
    assert [task.id for task in made.tasks] == ["log-1", "log-3"]
    assert cuts(collection, "count", 4000) == []


@pytest.mark.parametrize("way", RIVALS)
def test_no_way_shows_more_than_its_tokens(way: str) -> None:
    shown = RIVALS[way](LOG.encode(), "How long did request r01777 of worker-3 take?", 200)
    text = "".join(LOG[start:end] for start, end in shown.as_lists())
    assert 0 < tokens_in(text) <= 200


def test_search_shows_what_the_question_names_and_both_ends_do_not() -> None:
    task, data = a_task([a_span(LOG, EVIDENCE)]), LOG.encode()
    seen = {way: judge.verdict(task, data, show(data, task.question, 200)) for way, show in RIVALS.items()}
    assert seen == {"grep alone": "bytes", "BM25": "bytes", "head + tail": ""}
    unknown = "Which duration?"
    assert grep(data, unknown, 200).bytes() == bm25(data, unknown, 200).bytes() == 0
    assert ends(data, unknown, 200).bytes() > 200


def test_the_passage_with_the_rarer_words_comes_first() -> None:
    text = "a common word\n" * 100 + "the rare heron\n" + "a common word\n" * 100
    shown = bm25(text.encode(), "a common heron", 120).as_lists()
    assert any("heron" in text[start:end] for start, end in shown)


@pytest.mark.parametrize(
    ("answer", "gold", "stated"),
    [
        ("It took 10.887 ms.", "10.887", True),
        ("It took 10.8871 ms.", "10.887", False),
        ("It took 10.887ms, I think.", "10.887", True),
        ("It took 3 ms. Others took 10.887 ms.", "10.887", False),
        ("The size is 22.", "22", True),
        ("The size is 122.", "22", False),
        ("The size is 22.5.", "22", False),
        ("Its status is OK", "ok", True),
        ("It looks okay", "ok", False),
        ("from 181.25.201.155, port 9", "181.25.201.155", True),
        ("作者是张氏。", "张氏", True),
    ],
)
def test_an_answer_states_what_is_right_as_words_of_their_own(answer: str, gold: str, stated: bool) -> None:
    assert states(answer, gold) == stated


# Questions put to a model


def a_folder(folder: Path) -> Path:
    (folder / "log.txt").write_text(LOG, "utf-8")
    (folder / "manifest.json").write_text(json.dumps([{"id": "log", "file": "log.txt", "tool": "serve"}]), "utf-8")
    span = a_span(LOG, EVIDENCE)
    tasks = [
        {"id": "log-1", "artifact": "log", "type": "needle", "question": "How long did request r01777 take?",
         "gold": "31.7", "where": [[span.start, span.end]], "require": "all", "verify_a": ""},
        {"id": "log-2", "artifact": "log", "type": "needle", "question": "How long did request r00002 take?",
         "gold": "2.2", "where": [[100, 120]], "require": "all", "verify_a": ""},
    ]  # fmt: skip
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), "utf-8")
    return folder


def a_script(path: Path) -> str:
    """It answers the first question with a true quote and an invented one, and the second with nothing."""
    found = {"quotes": ["id=r01777 took {1} ms", "request r01777 was slow"], "answer": "It took {1} ms.", "found": True}
    nothing: dict[str, Any] = {"quotes": [], "answer": "requests", "found": False}
    asked = r"r01777 took (\S+) ms[\s\S]*WHAT TO EXTRACT\nHow long did request r01777"
    replies: list[dict[str, Any]] = [
        {"when": asked, "text": json.dumps(found | {"confidence": 1})},
        {"when": ".", "text": json.dumps(nothing | {"confidence": 1})},
    ]
    path.write_text(json.dumps({"replies": replies, "window": 4096, "keeps_schema": True}), "utf-8")
    return f"scripted:{path}"


def test_what_a_model_answers_stands_beside_the_other_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, script = a_folder(tmp_path), a_script(tmp_path / "script.json")
    out = tmp_path / "out"
    given = ["extract", "--only", "answers", "--data", str(folder), "--model", script, "--out", str(out)]
    assert program.main(given) == 0
    written = json.loads((out / "extract-answers.json").read_text("utf-8"))
    first, second = written["asked"]
    assert (first["answered"], first["shown"], first["checks"][0]) == (True, True, "exact")
    assert sorted(first["checks"])[-1] in ("near", "none")
    assert (second["found"], second["answered"], second["shown"], second["quotes"]) == (False, False, False, [])
    assert first["calls"] == first["chunks"] >= 1
    assert min(first["read"], first["written"]) > 0
    assert 0 < first["tokens"] <= BUDGET
    assert {(one["task"], one["way"], one["whole"]) for one in written["others"]} == {
        (task, way, whole) for task in ("log-1", "log-2") for way in RIVALS for whole in (False, True)
    }
    table = capsys.readouterr().out
    assert "Holdall: the answer states it       1 of 2 (50%)" in table
    assert "nowhere: invented, and marked" in table


def test_so_many_questions_and_no_more(tmp_path: Path) -> None:
    folder, script = a_folder(tmp_path), a_script(tmp_path / "script.json")
    given = ["--data", str(folder), "--model", script, "--out", str(tmp_path / "out"), "--tasks", "1"]
    assert program.main(["extract", "--only", "answers", *given]) == 0
    written = json.loads((tmp_path / "out" / "extract-answers.json").read_text("utf-8"))
    assert [one["task"] for one in written["asked"]] == ["log-1"]


def test_without_outputs_or_a_model_it_says_so_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["extract", "--only", "answers", "--data", str(tmp_path / "none")]) == 0
    assert "bench: answers skipped: no outputs with questions there" in capsys.readouterr().out
    monkeypatch.setenv("HOLDALL_MODELS", str(tmp_path / "none"))
    assert program.main(["extract", "--only", "answers", "--data", str(a_folder(tmp_path))]) == 0
    assert "bench: answers skipped: no model in .dev/models" in capsys.readouterr().out


def test_a_model_that_there_is_not_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--data", str(a_folder(tmp_path)), "--model", f"gguf:{tmp_path}/none.gguf"]
    assert program.main(["extract", "--only", "answers", *given]) == 2
    assert "none.gguf" in capsys.readouterr().err


def test_of_the_files_that_are_there_the_one_is_taken_that_answers_and_can_be_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDALL_MODELS", str(tmp_path))
    assert command.chosen(None, None) is None
    for name in ("smollm2-135m.gguf", "some-1.5B.gguf", "some-0.5b.gguf"):
        a_gguf(tmp_path / name)
    model = command.chosen(None, None)
    assert model is not None
    assert (Path(model.name).name, model.window) == ("some-0.5b.gguf", 2048)


# The page


def an_outcome() -> Outcome:
    asked = Asked(
        "t-1", "which?", "7", found=True, answered=True, shown=False, answer="it | is 7", quotes=("7", "8"),
        checks=("exact", "none"), strategy="full-chunked", warning="", chunks=2, failed=0, calls=3, retries=1, read=1000,
        cached=500, written=50, seconds=10.0, tokens=90,
    )  # fmt: skip
    others = [Shown("t-1", way, whole, True, 200) for way in RIVALS for whole in (False, True)]
    return Outcome("small.gguf", 2048, 4000, [asked], others, ["t-2"], 4100, 4_000_000, 1_000_000, 12.0)


def test_the_page_gets_the_tables_of_each_half_and_keeps_its_text(tmp_path: Path) -> None:
    page = tmp_path / report.PAGE
    marks = "".join(
        f"<!-- {mark}: begin -->\nstale\n<!-- {mark}: end -->\nText.\n" for mark in ("extract", "extract-answers")
    )
    page.write_text(f"Before.\n{marks}After.\n", encoding="utf-8")
    report.publish_work([Row("extract", "64 chunks", 1.7, "s", 1.6, Gate(1.2))], 60.0, tmp_path)
    report.publish_answers(an_outcome(), tmp_path)
    text = page.read_text("utf-8")
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "stale" not in text
    assert "| 64 chunks | 1.70 s | 1.60 s | 1.06 × | ≤ 1.2 × | pass | – |" in text
    assert "| Holdall: the answer states it | 1 of 1 (100%) | – | 90 |" in text
    assert f"| BM25, {BUDGET} tokens | 1 of 1 (100%) | 1 of 1 (100%) | 200 |" in text
    assert "| quotes, and how many are verified | 2, 1 of 2 (50%) |" in text
    assert r"| t-1 | 7 | it \| is 7 | yes | no | 1 of 2 |" in text
    assert "50 new tokens a second" in text
    assert "would take 6 hours here" in text
    assert {file.name for file in (tmp_path / "benchmarks").iterdir()} == {"extract.json", "extract-answers.json"}


def test_the_page_of_the_repository_has_a_place_for_both() -> None:
    page = (ROOT / "docs" / report.PAGE).read_text("utf-8")
    for mark in ("extract", "extract-answers"):
        assert page.count(f"<!-- {mark}: begin -->") == page.count(f"<!-- {mark}: end -->") == 1


def test_a_cut_is_the_same_every_time() -> None:
    output, task = Output("log", "serve", LOG.encode()), a_task([a_span(LOG, EVIDENCE)])
    first, second = (cut(output, [task], 4000) for _ in range(2))
    assert isinstance(first, Cut)
    assert first == second
