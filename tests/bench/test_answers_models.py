"""A model answers the questions of the benchmark: a scripted one here, in the real loop; and the shell that one gets."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.answers import command, judge, models, shell
from bench.answers.models import ARMS, Answered, Way
from bench.answers.shell import SHOWN_BYTES, Shell
from bench.answers.tasks import Task
from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, ToolCall, Usage
from holdall.values.errors import ModelDenied, ModelOverflow

_LINES = [f"12:00:00 request id=r{at:05} took {at % 97} ms" for at in range(6000)]
_QUESTIONS = {1777: "31", 4242: "71", 5000: "53"}
_USED = Usage(100, 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = "\n".join(_LINES)
    (tmp_path / "log.txt").write_text(text, "utf-8")
    (tmp_path / "manifest.json").write_text(json.dumps([{"id": "log", "file": "log.txt", "tool": "serve"}]), "utf-8")
    tasks = [
        {
            "id": f"log-{at}", "artifact": "log", "type": "needle", "question": f"How many ms did r{at:05} take?",
            "gold": gold, "where": [[text.index(_LINES[at]), text.index(_LINES[at]) + len(_LINES[at])]],
            "require": "all", "verify_a": "",
        }
        for at, gold in _QUESTIONS.items()
    ]  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), "utf-8")
    return tmp_path


def _plays(request: Request) -> Reply:
    """Looks for what the question names, with the tool that it is given, and reports the figure that it finds."""
    said = "\n".join(message.text for message in request.messages)
    name = re.findall(r"did (r\d+) take", said)[0]
    tools = {tool.name for tool in request.tools}
    found = re.search(rf"{name} took (\d+) ms", said)
    if found or not tools:
        answer = f"{found[1]} ms" if found else "NOT FOUND"
        report = (ToolCall("r", "final_report", {"report": answer}),) if tools else ()
        return Reply("" if tools else answer, report, _USED)
    if "shell" in tools:
        path = re.findall(r"in the file (\S+)\. ", said)[0]
        return Reply("", (ToolCall("c", "shell", {"command": f"grep {name} {path}"}),), _USED)
    handle = re.findall(r"handle: (\w+)", said)[0]
    return Reply("", (ToolCall("c", "context_grep", {"handle": handle, "pattern": name}),), _USED)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Callable[[], ScriptedModel]:
    """The one that was asked last."""
    made: list[ScriptedModel] = []

    def named(_: str, **__: object) -> ScriptedModel:
        made.append(ScriptedModel(_plays, price=Price(1.0, 10.0)))
        return made[-1]

    monkeypatch.setattr(command, "model_named", named)
    return lambda: made[-1]


def _run(folder: Path, *options: str) -> int:
    return program.main(["answers", "--tasks", str(folder), "--out", str(folder / "out"), "--model", "m", *options])


def _results(folder: Path) -> list[Answered]:
    return models.all_results(folder / "out")


def _confinable(tmp_path: Path) -> bool:
    return not asyncio.run(shell.problem(tmp_path))


@pytest.mark.parametrize("arm", ARMS)
def test_each_way_answers_in_the_real_loop_and_every_token_counts(
    folder: Path, tmp_path: Path, model: Callable[[], ScriptedModel], arm: str
) -> None:
    if arm == "shell" and not _confinable(tmp_path):
        pytest.skip("needs namespaces, which this machine refuses")
    assert _run(folder, "--arm", arm) == 0
    answered = _results(folder)
    assert [one.task for one in answered] == ["log-1777", "log-4242", "log-5000"]
    assert [one.right for one in answered] == [arm != "head-tail"] * 3  # it is in the middle
    requests = 1 if arm == "head-tail" else 2
    assert [(one.requests, one.input_tokens, one.output_tokens) for one in answered] == [
        (requests, 100 * requests, 10 * requests)
    ] * 3
    assert len(model().requests) == 3 * requests
    assert [one.cost for one in answered] == [round(requests * 0.0002, 6)] * 3
    called = {"holdall": "context_grep", "shell": "shell", "head-tail": ""}[arm]
    assert all(called in " ".join(one.calls) for one in answered)


def test_what_is_answered_is_not_asked_again(folder: Path, model: Callable[[], ScriptedModel]) -> None:
    assert _run(folder, "--questions", "2") == 0
    assert [one.task for one in _results(folder)] == ["log-1777", "log-4242"]
    (file,) = (folder / "out").glob("*.jsonl")
    file.write_text(file.read_text("utf-8")[:-40], "utf-8")  # a killed run: half a line
    assert _run(folder) == 0
    assert [one.task for one in _results(folder)] == ["log-1777", "log-4242", "log-5000"]
    assert len(model().requests) == 4
    assert _run(folder) == 0
    assert model().requests == []


def test_a_forecast_over_the_ceiling_asks_nothing(
    folder: Path, model: Callable[[], ScriptedModel], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(folder, "--max-tokens", "1000") == 2
    assert "over the ceiling of 1,000: --max-tokens raises it" in capsys.readouterr().err
    assert _run(folder, "--max-cost", "0.001") == 2
    assert "over the ceiling of $0.00: --max-cost raises it" in capsys.readouterr().err
    assert model().requests == []
    assert _run(folder, "--forecast") == 0
    assert "3 questions, about" in capsys.readouterr().err
    assert model().requests == []


def test_no_request_goes_past_the_ceiling_and_the_run_goes_on_later(
    folder: Path,
    model: Callable[[], ScriptedModel],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "BY_RULE", dict.fromkeys(ARMS, (0, 0, 0, 1)))  # a forecast that was wrong
    monkeypatch.setattr(models, "MAX_REPLY", 20)

    def priced(_: Request) -> int:
        return 100

    monkeypatch.setattr(models, "request_tokens", priced)
    assert _run(folder, "--arm", "head-tail", "--max-tokens", "250") == 0
    assert "stopped at the ceiling: 220 tokens are used of 250" in capsys.readouterr().err
    assert len(_results(folder)) == 2
    assert _run(folder, "--arm", "head-tail", "--max-tokens", "250") == 0
    assert len(_results(folder)) == 3


def test_the_forecast_is_by_rule_and_then_by_what_was_used(folder: Path, model: Callable[[], ScriptedModel]) -> None:
    way = Way("m", "holdall", "x")
    assert models.forecast(way, 10, (), None).by == "by a rule of thumb"
    assert (
        models.forecast(Way("m", "holdall", "x", notice=900), 10, (), None).tokens
        > models.forecast(way, 10, (), None).tokens
    )
    _run(folder)
    expected = models.forecast(way, 10, _results(folder), Price(1.0, 10.0))
    assert (expected.tokens, expected.by) == (2200, "as the 3 answered before")
    assert expected.cost == pytest.approx(0.004)


def test_a_request_that_is_too_long_is_a_wrong_answer_and_any_other_fault_ends_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [ModelOverflow("too long"), Reply("31 ms", usage=_USED), ModelDenied("no such key")]

    def named(_: str, **__: object) -> ScriptedModel:
        return ScriptedModel(faults)

    monkeypatch.setattr(command, "model_named", named)
    assert _run(folder, "--arm", "head-tail") == 2
    assert "no such key" in capsys.readouterr().err
    assert [(one.task, one.right, one.why) for one in _results(folder)] == [
        ("log-1777", False, "too long"),
        ("log-4242", False, ""),
    ]


def test_the_longest_notice_can_be_chosen(folder: Path, model: Callable[[], ScriptedModel]) -> None:
    assert _run(folder, "--notice", "150", "--questions", "1") == 0
    short = len(model().requests[0].messages[1].text)
    assert _run(folder, "--notice", "450", "--questions", "1") == 0
    assert short < len(model().requests[0].messages[1].text)
    assert sorted(one.notice or 0 for one in _results(folder)) == [150, 450]


def test_a_shell_that_cannot_be_confined_runs_only_where_that_is_asked_for(
    folder: Path,
    model: Callable[[], ScriptedModel],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shell, "TOOLS", ("no-such-program",))
    assert _run(folder, "--arm", "shell") == 2
    assert "cannot be confined here: no-such-program of util-linux not installed" in capsys.readouterr().err
    assert _run(folder, "--arm", "shell", "--unconfined", "--questions", "1") == 0
    assert "WARNING: the shell is not confined" in capsys.readouterr().err
    assert [(one.right, one.confined) for one in _results(folder)] == [(True, False)]


def test_the_page_gets_a_row_for_each_run(
    folder: Path,
    model: Callable[[], ScriptedModel],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "docs").mkdir()
    page = folder / "docs" / "benchmarks.md"
    page.write_text("Before.\n<!-- answers-models: begin -->\nstale\n<!-- answers-models: end -->\n", "utf-8")
    monkeypatch.setattr(command, "ROOT", folder)
    assert _run(folder, "--arm", "head-tail") == 0
    assert _run(folder, "--publish") == 0
    assert f"| m | holdall | 3 of {folder.name} | 3 (100%) | 200 | 20 | 2.0 | $0.00 |" in page.read_text("utf-8")
    assert f"| m | head-tail | 3 of {folder.name} | 0 (0%) | 100 | 10 | 1.0 | $0.00 |" in page.read_text("utf-8")
    assert "stale" not in page.read_text("utf-8")


# ── What counts as right ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "gold", "text", "right"),
    [
        ("needle", "31.7", "It took 31.7 ms.", True),
        ("needle", "31.7", "131.7", False),
        ("needle", "31.7", "31.72 ms", False),
        ("needle", "root", "rooted", False),
        ("needle", ">=3.7", "Jinja2 requires >=3.7", True),
        ("needle", "b", "x " * 400 + "b", False),  # who goes on talking says everything in the end
        ("count", "1820", "There are 1,820 bugs.", True),
        ("count", "1820", "12, 15, 1820, 7 or 9", False),
        ("count", "1820", "about 1.820", False),
        ("absent", "NOT FOUND", "NOT FOUND", True),
        ("absent", "NOT FOUND", "It was killed at 12:00.", False),
    ],
)
def test_an_answer_states_what_is_right_or_not(kind: str, gold: str, text: str, right: bool) -> None:
    assert judge.answers(Task("t", "o", kind, "which of b?", (gold,), (), "all"), text) == right


def test_all_of_several_right_answers_are_stated() -> None:
    task = Task("t", "o", "multi-needle", "which?", ("a1", "b2"), (), "all")
    assert judge.answers(task, "b2 and a1")
    assert not judge.answers(task, "a1")


# ── The shell ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def confined(tmp_path: Path) -> Shell:
    if not _confinable(tmp_path):
        pytest.skip("needs namespaces, which this machine refuses")
    file = tmp_path / "output.txt"
    file.write_text("line\n" * 10_000, "utf-8")
    return Shell(tmp_path, file)


def test_a_confined_shell_reads_the_output_and_keeps_its_scratch_folder(confined: Shell) -> None:
    assert asyncio.run(confined.run("wc -l </output/output.txt >n; cat n")) == "10000"
    assert asyncio.run(confined.run("cat n; pwd")) == "10000\n/scratch"
    assert asyncio.run(confined.run("exit 3")) == "[exit code 3]"
    assert asyncio.run(confined.run("true")) == "[no output]"


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "command",
    [
        "echo x >/output/output.txt",
        "rm /output/output.txt",
        "touch /usr/x",
        "touch /x",
        "mount -o remount,rw /usr",
        "umount /output/output.txt",
        "cat /etc/passwd",
        "ls {folder}",
        "kill -9 {pid}",
        "chroot / true",
        "dd if=/dev/zero of=big bs=1M count=64 2>/dev/null",
    ],
)
def test_a_confined_shell_reaches_nothing_else(confined: Shell, command: str) -> None:
    said = asyncio.run(confined.run(command.format(folder=confined.folder, pid=os.getpid())))
    assert "[exit code" in said
    assert confined.file.stat().st_size == 50_000


def test_a_confined_shell_has_no_network_and_no_environment(confined: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "abc")
    assert "SECRET_KEY" not in asyncio.run(confined.run("env"))
    interfaces = asyncio.run(confined.run("tail -n +3 /proc/net/dev 2>/dev/null | wc -l"))
    assert int(interfaces) <= 1  # its own loopback, which is down


def test_what_a_shell_prints_and_how_long_it_runs_are_bounded(confined: Shell) -> None:
    said = asyncio.run(confined.run("cat /output/output.txt"))
    assert said.endswith(f"[{50_000 - SHOWN_BYTES:,} more bytes are not shown: narrow the command]")
    assert len(said) < SHOWN_BYTES + 100
    late = Shell(confined.folder, confined.file, seconds=0.5)
    assert asyncio.run(late.run("sleep 600 & sleep 600")) == "[stopped after 0.5 s]"


def test_a_full_scratch_folder_is_emptied(confined: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "SCRATCH_BYTES", 10)
    assert "was emptied" in asyncio.run(confined.run("seq 100 >f"))
    assert asyncio.run(confined.run("ls")) == "[no output]"
