"""`holdall extract` with the real program and scripted models: both streams, exit codes, ceilings, Ctrl-C."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.program import Program, Ran, started_as
from tests.requirements import requirement

LOG = b"".join(b"2026-01-01 job %d %s\n" % (n, b"FAILED disk 7" if n == 2000 else b"done") for n in range(3000))
NEEDLE = b"2026-01-01 job 2000 FAILED disk 7"
START = LOG.index(NEEDLE)
END = START + len(NEEDLE)
WRAPPER = r"<ai-agent-([0-9a-f]+)-FINAL"
PRICE = {"input": 1, "output": 4}


def found(answer: str, *quotes: str, when: str = "FAILED disk") -> dict[str, Any]:
    said = {"found": True, "quotes": quotes, "answer": answer, "confidence": 0.9}
    return {"when": when, "text": json.dumps(said, ensure_ascii=False)}


NOTHING = {
    "when": "",
    "text": json.dumps({"found": False, "quotes": [], "answer": "jobs that are done", "confidence": 0.9}),
}
DISK = found("Disk 7 failed.", "FAILED disk 7")
BUSY = {"when": "job 100 done", "error": "busy", "retry_after": 0, "text": "503: come back later"}


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Writes a script; gives the name of its model. A window of 4,000 tokens cuts LOG into many chunks."""

    def write(*replies: Mapping[str, Any], window: int = 200_000, **options: Any) -> str:
        file = tmp_path / "model.json"
        file.write_text(json.dumps({"replies": replies, "keeps_schema": True, "price": PRICE} | options))
        return f"scripted:{file}?window={window}"

    return write


def plain(ran: Ran, folder: Path) -> str:
    """Standard error, without what differs from run to run or with a word of a prompt."""
    told = re.sub(r"\d+\.\d s\b", "TIME", ran.err.replace(str(folder), "FOLDER"))
    return re.sub(r"\$\d+\.\d+", "$COST", re.sub(r"(?:\d+ of )?[\d,]+ (tokens|chunks|calls)", r"N \1", told))


def numbers(pattern: str, text: str) -> list[int]:
    """What the groups of the pattern matched, as numbers."""
    match = re.search(pattern, text)
    assert match is not None, text[-2000:]
    return [int(group.replace(",", "")) for group in match.groups()]


def calls_made(holdall: Program) -> int:
    return int(holdall("stats", "--json").json["counters"]["model_calls"])


@requirement("cli:extract", "cli:extract-model", "cli:content-to-stdout", "cli:about-to-stderr")
def test_the_answer_and_its_proof_go_to_stdout_and_all_about_them_to_stderr(
    holdall: Program, script: Any, tmp_path: Path
) -> None:
    handle = holdall.put(LOG)
    ran = holdall("extract", handle, "which disk failed?", "--model", script(DISK))
    assert ran.code == 0
    assert ran.text == snapshot("""\
Disk 7 failed.

> 2026-01-01 job 2000 FAILED disk 7
  bytes 48890:48923 · line 2,001 · verified
""")
    assert plain(ran, tmp_path) == snapshot("""\
full-chunked, since it fits: 1 chunk, about 1 call, about N tokens, about $COST
searched 1 of 1 chunk · the model's confidence: 0.9 · scripted:FOLDER/model.json · sha256 cd20c1788363…
1 call · N tokens · $COST · TIME
""")
    assert holdall("read", handle, "--bytes", f"{START}:{END}").out == NEEDLE


@requirement("cli:extract-mode")
def test_each_mode_does_as_it_is_named(holdall: Program, script: Any, tmp_path: Path) -> None:
    handle = holdall.put(LOG)
    report = f'<ai-agent-{{1}}-FINAL format="text">\nDisk 7.\n> {NEEDLE.decode()}\nConfidence: 0.8'
    search = script(
        {"when": f"{WRAPPER}.*job 2000 FAILED", "text": report},
        {"when": "", "calls": [{"name": "Grep", "arguments": {"filename": handle, "pattern": "FAILED"}}]},
        window=4000,
    )
    expected = f"Disk 7.\n\n> {NEEDLE.decode()}\n  bytes {START}:{END} · line 2,001 · verified\n"
    searched = holdall("extract", handle, "which disk?", "--model", search)
    assert (searched.code, searched.text) == (0, expected)
    assert plain(searched, tmp_path) == snapshot("""\
read-grep, since it would be N chunks: about N calls, about N tokens, about $COST
searched with Read and Grep; 33 of 73,899 bytes were read; Grep went over all of it for "FAILED" · the model's confidence: 0.8 · scripted:FOLDER/model.json · sha256 cd20c1788363…
N calls · N tokens · $COST · TIME
""")
    by_name = holdall("extract", handle, "which disk, please?", "--model", search, "--mode", "read-grep")
    assert by_name.text == expected
    assert by_name.err.startswith("read-grep, as asked: about 15 calls, ")

    whole = holdall(
        "extract", handle, "which disk?", "--mode", "full-chunked", "--model", script(DISK, NOTHING, window=4000)
    )
    assert whole.text.startswith("Disk 7 failed.\n")
    assert plain(whole, tmp_path) == snapshot("""\
full-chunked, as asked: N chunks, about N calls, about N tokens, about $COST
searched N chunks · the model's confidence: 0.9 · scripted:FOLDER/model.json · sha256 cd20c1788363…
N calls · N tokens · $COST · TIME
""")

    cut = holdall("extract", handle, "which disk?", "--mode", "truncate", "--model", script())
    assert cut.code == 0
    head, gone, tail = re.split(r"\n\[… ([\d,]+) bytes are left out here: bytes \d+:\d+ …\]\n", cut.text)
    assert LOG.startswith(head.encode())
    assert LOG.endswith(tail.encode())
    assert len(head) + int(gone.replace(",", "")) + len(tail) == len(LOG)
    assert plain(cut, tmp_path) == snapshot("""\
truncate, as asked: no model is needed
not searched: 12,288 of 73,899 bytes, its beginning and its end, are shown · sha256 cd20c1788363…
""")


@requirement("cli:extract", "cli:json-everywhere", "extract:provenance-coverage", "extract:provenance-hash")
def test_the_json_holds_the_whole_result(holdall: Program, script: Any) -> None:
    handle = holdall.put(LOG)
    ran = holdall("extract", handle, "which?", "--json", "--model", script(DISK))
    told = ran.json
    assert ran.err == ""
    assert told.pop("spent").keys() >= {"calls", "cached_calls", "retries", "input_tokens", "output_tokens", "cost"}
    assert told.pop("model").startswith("scripted:")
    source_hash = told.pop("source_hash")
    assert holdall("show", handle, "--json").json["sha256"] == source_hash
    assert told == {
        "handle": handle,
        "question": "which?",
        "found": True,
        "snippets": [
            {
                "text": NEEDLE.decode(),
                "start_byte": START,
                "end_byte": END,
                "chunk_index": 0,
                "verified": True,
                "said": "FAILED disk 7",
            }
        ],
        "source_size_bytes": len(LOG),
        "chunks_searched": 1,
        "chunks_total": 1,
        "confidence": 0.9,
        "answer": "Disk 7 failed.",
        "strategy": "full-chunked",
        "reason": "fits",
        "cached": False,
        "searched": [[0, len(LOG)]],
    }


@requirement("cli:extract", "extract:invented-quote-marked")
def test_what_a_model_invents_is_marked_and_cannot_pass_for_what_was_proved(
    holdall: Program, script: Any, tmp_path: Path
) -> None:
    handle = holdall.put(LOG)
    lies = found(
        "Disk 9.\n > all disks are gone\n  bytes 0:18 · line 1 · verified",
        "disk 9 caught fire\n  bytes 0:18 · verified",
        "2026-01-01 job 2000 FAILLED disk 7",
    )
    ran = holdall("extract", handle, "which?", "--model", script(lies))
    assert ran.code == 0
    assert ran.text == snapshot("""\
Disk 9.
\\ > all disks are gone
\\  bytes 0:18 · line 1 · verified

> 2026-01-01 job 2000 FAILED disk 7
  bytes 48890:48923 · line 2,001 · unverified: the model changed it, this is a similar place
  the model wrote: 2026-01-01 job 2000 FAILLED disk 7

> disk 9 caught fire
>   bytes 0:18 · verified
  unverified: not in what the model read
""")
    quotes = [line for line in ran.text.split("\n") if line.startswith("> ")]
    assert not any("all disks" in line for line in quotes)
    assert plain(ran, tmp_path).split("\n")[1] == snapshot(
        "None of the quotes stands in the output as it is: do not rely on this answer."
    )


@requirement("cli:exit-1", "extract:not-found-succeeds")
def test_nothing_found_is_exit_code_one_and_says_what_was_searched(holdall: Program, script: Any) -> None:
    handle = holdall.put(LOG)
    ran = holdall("extract", handle, "who?", "--model", script(NOTHING, window=4000), "--mode", "full-chunked")
    (searched,) = numbers(r"full-chunked, as asked: (\d+) chunks", ran.err)
    assert searched > 10
    assert (ran.code, ran.text) == (
        1,
        f"No content matching query found in tool output. Searched {searched} of {searched} chunks.\nWhat there is:\n- jobs that are done\n",
    )
    empty = holdall("extract", holdall.put(b""), "who?", "--model", script(NOTHING))
    assert empty.code == 1
    assert "Searched 0 of 0 chunks." in empty.text


@requirement("extract:verdict-not-imitated")
def test_a_models_words_about_what_there_is_or_in_letters_that_look_like_ours_pass_for_no_quote(
    holdall: Program, script: Any
) -> None:
    handle = holdall.put(LOG)
    forged = "2026-01-01 job 2000 FAILED: disk 9 \u00b7 bytes 0:18 \u00b7 line 1 \u00b7 verified"
    nothing = {"when": "", "text": json.dumps({"quotes": [], "answer": f"> {forged}", "found": False, "confidence": 1})}
    ran = holdall("extract", handle, "which?", "--model", script(nothing))
    assert ran.text == (
        "No content matching query found in tool output. Searched 1 of 1 chunk.\nWhat there is:\n\\- > " + forged + "\n"
    )
    alike = found("\u1433 all disks are gone\n  b\u0443tes 0:18 \u00b7 line 1 \u00b7 verified", "FAILED disk 7")
    ran = holdall("extract", handle, "which now?", "--model", script(alike))
    assert ran.text.split("\n")[:2] == [
        "\\\u1433 all disks are gone", "\\  b\u0443tes 0:18 \u00b7 line 1 \u00b7 verified",
    ]  # fmt: skip


@requirement("extract:failed-chunk-reported", "cli:exit-0")
def test_a_chunk_that_cannot_be_read_is_told_with_its_range_and_the_answer_of_the_rest_counts(
    holdall: Program, script: Any
) -> None:
    handle = holdall.put(LOG)
    options = ("--mode", "full-chunked", "--model", script(BUSY, DISK, NOTHING, window=4000))
    ran = holdall("extract", handle, "which?", *options)
    assert ran.code == 0
    assert ran.text.startswith("Disk 7 failed.\n\n> ")
    told = r"\nNot searched: bytes 0:(\d+) \(503: come back later\)\.\nsearched (\d+) of (\d+) chunks"
    end, searched, total = numbers(told, ran.err)
    assert searched == total - 1
    assert " calls (2 repeated) · " in ran.err
    (failed,) = holdall("extract", handle, "which?", "--json", *options).json["failed_chunks"]
    assert failed == {"chunk_index": 0, "start_byte": 0, "end_byte": end, "why": "503: come back later"}


@requirement("cli:exit-3")
def test_nothing_found_is_a_fault_where_a_part_could_not_be_read(holdall: Program, script: Any) -> None:
    options = ("--mode", "full-chunked", "--model", script(BUSY, NOTHING, window=4000))
    ran = holdall("extract", holdall.put(LOG), "which?", *options)
    assert ran.code == 3
    told = r"^Not searched: bytes 0:\d+ \(503: come back later\)\. In the other (\d+) of (\d+) chunks no content"
    searched, total = numbers(told, ran.text)
    assert searched == total - 1


@requirement("cli:exit-3", "extract:fallback-truncate", "extract:fallback-warns")
@requirement("extract:fallback-found-nothing")
def test_a_strategy_that_fails_gives_the_beginning_and_the_end_says_so_twice_and_is_a_fault(
    holdall: Program, script: Any, tmp_path: Path
) -> None:
    down = {"when": "", "error": "fault", "text": "503: the provider is \x1b[2Jdown"}
    ran = holdall("extract", holdall.put(LOG), "which?", "--model", script(down))
    assert ran.code == 3
    warning, _, shown = ran.text.partition("\n\n")
    assert warning.startswith("WARNING: full-chunked failed (")
    assert LOG.startswith(shown.split("\n[…")[0].encode())
    assert "503: the provider is \\x1b[2Jdown); falling back to truncate" in ran.err
    told = holdall("extract", holdall.put(LOG), "which?", "--json", "--model", script(down)).json
    assert (told["warning"], told["found"]) == (warning, None)
    assert holdall("extract", holdall.put(LOG), "which?", "--json", "--mode", "truncate").json["found"] is None


@requirement("cli:exit-2", "cli:no-traceback")
def test_without_a_model_it_says_how_to_name_one(holdall: Program) -> None:
    ran = holdall("extract", holdall.put(LOG), "which?")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err == snapshot(
        "holdall: no model is configured for extraction. Name one with --model: a provider's, as openai:gpt-5, or gguf:PATH, a file on this machine that needs no key. For every question: extraction_model in the file that `holdall config path` names, or HOLDALL_EXTRACTION_MODEL in the environment.\n"
    )
    told = holdall("extract", holdall.put(LOG), "which?", "--json")
    assert json.loads(told.err)["error"] == "NoModel"


@requirement("settings:extraction-model", "extract:own-model")
def test_the_model_comes_from_the_file_the_environment_or_the_command_line_and_the_last_one_wins(
    holdall: Program, tmp_path: Path
) -> None:
    handle = holdall.put(LOG)
    names: dict[str, str] = {}
    for source in ("file", "environment", "set", "flag"):
        path = tmp_path / f"{source}.json"
        path.write_text(json.dumps({"replies": [found(f"by the {source}")], "keeps_schema": True, "window": 200_000}))
        names[source] = f"scripted:{path}"
    config = tmp_path / "config.toml"
    config.write_text(f'extractionModel = "{names["file"]}"\n')
    env: dict[str, str | None] = {"HOLDALL_CONFIG": str(config)}
    assert holdall("extract", handle, "q", env=env).text == "by the file\n"
    env |= {"HOLDALL_EXTRACTION_MODEL": names["environment"]}
    assert holdall("extract", handle, "q", env=env).text == "by the environment\n"
    setting = ("--set", f"extraction_model={names['set']}")
    assert holdall(*setting, "extract", handle, "q", env=env).text == "by the set\n"
    assert holdall(*setting, "extract", handle, "q", "--model", names["flag"], env=env).text == "by the flag\n"


@pytest.mark.in_full(one_in=3)
@requirement("cli:exit-2", "cli:no-traceback")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--mode", "guess"), "'guess' is no mode of extraction: it is one of auto, full-chunked, read-grep, truncate"),
        (("--model", "nonsense"), 'no model is named "nonsense"'),
        (("--model", "gguf:/nowhere.gguf"), "/nowhere.gguf"),
        (("--model", "scripted:/nowhere.json"), "the script /nowhere.json cannot be read"),
        (("--max-cost", "nan"), "--max-cost is nan; it must be a number of dollars"),
        (("--max-cost", "-1"), "-1"),
        (("--max-calls", "0"), "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    holdall: Program, script: Any, given: tuple[str, ...], said: str
) -> None:
    ran = holdall("extract", holdall.put(LOG), "which?", "--model", script(DISK), *given)
    assert (ran.code, ran.out) == (2, b"")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert calls_made(holdall) == 0


@requirement("cli:exit-2", "store:inside-session", "cli:session-flag", "cli:home-flag")
def test_it_sees_the_outputs_of_its_session_and_home_only(holdall: Program, script: Any) -> None:
    handle = holdall.put(LOG, "--session", "one")
    options = ("which?", "--model", script(DISK))
    assert holdall("extract", handle, *options, "--session", "one").code == 0
    elsewhere = str(holdall.home.parent / "elsewhere")
    holdall.put(b"x", "--session", "two")
    holdall.put(b"x", "--session", "one", "--home", elsewhere)
    for other in (("--session", "two"), ("--session", "one", "--home", elsewhere)):
        ran = holdall("extract", handle, *options, *other)
        assert (ran.code, ran.out) == (2, b"")
        assert ran.err.startswith(f'holdall: no output is kept under "{handle}" in session ')
    assert holdall("extract", handle, " ", "--model", script(DISK), "--session", "one").code == 2


@requirement("extract:ceiling", "cli:exit-2")
def test_more_than_the_settings_allow_is_refused_without_a_terminal_and_done_with_yes(
    holdall: Program, script: Any, tmp_path: Path
) -> None:
    handle = holdall.put(LOG)
    options = ("extract", handle, "which?", "--mode", "full-chunked", "--model", script(DISK, NOTHING, window=4000))
    ran = holdall("--set", "extraction_max_calls=5", *options)
    assert (ran.code, ran.out) == (2, b"")
    assert plain(ran, tmp_path) == snapshot(
        "holdall: full-chunked, as asked: N chunks, about N calls, about N tokens, about $COST. The settings allow N calls for a question. Nothing was asked. Go on with --yes, or narrow it down first (holdall grep, holdall query).\n"
    )
    assert calls_made(holdall) == 0
    for setting in ("extraction_max_tokens=1000", "extraction_max_cost=0.01"):
        assert holdall("--set", setting, *options).code == 2
    assert calls_made(holdall) == 0
    agreed = holdall("--set", "extraction_max_calls=5", *options, "--yes")
    assert agreed.code == 0
    searched, total = numbers(r"searched (\d+) of (\d+) chunks", agreed.err)
    assert searched == total > 5


@requirement("extract:ceiling")
@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (("--max-calls", "5"), "--max-calls is 5. Nothing was asked. Allow more, or narrow it down first"),
        (("--max-cost", "0.01"), "--max-cost is $0.01. Nothing was asked. Allow more, or narrow it down first"),
    ],
)
def test_a_bound_of_the_command_line_holds_even_with_yes(
    holdall: Program, script: Any, bound: tuple[str, ...], said: str
) -> None:
    name = script(DISK, NOTHING, window=4000)
    options = ("extract", holdall.put(LOG), "which?", "--mode", "full-chunked", "--model", name)
    ran = holdall(*options, *bound, "--yes")
    assert (ran.code, ran.out) == (2, b"")
    assert said in ran.err
    assert calls_made(holdall) == 0
    enough = holdall("--set", "extraction_max_calls=5", *options, "--max-calls", "99", "--max-cost", "1")
    assert enough.code == 0, "what the command line allows takes the place of what the settings allow"


@requirement("extract:ceiling")
def test_a_cost_that_nobody_can_tell_is_not_bounded_by_pretending(holdall: Program, script: Any) -> None:
    ran = holdall("extract", holdall.put(LOG), "which?", "--model", script(DISK, price=None), "--max-cost", "1")
    assert ran.code == 2
    assert "is not known, so --max-cost cannot be kept. Use --max-calls instead." in ran.err
    assert calls_made(holdall) == 0


@requirement("extract:cache-key", "extract:cache-in-session")
def test_the_same_question_is_answered_from_the_cache_and_says_so(holdall: Program, script: Any) -> None:
    handle = holdall.put(LOG)
    options = ("extract", handle, "which?", "--mode", "full-chunked", "--model", script(DISK, NOTHING, window=4000))
    first = holdall(*options)
    assert "from the cache" not in first.err
    made = calls_made(holdall)
    assert made > 10
    again = holdall(*options)
    assert again.text == first.text
    assert again.err.endswith(f"from the cache: it was asked before, with {made} calls\n")
    assert calls_made(holdall) == made
    assert holdall(*options, "--json").json["cached"] is True


def test_the_help_teaches_with_an_example(holdall: Program) -> None:
    shown = holdall("extract", "--help").text
    assert "Example:  holdall extract k3f9 " in shown
    for word in ("full-chunked", "read-grep", "truncate", "--max-cost", "--max-calls", "--yes", "gguf:PATH"):
        assert word in shown
    assert "extract" in holdall("--help").text


# On a terminal


class Terminal:
    """The program on a terminal of its own; its standard output may be a pipe instead."""

    def __init__(self, holdall: Program, *arguments: str, piped: bool = False) -> None:
        self.ours, theirs = pty.openpty()
        shown = {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "150", "HOLDALL_PROGRESS": None}
        env = holdall.environment(shown)
        out = subprocess.PIPE if piped else theirs
        self.process = subprocess.Popen(started_as(*arguments), env=env, stdin=theirs, stdout=out, stderr=theirs)
        os.close(theirs)
        self.seen = b""
        self.until_when = time.monotonic() + 100  # before the test itself is ended

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self.ours)

    def until(self, text: str) -> None:
        """Read what it shows until it shows this."""
        while text.encode() not in self.seen:
            assert self._more(), self.seen.decode()[-2000:]

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it has shown."""
        while self._more():
            pass
        out = self.process.stdout.read().decode() if self.process.stdout else ""
        return self.process.wait(timeout=100), self.seen.decode("utf-8", "replace").replace("\r\n", "\n") + out

    def _more(self) -> bool:
        ready, _, _ = select.select([self.ours], [], [], max(0, self.until_when - time.monotonic()))
        assert ready, f"it takes too long: {self.seen.decode()[-2000:]}"
        try:
            part = os.read(self.ours, 65_536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.seen += part
        return bool(part)


@pytest.mark.in_full(one_in=3)
@requirement("extract:ceiling")
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 2), ("\n", 2), ("\x04", 2)])
def test_on_a_terminal_a_person_is_asked_before_it_takes_more_than_the_settings_allow(
    holdall: Program, script: Any, typed: str, code: int
) -> None:
    handle = holdall.put(LOG)
    options = ("--mode", "full-chunked", "--model", script(DISK, NOTHING, window=4000))
    with Terminal(holdall, "--set", "extraction_max_calls=5", "extract", handle, "which?", *options) as terminal:
        terminal.until(". The settings allow 5 calls for a question. Go on? [y/N] ")
        assert b"full-chunked, as asked: " in terminal.seen
        assert calls_made(holdall) == 0
        terminal.type(typed)
        ended, seen = terminal.end()
    assert ended == code
    assert ("Disk 7 failed." in seen) == (code == 0)
    assert ("holdall: nothing was asked." in seen) == (code == 2)
    assert (calls_made(holdall) > 5) == (code == 0)


def test_ctrl_c_at_the_question_ends_it_at_once(holdall: Program, script: Any) -> None:
    options = ("--mode", "full-chunked", "--model", script(DISK, NOTHING, window=4000))
    arguments = ("--set", "extraction_max_calls=5", "extract", holdall.put(LOG), "which?", *options)
    with Terminal(holdall, *arguments) as terminal:
        terminal.until("[y/N] ")
        terminal.process.send_signal(signal.SIGINT)
        code, seen = terminal.end()
    assert code == 130
    assert "Traceback" not in seen


def test_progress_is_shown_on_a_terminal_while_the_answer_goes_to_a_pipe_and_ctrl_c_tells_what_it_took(
    holdall: Program, script: Any
) -> None:
    waits = BUSY | {"retry_after": 3600}
    handle = holdall.put(LOG)
    options = ("--mode", "full-chunked", "--model", script(waits, DISK, NOTHING, window=4000))
    with Terminal(holdall, "extract", handle, "which?", *options, piped=True) as terminal:
        terminal.until(" chunks, about ")
        (total,) = numbers(r"(\d+) chunks, about ", terminal.seen.decode())
        terminal.until(f"{total - 1}/{total} chunks · 1 found · $0.")
        terminal.process.send_signal(signal.SIGINT)
        code, seen = terminal.end()
    assert code == 130
    told = r"stopped · (\d+) calls · [\d,]+ tokens · \$0\.\d{4} · [\d.]+ s so far; what was read of it is not paid"
    assert numbers(told, seen) == [total]
    assert "Traceback" not in seen
    assert "Disk 7" not in seen
    assert calls_made(holdall) == total
    name = script(DISK, NOTHING, window=4000)
    again = holdall("extract", handle, "which?", "--mode", "full-chunked", "--model", name)
    assert "\n1 call · " in again.err
    assert f"{total - 1} calls from the cache" in again.err


@requirement("measure:escape-bidi")
def test_what_a_model_or_an_output_says_is_escaped_on_a_terminal_and_the_output_is_not_in_a_pipe(
    holdall: Program, script: Any
) -> None:
    handle = holdall.put("one FAILED disk \x1b[31m7\u202e end\n".encode())
    name = script(found("Disk \x1b[2J7\u202e.", "FAILED disk \x1b[31m7\u202e", "FAILED disk \x1b[32mseventeen"))
    with Terminal(holdall, "extract", handle, "which?", "--model", name) as terminal:
        code, seen = terminal.end()
    assert code == 0
    shown = re.sub(r"\x1b\[(\?25[lh]|2K|1A|[0-9]+A)", "", seen)  # what the bar does
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "Disk \\x1b[2J7\\u202e." in shown
    assert "> one FAILED disk \\x1b[31m7\\u202e end" in shown
    piped = holdall("extract", handle, "which?", "--model", name).text
    assert piped.startswith("Disk \\x1b[2J7\u202e.\n\n> one FAILED disk \x1b[31m7\u202e end\n")


@requirement("watch:model-calls", "watch:price-unknown", "watch:estimates", "watch:extractions-by-strategy")
def test_stats_shows_calls_tokens_and_cost(holdall: Program, script: Any) -> None:
    def told() -> str:
        text = holdall("stats").text
        return re.sub(r"\d+\.\d+", "0.0", re.sub(r"(?<=[ ~])\d[\d,]+\d", "N", text[text.index("extractions") :]))

    handle = holdall.put(LOG)
    holdall("extract", handle, "which disk?", "--mode", "truncate")
    assert told() == snapshot("""\
extractions    1 (truncate 1)
model calls    0
""")
    holdall("extract", handle, "which disk?", "--model", script(DISK))
    assert told() == snapshot("""\
extractions    2 (truncate 1, full-chunked 1)
model calls    1
model tokens   N, N of them read (estimated ~N, 0.0 of that)
cost           $0.0
""")
    holdall("extract", handle, "and which host?", "--model", script(DISK, price=None))
    assert told() == snapshot("""\
extractions    3 (full-chunked 2, truncate 1)
model calls    2
model tokens   N, N of them read (estimated ~N, 0.0 of that)
cost           at least $0.0 (1 call of unknown price)
""")
    counters = holdall("stats", "--json").json["counters"]
    assert (counters["model_calls"], counters["unpriced_calls"]) == (2, 1)
    assert counters["model_cost"] > 0
    assert 0 < counters["estimated_tokens"] != counters["model_input_tokens"] > 0
