"""The further outputs: what is cheap to make is made, and its questions have answers that the bytes hold."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.answers import tasks
from bench.answers.further import make as program
from bench.answers.further.asked import QUESTIONS, Vacuous, most, once, pick
from bench.answers.further.outputs import RECIPES, Missing, Recipe

CHEAP = ("find_ls", "unicode_csv", "pydoc_html")


def test_three_questions_for_each_of_twenty_outputs() -> None:
    assert Counter(question.output for question in QUESTIONS) == {recipe.id: 3 for recipe in RECIPES}
    assert len(RECIPES) == 20
    assert len({question.ask.__name__ for question in QUESTIONS}) == 60


def test_the_mix_of_questions() -> None:
    mix = {"look-up": 24, "aggregate": 15, "range": 9, "steps": 6, "other words": 6}
    assert Counter(question.category for question in QUESTIONS) == mix


def test_cheap_outputs_have_answers_in_the_form_that_the_benchmark_reads(tmp_path: Path) -> None:
    program.main([str(tmp_path), *CHEAP])
    collection = tasks.load(tmp_path)
    assert collection.outputs  # the page of pydoc needs no tool
    assert len(collection.tasks) == 3 * len(collection.outputs)
    for task in collection.tasks:
        data = collection.outputs[task.output].data
        assert task.question.endswith("?")
        assert all(task.gold)
        assert task.where
        assert all(0 <= span.start < span.end <= len(data) for span in task.where)
        if task.is_lookup:
            assert any(task.gold[0].encode() in data[span.start : span.end] for span in task.where)


def test_what_is_there_is_kept_and_only_asked_about_anew(tmp_path: Path) -> None:
    (recipe,) = (recipe for recipe in RECIPES if recipe.id == "sqlite_dump")
    file = tmp_path / "artifacts" / f"{recipe.id}.{recipe.ending}"
    file.parent.mkdir()
    dump = (
        "CREATE TABLE distribution (id, name, version);\nCREATE TABLE file (id, distribution, path, size);\n"
        "INSERT INTO distribution VALUES(1,'toy','0.5');\nINSERT INTO file VALUES(1,1,'a.py',7);\n"
        "INSERT INTO file VALUES(2,1,'b.py',9);\n"
    )
    file.write_text(dump)
    program.make(tmp_path, [recipe], keep=True)
    assert file.read_text() == dump
    assert [task.gold for task in tasks.load(tmp_path).tasks] == [("0.5",), ("b.py",), ("2",)]


def test_what_cannot_be_made_or_asked_is_said_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: Path) -> bytes:
        raise Missing("no such tool")

    recipes = [
        Recipe("npm_ls", "npm", "json", "json", refuse),
        Recipe("git_log", "git", "diff", "txt", lambda _: b"nothing\n"),
    ]
    program.make(tmp_path, recipes)
    assert [entry["id"] for entry in json.loads((tmp_path / "manifest.json").read_text())] == ["git_log"]
    assert tasks.load(tmp_path).tasks == ()
    said = capsys.readouterr().err
    assert "npm_ls: not made: no such tool" in said
    assert "git_log-01: left out" in said


def test_a_choice_is_the_same_each_time_and_never_out_of_nothing() -> None:
    assert pick("abcdefghij") == "f"
    assert once(["a", "b", "a", "c"]) == ["b", "c"]
    with pytest.raises(Vacuous):
        pick([])
    with pytest.raises(Vacuous, match="2 are equally large"):
        most("aabb")
