"""The benchmark of answers, on a small made-up output with questions; and on the real ones where they are there."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import __main__ as program
from bench.answers import command, outline, paths, question, report, sql
from bench.answers.command import TASKS
from bench.answers.measuring import NOTICE, SEARCHED, STRATEGIES, Outcome, Seen, measure
from bench.answers.reading import Reply
from bench.answers.searcher import MAX_CALLS, search
from bench.answers.tasks import LOOKUPS, Collection, Output, Task, load
from bench.lab import ROOT

pytestmark = pytest.mark.in_full(one_in=2)

_LOG = "".join(
    f"12:{at // 60 % 60:02}:{at % 60:02} worker-{at % 7} request id=r{at:05} took {at % 97}.{at % 10} ms\n"
    if at % 50 or not 1000 <= at < 3000
    else f"12:{at // 60 % 60:02}:{at % 60:02} cache flush of shard s{at} by node n{at % 3}\n"
    for at in range(4000)
)
_JSON = json.dumps(
    {"servers": {f"host-{at}.example": {"role": "db" if at % 3 else "web", "disk": {"free": at * 11}}
                 for at in range(2000)}}, indent=1,
)  # fmt: skip


def _where(text: str, *evidence: str) -> list[list[int]]:
    return [[start, start + len(each)] for each in evidence for start in [text.index(each)]]


def _member(key: str, name: str) -> list[int]:
    start = _JSON.index(f'"{name}"', _JSON.index(key))
    return [start, _JSON.index(",", start)]


def _tasks() -> list[dict[str, Any]]:
    """One of every kind of judgement. The wording is nobody's but ours."""
    line = _LOG.split("\n")[1234]
    return [
        _entry("log", "needle", "How long did request r01777 take?", "31.7", _where(_LOG, "id=r01777 took 31.7 ms")),
        _entry("log", "latest", "When was the last cache flush?", "12:49:10", _where(_LOG, "12:49:10 cache flush")),
        _entry("log", "earliest", "Which node did the first cache flush?", "n1", _where(_LOG, "shard s1000 by node n1")),
        _entry("log", "around-anchor", f'Which line follows "{line}"?', "?", _where(_LOG, _LOG.split("\n")[1235])),
        _entry("log", "count", "How many cache flushes were there?", "40",
               _where(_LOG, *(f"cache flush of shard s{at}" for at in range(1000, 3000, 50)))),
        _entry("log", "absent", "Was there an OUT-OF-MEMORY KILL?", "NOT FOUND", [], require="whole",
               verify="0 occurrences (case-insensitive) of OUT-OF-MEMORY KILL"),
        _entry("json", "json-path", "role of the server host-1500.example?", "web", [_member("host-1500.example", "role")]),
    ]  # fmt: skip


def _entry(
    output: str, kind: str, asked: str, gold: str, where: list[list[int]], *, require: str = "all", verify: str = ""
) -> dict[str, Any]:
    return {
        "id": f"{output}-{kind}", "artifact": output, "type": kind, "question": asked, "gold": gold, "where": where,
        "evidence_max": where[-1][1] if where else None, "require": require, "verify_a": verify,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.txt").write_text(_LOG, "utf-8")
    (tmp_path / "hosts.json").write_text(_JSON, "utf-8")
    manifest = [
        {"id": "log", "file": "log.txt", "tool": "serve"},
        {"id": "json", "file": "hosts.json", "tool": "hosts"},
    ]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in _tasks()), "utf-8")
    return tmp_path


def test_the_notice_and_three_calls_show_what_both_ends_do_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["answers", "--tasks", str(folder), "--out", str(folder / "out")]) == 0
    written = json.loads((folder / "out" / "answers.json").read_text("utf-8"))
    seen = {task["task"]: task["seen"] for task in written["tasks"]}
    assert {task: by[SEARCHED] for task, by in seen.items()} == {
        "log-needle": "bytes",
        "log-latest": "bytes",
        "log-earliest": "bytes",
        "log-around-anchor": "bytes",
        "log-count": "computed",
        "log-absent": "computed",
        "json-json-path": "bytes",
    }
    assert [task for task, by in seen.items() if by["head + tail of 25k tokens"]] == []
    assert all(task["tokens"][SEARCHED] <= 2500 and len(task["calls"]) <= MAX_CALLS for task in written["tasks"])
    assert set(written["aims"].values()) == {True}
    assert ElementTree.fromstring((folder / "out" / "answers.svg").read_text("utf-8")).tag.endswith("svg")
    *table, bound = capsys.readouterr().out.splitlines()
    assert len(table) == 1 + len(STRATEGIES)
    assert bound.endswith("tuned on these 7 questions; `--tasks further` measures it on others.")


def test_a_missed_aim_is_named_and_the_exit_code_tells_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Questions that name nothing of what they ask for: no search can help."""
    for task in (tasks := [json.loads(line) for line in (folder / "tasks.jsonl").read_text("utf-8").splitlines()]):
        task["question"] = "Which?"
    (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)), "utf-8")
    assert program.main(["answers", "--tasks", str(folder), "--out", str(folder / "out")]) == 1
    error = capsys.readouterr().err
    assert "FAILED notice and calls show at least 80% of what is looked up" in error
    assert "missed: log-needle (needle)" in error


def test_the_further_questions_are_made_once_and_told_beside_the_tuned_ones(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def make(there: Path, _: object) -> None:
        made.append(there)
        shutil.copytree(folder, there, ignore=shutil.ignore_patterns("made"))
        lines = (there / "tasks.jsonl").read_text("utf-8").splitlines()[:2]
        asked = json.loads(lines[1]) | {"question": "Which?"}
        (there / "tasks.jsonl").write_text(f"{lines[0]}\n{json.dumps(asked)}\n", "utf-8")

    monkeypatch.setattr(command, "FURTHER", folder / "made" / "further")
    monkeypatch.setattr(command.make, "make", make)
    for _ in range(2):
        assert program.main(["answers", "--tasks", "further", "--out", str(folder / "out")]) == 0  # a miss is a finding
    assert made == [folder / "made" / "further"]
    assert "the searcher is not tuned on these questions" in capsys.readouterr().out
    assert program.main(["answers", "--tasks", str(folder), "--out", str(folder / "out")]) == 0
    assert "tuned on these 7 questions: on 2 further ones it shows 1 for " in capsys.readouterr().out


def test_without_outputs_it_says_so_and_fails_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["answers", "--tasks", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "bench: answers skipped: no outputs with questions there (manifest.json and tasks.jsonl are missing). "
        "They lie in ../shared/bench; --tasks DIR names another folder.\n"
    )


# ── The searcher ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_read_by_its_words() -> None:
    asked = question.read('Which port did "sshd" of host db-1.example open at index 7 (ms), FATAL ERROR?')
    assert (asked.quoted, asked.strong, asked.index, asked.unit) == (
        ("sshd",),
        ("db-1.example", "FATAL ERROR"),
        7,
        "ms",
    )
    assert asked.others == ("db-1.example", "FATAL ERROR", "port", "host", "open")
    wishes = {
        "How many rows?": "count",
        "How many ms did it take?": "find",
        "The last login?": "latest",
        "Which name is most frequent?": "frequent",
        "What comes right after x?": "around",
    }
    assert {text: question.read(text).wish for text in wishes} == wishes


_NOTICE = """\
fetch returned 9 bytes · 9 lines · 9 tokens (json)
handle: k3f9

<000000>
{meta: {page, … +2 keys}, items: [1,200 × {id: str "a, b", tags?: [0–3 × str]}], by_name: {90 keys like "x/y"}}
$.by_name.*: {get?|put?: {owner, size?: int 0…1,024}, note: str}
</000000>
Next: …"""


def test_the_shape_in_a_notice_gives_the_way_to_a_value() -> None:
    shape = outline.read(_NOTICE)
    assert shape.handle == "k3f9"
    spelled = [".".join(path) for path in shape.paths]
    assert {"meta.page", "items.[*].id", "items.[*].tags.[*]", "by_name.*.put.size", "by_name.*.note"} <= set(spelled)
    assert paths.to_value(question.read("owner of GET a/b?"), shape) == "$.by_name['a/b'].get.owner"
    assert paths.to_value(question.read("id of the one at index 4?"), shape) == "$.items[4].id"
    assert paths.container(question.read("How many items?"), shape) == "$.items"


def test_columns_in_a_notice_give_the_sql() -> None:
    shape = outline.read(
        "x (csv). \nhandle: h\n<000000>\nname: str, all distinct\nage: int 1…9\n30 columns d1 … d30: int 0…9\n</000000>"
    )
    assert sql.rows(question.read("What d17 has Ann Lee?"), shape) == (
        """select "name", "d17" from t where regexp_matches(concat_ws(' ', "name"), '(?:\\bAnn\\b|\\bLee\\b)', 'i') """
        """order by len(regexp_replace(concat_ws(' ', "name"), '(?:\\bAnn\\b|\\bLee\\b)', '', 'gi'))"""
    )


def test_it_calls_three_times_at_most_and_sees_nothing_but_answers() -> None:
    calls: list[str] = []

    async def ask(tool: str, arguments: dict[str, object]) -> Reply:
        calls.append(tool)
        assert arguments["handle"] == "k3f9"
        return Reply(tool, arguments, "k3f9 · 0 matches in 9 lines, 9 bytes · seen so far: 0 %")

    replies = asyncio.run(search("owner of GET a/b in the last item?", _NOTICE, ask))
    assert [reply.tool for reply in replies] == calls == ["context_query", "context_grep", "context_query"]


# ── The page ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_gets_the_tables_and_keeps_its_text(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("Before.\n<!-- answers: begin -->\nstale\n<!-- answers: end -->\nAfter.\n", encoding="utf-8")
    seen = [Seen("t", "needle", name, "bytes" if name == SEARCHED else "", 700) for name in STRATEGIES]
    report.publish(Outcome(seen, {"o": 400}, 1.0), tmp_path)
    text = page.read_text("utf-8")
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "stale" not in text
    assert f"| {SEARCHED} | 100.0% | 700 | 100.0% | 700 | 700 |" in text
    assert "Tokens of each notice: o 400; on average 400." in text
    assert (tmp_path / "benchmarks" / "answers.svg").exists()


def test_the_page_of_the_repository_has_a_place_for_the_tables() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    for mark in ("answers", "answers-further", "answers-models"):
        assert page.count(f"<!-- {mark}: begin -->") == page.count(f"<!-- {mark}: end -->") == 1


def test_no_task_stands_in_the_code() -> None:
    """Its words would be: what is quoted in a question, and the longer names in it."""
    if not TASKS.exists():
        pytest.skip("needs the real outputs in ../shared/bench, which are not there")
    asked = [question.read(task.question) for task in load(TASKS).tasks]
    keys = {key for one in asked for key in (*one.quoted, *one.strong) if len(key) > 3}
    code = "\n".join(file.read_text("utf-8") for file in (ROOT / "bench" / "answers").glob("*.py"))
    assert [key for key in sorted(keys) if key in code] == []


def test_a_share_of_the_real_tasks_is_seen(tmp_path: Path) -> None:
    if not TASKS.exists():
        pytest.skip("needs the real outputs in ../shared/bench, which are not there")
    every = load(TASKS)
    some = [task for task in every.tasks if task.is_lookup][::3]
    outcome = asyncio.run(measure(_of(every, some), tmp_path, lambda _: None))
    searched, alone = outcome.line(SEARCHED, LOOKUPS), outcome.line(NOTICE, LOOKUPS)
    assert searched.tasks == len(some) > 15
    assert searched.share >= 0.8
    assert searched.most_tokens <= 2500
    assert alone.most_tokens <= 250
    assert outcome.line("head + tail of 25k tokens", LOOKUPS).share <= 0.5


def _of(collection: Collection, tasks: list[Task]) -> Collection:
    outputs: dict[str, Output] = {task.output: collection.outputs[task.output] for task in tasks}
    return Collection(outputs, tuple(tasks))
