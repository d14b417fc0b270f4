"""Standard streams that are closed, full, or ended by a signal: nothing is lost, and nothing half looks whole."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdall.cli import keep, streams
from holdall.cli.options import Options
from tests.cli.program import PROGRAM, Program, in_a_shell, started_as, until
from tests.requirements import requirement

LINES = b"".join(b"line %d\n" % number for number in range(200))
FULL = "holdall: standard output cannot be written: No space left on device."


def _shell(holdall: Program, script: str) -> "subprocess.CompletedProcess[str]":
    """`holdall` in the script is the program: the installed one where it gets no stream that a fork could be given."""
    program = PROGRAM if "&-" in script else in_a_shell()
    words = ["bash", "-c", f'holdall() {{ {program} "$@"; }}; {script}']
    return subprocess.run(words, env=holdall.environment(), capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_put_that_is_ended_by_a_signal_ends_at_once_and_keeps_what_came_as_not_whole(
    holdall: Program, number: signal.Signals
) -> None:
    putting = subprocess.Popen(
        started_as("put", "--tool", "part"),
        env=holdall.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert putting.stdin is not None
    assert putting.stdout is not None
    assert putting.stderr is not None
    putting.stdin.write(LINES)
    putting.stdin.flush()
    _once_it_reads(holdall)
    putting.send_signal(number)
    assert putting.wait(timeout=100) == 128 + number  # its input is still open
    told = putting.stderr.read().decode()
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert told == (
        f"interrupted · what had come is kept as {facts['handle']} ({facts['state']}) · {len(LINES):,} bytes, 200 lines\n"
    )
    assert putting.stdout.read() == b""
    assert facts["state"] == "cancelled"
    counted = holdall("stats", "--json").json["counters"]
    assert (counted["kept"], counted["kept_for_people"], counted["kept_bytes"]) == (1, 1, len(LINES))
    assert holdall("cat", facts["handle"]).out == LINES
    for stream in (putting.stdin, putting.stdout, putting.stderr):
        stream.close()


def _once_it_reads(holdall: Program) -> None:
    """From then on what we have written stands in its pipe or is taken already, and signals are its own."""
    until(lambda: list(holdall.home.glob(f"session-*/.incoming-{'?' * 36}")))  # a UUID: the file of an output


def test_a_put_that_is_ended_by_a_signal_is_json_where_json_was_asked_for(holdall: Program) -> None:
    putting = subprocess.Popen(
        started_as("put", "--json"), env=holdall.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert putting.stdin is not None
    assert putting.stdout is not None
    putting.stdin.write(LINES)
    putting.stdin.flush()
    _once_it_reads(holdall)
    putting.send_signal(signal.SIGINT)
    assert putting.wait(timeout=100) == 130
    facts = json.loads(putting.stdout.read())["facts"]
    assert (facts["state"], facts["bytes"]) == ("cancelled", len(LINES))
    putting.stdin.close()
    putting.stdout.close()


def test_a_put_of_standard_input_among_files_is_ended_by_a_signal_with_what_came(
    holdall: Program, tmp_path: Path
) -> None:
    (tmp_path / "after").write_bytes(b"x\n")
    putting = subprocess.Popen(
        started_as("put", "-", str(tmp_path / "after")),
        env=holdall.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert putting.stdin is not None
    putting.stdin.write(LINES)
    putting.stdin.flush()
    _once_it_reads(holdall)
    putting.send_signal(signal.SIGINT)
    assert putting.wait(timeout=100) == 130  # its input is still open
    out, told = putting.communicate()
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert (facts["state"], facts["bytes"], out) == ("cancelled", len(LINES), b"")
    assert told.decode().startswith(f"interrupted · what had come is kept as {facts['handle']} (cancelled)")


@pytest.mark.parametrize("moment", ["read", "fsync"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_put_whose_input_ends_before_the_signal_that_ended_its_writer_is_not_taken_for_whole(
    holdall: Program,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    moment: str,
    number: signal.Signals,
) -> None:
    reading, writing = os.pipe()
    os.write(writing, LINES)
    os.close(writing)
    ended = list[int]()

    def read(descriptor: int, size: int, then: Callable[[int, int], bytes] = os.read) -> bytes:
        data = then(descriptor, size)
        if descriptor == reading and not data:
            ended.append(number)
            if moment == "read":
                os.kill(os.getpid(), number)
        return data

    def fsync(descriptor: int, then: Callable[[int], None] = os.fsync) -> None:
        if ended and moment == "fsync":
            os.kill(os.getpid(), ended.pop())
        then(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(streams, "STDIN", reading)
        patched.setattr(os, "read", read)
        patched.setattr(os, "fsync", fsync)
        code = asyncio.run(keep.put(Options(str(holdall.home)), None))
    os.close(reading)
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert (code, facts["state"], facts["bytes"]) == (128 + number, "cancelled", len(LINES))
    assert facts["error"] == "Interrupted: its writer may have been interrupted as well"
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"interrupted · what had come is kept as {facts['handle']} (cancelled) · {len(LINES):,} bytes, 200 lines"
    )


def test_an_import_from_standard_input_ends_with_the_first_signal(holdall: Program) -> None:
    importing = subprocess.Popen(
        started_as("import", "-"), env=holdall.environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(holdall.home.exists)
    importing.send_signal(signal.SIGINT)
    assert importing.wait(timeout=100) == 130
    assert importing.stdin is not None
    assert importing.stderr is not None
    assert importing.stderr.read() == b""
    importing.stdin.close()
    importing.stderr.close()


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_to_its_end_whichever_streams_are_closed(holdall: Program, closed: str) -> None:
    ran = _shell(holdall, f"holdall exec -- sh -c 'echo a; echo b; exit 4' {closed}")
    assert ran.returncode == 4
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert (facts["state"], facts["exit_code"]) == ("failed", 4)
    assert holdall("cat", facts["handle"]).out == b"a\nb\n"
    assert holdall("verify").code == 0  # and nothing was printed into a file of the store


def test_put_with_a_closed_standard_output_keeps_and_says_so(holdall: Program) -> None:
    ran = _shell(holdall, "echo hi | holdall put >&-")
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert (ran.returncode, ran.stderr) == (0, f"kept as {facts['handle']}\n")
    assert holdall("cat", facts["handle"]).out == b"hi\n"


@pytest.mark.in_full(one_in=3)
@requirement("cli:exit-3")
@pytest.mark.parametrize(
    "command", ["cat {}", "read {}", "tail {}", "grep {} h", "query {} 'select 1'", "show {}", "ls"]
)
def test_what_only_prints_says_that_standard_output_is_closed(holdall: Program, command: str) -> None:
    handle = holdall.put(b"hi\n")
    ran = _shell(holdall, f"holdall {command.format(handle)} >&-")
    assert (ran.returncode, ran.stderr) == (3, "holdall: standard output cannot be written: Bad file descriptor.\n")


@requirement("cli:export", "cli:exit-3")
def test_a_bundle_that_nobody_gets_is_not_said_to_be_written(holdall: Program) -> None:
    holdall.put(b"hi\n", "-s", "build")
    ran = _shell(holdall, "holdall export build -o - >&-")
    assert (ran.returncode, ran.stderr) == (3, "holdall: standard output cannot be written: Bad file descriptor.\n")


@pytest.mark.parametrize("command", ["put", "import -"])
def test_what_needs_standard_input_says_that_it_is_closed(holdall: Program, command: str) -> None:
    ran = _shell(holdall, f"holdall {command} <&-")
    assert ran.returncode == 2
    assert ran.stderr == f"holdall: {command} reads standard input, and that is closed: pipe something into it.\n"
    assert not holdall.home.exists()


@pytest.mark.in_full(one_in=3)
@requirement("cli:no-traceback", "cli:exit-3")
@pytest.mark.parametrize(
    "command", ["--help", "--version", "ls", "ls --sessions", "stats", "config show", "cat {}", "read {} --lines 1:", "ls --help"]
)  # fmt: skip
def test_a_full_standard_output_is_one_line_and_exit_code_three(holdall: Program, command: str) -> None:
    handle = holdall.put(b"x\n")
    ran = _shell(holdall, f"holdall {command.format(handle)} > /dev/full")
    assert (ran.returncode, ran.stderr) == (3, FULL + "\n")


@pytest.mark.in_full(one_in=3)
@requirement("cli:no-traceback", "cli:exit-3")
@pytest.mark.parametrize("command", ["put < {}", "put --json < {}", "exec -- cat {}", "exec --json -- sh -c 'cat {}; exit 4'"])  # fmt: skip
@pytest.mark.parametrize("data", [b"hi\n", LINES * 1000])
def test_what_is_kept_and_cannot_be_shown_is_named_by_its_handle(
    holdall: Program, tmp_path: Path, command: str, data: bytes
) -> None:
    (tmp_path / "data").write_bytes(data)
    ran = _shell(holdall, f"holdall {command.format(tmp_path / 'data')} > /dev/full")
    (facts,) = holdall("ls", "--json").json["outputs"]
    told = f"{FULL} The output is kept as {facts['handle']}."
    assert ran.returncode == 3
    if "--json" in command:
        assert json.loads(ran.stderr) == {"error": "StdoutError", "message": told.removeprefix("holdall: ")}
    else:
        assert ran.stderr == told + "\n"
    assert holdall("cat", facts["handle"]).out == data


def test_a_standard_error_that_is_full_changes_nothing(holdall: Program) -> None:
    assert _shell(holdall, "echo hi | holdall put 2> /dev/full").returncode == 0
    assert _shell(holdall, "holdall exec -- sh -c 'exit 4' 2> /dev/full").returncode == 4
    assert _shell(holdall, "holdall cat zzzz 2> /dev/full").returncode == 2


def test_a_command_whose_terminal_is_gone_is_still_kept_whole(holdall: Program) -> None:
    ours, theirs = os.openpty()
    running = subprocess.Popen(
        started_as("exec", "--", "sh", "-c", "echo first; read word; seq 1 1000"),
        env=holdall.environment({"TERM": "xterm"}), stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"first" not in seen:
        seen += os.read(ours, 1000)
    os.close(ours)
    running.communicate(b"go\n", timeout=60)
    assert running.returncode == 3
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert holdall("cat", facts["handle"]).out == b"first\n" + b"".join(b"%d\n" % n for n in range(1, 1001))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_is_said_is_there_at_once_buffered_or_not(tmp_path: Path, unbuffered: str) -> None:
    code = (
        "import sys, time; from holdall.cli import streams; streams.prepare();"
        "print('said', file=sys.stderr); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"said\n"  # before its input ends
        process.communicate()


@requirement("cli:no-traceback")
def test_what_the_streams_cannot_encode_is_printed_as_escapes(holdall: Program) -> None:
    env = {"PYTHONIOENCODING": "ascii"}
    put = holdall("put", "--tool", "ü → ✓", stdin=b"h\xc3\xa9llo\n", env=env)
    assert (put.code, put.out) == (0, b"h\xc3\xa9llo\n")  # content is as it was stored
    handle = put.err.split()[2]
    large = holdall("put", "--tool", "big", stdin="→ a row\n".encode() * 9000, env=env)
    assert b"\\u2192 a row" in large.out
    for arguments in (("ls",), ("ls", "--sort", "→"), ("grep", handle, "llo"), ("query", handle, "select * from t")):
        ran = holdall(*arguments, env=env)
        assert "Traceback" not in ran.err
        assert (ran.out.isascii(), ran.err.isascii()) == (True, True)
    shown = holdall("show", handle, "--json", env=env)
    assert shown.json["tool"] == "ü → ✓"
    assert shown.out.isascii()
