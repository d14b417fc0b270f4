"""put and exec, run for real."""

import asyncio
import base64
import hashlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdall import Holdall, Kept, Settings
from tests.cli.program import PROGRAM, Program, in_a_shell, started_as, until
from tests.faults.namespaces import way_in
from tests.requirements import requirement

FROM = r"From byte ([\d,]+) on, the output is"
ENDED = r"\. The command ended: exit code 6\."
LOG = b"".join(b"2026-01-01 00:00:00 INFO job %d done\n" % number for number in range(4_000))


@requirement("cli:put", "cli:put-tool", "cli:put-call-id", "cli:json-put", "store:command-line-stores-all")
def test_put_keeps_standard_input_and_tells_handle_facts_and_notice(holdall: Program) -> None:
    ran = holdall("put", "--tool", "fetch", "--call-id", "call_1", "--json", stdin=LOG)
    assert ran.code == 0
    told = ran.json
    assert {"handle", "facts", "notice"} <= set(told)
    assert told["facts"]["tool"] == "fetch"
    assert told["facts"]["sha256"] == hashlib.sha256(LOG).hexdigest()
    assert told["handle"] in told["notice"]
    assert holdall("cat", "call_1").out == LOG


@requirement("notice:calls-in-a-shell")
@pytest.mark.parametrize(
    "output",
    [
        LOG.replace(b"job 77 ", b"ERROR job's 77 $HOME "),
        json.dumps([{"it's": f"a's $(touch x) {n % 9}", "n": n} for n in range(3_000)]).encode(),
        b"<r>" + b"".join(b'<b type="T%d" a="\'"/>' % (n % 4) for n in range(3_000)) + b"</r>",
    ],
    ids=["log", "json", "xml"],
)
def test_the_next_calls_of_put_are_commands_that_run_as_they_are(holdall: Program, output: bytes) -> None:
    for options in ((), ("--session", "it's one")):
        told = holdall("put", *options, stdin=output).text
        commands = told.rstrip("\n").rpartition("\nNext: ")[2].split(" · ")
        assert 1 <= len(commands) <= 3
        for command in commands:
            name, *arguments = shlex.split(command)
            ran = holdall(*arguments)
            assert (name, ran.code) == ("holdall", 0), f"{command}: {ran.err}"
            assert ran.out


@requirement("cli:put-prints-notice", "notice:what-it-is", "notice:handle", "notice:how-to-go-on")
def test_put_of_a_large_output_prints_the_notice_on_standard_output(holdall: Program) -> None:
    ran = holdall("put", "--tool", "fetch_logs", stdin=LOG)
    lines = ran.text.split("\n")
    assert lines[0].startswith(f"fetch_logs returned {len(LOG):,} bytes · 4,000 lines · ")
    assert lines[0].endswith("tokens (log)")
    handle = lines[1].removeprefix("handle: ")
    assert holdall("cat", handle).out == LOG
    # The exact texts of notices are snapshots beside the code that words them.
    assert lines[-2].startswith(f"Next: holdall grep {handle} ")
    assert "4,000 × INFO job <n> done" in lines
    assert "2026-01-01 00:00:00 INFO job 3999 done" in ran.text
    assert "2026-01-01 00:00:00 INFO job 3999 done" in ran.text


def test_put_of_a_small_output_prints_it_as_it_is_and_still_keeps_it(holdall: Program) -> None:
    ran = holdall("put", stdin=b"hello\n")
    assert ran.out == b"hello\n"
    handle = ran.err.strip().removeprefix("kept as ")
    assert holdall("cat", handle).out == b"hello\n"


@requirement("cli:put-prints-notice", "settings:dialect")
@pytest.mark.parametrize(
    ("dialect", "first", "last"),
    [
        (
            "refs",
            "The output is too large to be shown here; all of it is kept.",
            "If you need more detail: first use `context.tail(refId, 200)`, or `context.grep(refId, 'Error|Exception', ...)`.",
        ),
        (
            "extract",
            "Tool output is too large (154890 bytes, 4000 lines, TOKENS tokens).",
            "Provide precise and detailed instructions in `extract` about what you are looking for.",
        ),
        ("clamp", "2026-01-01 00:00:00 INFO job 0 done", "[all of it is kept; handle: HANDLE]"),
        ("legacy", "2026-01-01 00:00:00 INFO job 0 done", "2026-01-01 00:00:00 INFO job 3999 done"),
    ],
    ids=["refs", "extract", "clamp", "legacy"],
)
def test_put_prints_what_a_model_sees_in_each_dialect(holdall: Program, dialect: str, first: str, last: str) -> None:
    ran = holdall("--set", f"dialect={dialect}", "put", "--tool", "logs", stdin=LOG)
    facts = holdall("ls", "--json").json["outputs"][0]
    lines = ran.text.replace(facts["handle"], "HANDLE").replace(str(facts["tokens"]), "TOKENS").splitlines()
    assert (lines[0], lines[-1]) == (first, last)
    assert holdall("cat", facts["handle"]).out == LOG  # what a command keeps does not go when the command ends
    assert ran.err == (f"kept as {facts['handle']}\n" if dialect in ("clamp", "legacy") else "")


@requirement("cli:put-prints-notice")
def test_what_put_clamps_is_what_take_clamps(holdall: Program) -> None:
    async def taken() -> str:
        async with Holdall.open(home=str(holdall.home), settings=Settings(dialect="clamp")) as bag:
            kept = await bag.take(LOG.decode())
            assert isinstance(kept, Kept)
            return str(kept.content).replace(kept.handle, "HANDLE")

    ran = holdall("--set", "dialect=clamp", "put", stdin=LOG)
    handle = ran.err.strip().removeprefix("kept as ")
    assert ran.text == asyncio.run(taken()).replace("HANDLE", handle) + "\n"


@requirement("settings:dialect")
def test_put_of_binary_data_says_so_where_a_dialect_shows_a_part(holdall: Program) -> None:
    ran = holdall("--set", "dialect=clamp", "put", stdin=b"\xff\xfe" * 100_000)
    handle = ran.err.strip().removeprefix("kept as ")
    assert ran.text == f"[binary data, 200,000 bytes: too large to show, kept; handle: {handle}]\n"


@requirement("watch:tokens-kept-out")
def test_what_put_shows_is_an_event(holdall: Program) -> None:
    told = holdall("put", "--tool", "t", "--call-id", "c1", "--json", stdin=LOG).json
    assert holdall("--set", "dialect=legacy", "put", stdin=b"small\n").out == b"small\n"
    (log,) = holdall.home.glob("session-*/events.ndjson")
    large, small = (json.loads(line) for line in log.read_bytes().splitlines())
    assert {name: large[name] for name in ("event", "handle", "tool", "call_id", "bytes", "tokens", "replaced")} == {
        "event": "kept", "handle": told["handle"], "tool": "t", "call_id": "c1", "bytes": len(LOG),
        "tokens": told["facts"]["tokens"], "replaced": True,
    }  # fmt: skip
    assert 0 < large["content_tokens"] <= 500
    assert (small["replaced"], small["content_tokens"], small["shown"]) == (False, 0, [[0, 6]])


@requirement("settings:per-tool-tables")
@pytest.mark.parametrize(
    "command", [("put", "--tool", "vault"), ("exec", "--tool", "vault", "--", "touch", "ran"), ("exec", "--", "vault")]
)
def test_what_is_never_to_be_stored_is_refused_before_it_is_read_or_run(
    holdall: Program, command: tuple[str, ...]
) -> None:
    ran = holdall("--set", "tools.vault.store=never", *command, stdin=b"a secret")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err == (
        'holdall: outputs of vault are never stored (tools.vault.store = "never"), and put and exec store all that they '
        "are given. Nothing was read or run.\n"
    )
    assert holdall("ls").code == 1


@requirement("settings:per-tool-tables")
@pytest.mark.parametrize(
    "command",
    [
        ("put", "--tool", "vault"), ("exec", "--tool", "vault", "--", "echo", "x"), ("put", "--kind", "nonsense"),
        ("exec", "--background", "--tool", "vault", "--", "echo", "x"), ("put", "/nowhere/vault", "/nowhere/x"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing_of_the_session(holdall: Program, command: tuple[str, ...]) -> None:
    settings = ("--set", "tools.vault.store=never", "--set", "retention=12h")
    assert holdall(*settings, *command, stdin=b"a secret").code == 2
    assert not holdall.home.exists()
    holdall.put(b"x\n")
    ran = holdall(*settings, *command, stdin=b"a secret")
    assert (ran.code, "retention" in ran.err) == (2, False)
    (session,) = holdall("ls", "--sessions", "--json").json["sessions"]
    assert session["retention"] == "30 days"


def test_put_of_nothing_is_kept_as_nothing(holdall: Program) -> None:
    handle = holdall.put(b"")
    assert holdall("cat", handle).out == b""


@requirement("store:source-pipe")
def test_put_reads_a_real_pipe_to_its_end(holdall: Program) -> None:
    put = in_a_shell("put", "--json")
    script = f"head -c 3000000 /dev/urandom | base64 -w0 | tee {holdall.home.parent}/sent | {put}"
    ran = subprocess.run(["bash", "-c", script], env=holdall.environment(), capture_output=True, check=True, timeout=60)
    handle = json.loads(ran.stdout)["handle"]
    assert holdall("cat", handle).out == (holdall.home.parent / "sent").read_bytes()


@requirement("cli:exec", "cli:exec-exit-code", "cli:double-dash")
@pytest.mark.parametrize("code", [0, 1, 7])
def test_exec_keeps_the_output_and_has_the_exit_code_of_the_command(holdall: Program, code: int) -> None:
    ran = holdall("exec", "--", "sh", "-c", f"echo --json; exit {code}")
    assert ran.code == code
    assert ran.out == b"--json\n" if code == 0 else b"--json" in ran.out
    assert holdall("ls", "--json").json["outputs"][0]["exit_code"] == code


@requirement("cli:exec-interleaved")
def test_exec_keeps_both_streams_in_the_order_in_which_they_came(holdall: Program) -> None:
    script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"
    told = holdall("exec", "--json", "--", "sh", "-c", script).json
    assert holdall("cat", told["handle"]).out == b"out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"
    assert told["facts"]["file"].startswith("terminal/")


@requirement("cli:exec-streams", "measure:escape-control")
def test_exec_shows_the_output_on_a_terminal_as_it_comes(holdall: Program) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        started_as("exec", "--", "sh", "-c", "echo visible; read word; printf 'red\\033[31m\\n'"),
        env=holdall.environment({"TERM": "xterm"}),
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    seen = b""
    while b"visible" not in seen:  # the command still waits: what we see was not held back until its end
        seen += os.read(ours, 1000)
    assert process.poll() is None
    _say(process)
    while b"red" not in seen:
        seen += os.read(ours, 1000)
    assert process.wait(timeout=100) == 0
    os.close(ours)
    assert b"red\\x1b[31m" in seen
    assert process.stdin is not None
    process.stdin.close()


@requirement("cli:exec-missing-command")
def test_exec_of_a_missing_command_says_its_name(holdall: Program) -> None:
    ran = holdall("exec", "--", "no-such-command-here")
    assert ran.code == 127
    assert ran.err == "holdall: cannot run 'no-such-command-here': there is no such command. Nothing was kept.\n"


@requirement("cli:exec-killed-command")
def test_exec_of_a_killed_command_keeps_what_it_wrote_and_names_the_signal(holdall: Program) -> None:
    ran = holdall("exec", "--json", "--", "sh", "-c", "echo before; kill -9 $$")
    assert ran.code == 128 + signal.SIGKILL
    facts = ran.json["facts"]
    assert (facts["state"], facts["error"], facts["exit_code"]) == ("failed", "killed by SIGKILL", 137)
    assert holdall("cat", ran.json["handle"]).out == b"before\n"


@requirement(
    "async:handle-from-the-start",
    "async:running-read",
    "async:running-tail",
    "async:running-grep",
    "store:running-record-first",
)
def test_while_exec_runs_its_output_can_be_read_tailed_and_searched(holdall: Program) -> None:
    with _slow(holdall) as (handle, running):
        read = holdall("read", handle, "--json").json
        assert read["text"] == "first\nsecond\n"
        assert read["state"] == "running"
        assert read["notes"] == ["still running; 13 bytes so far"]
        assert holdall("tail", "-n", "1", handle).out == b"second\n"
        assert holdall("grep", handle, "--count", "second").out == b"1\n"
        assert "running" in holdall("ls").text
        _say(running)
        assert running.wait(timeout=100) == 0
    assert holdall("cat", handle).out == b"first\nsecond\nlast\n"
    assert holdall("show", handle, "--json").json["state"] == "ready"


@requirement("cli:tail-f", "tail:follow", "async:same-handle-whole")
def test_tail_f_follows_another_process_to_its_end(holdall: Program) -> None:
    with _slow(holdall) as (handle, running):
        follow = subprocess.Popen(started_as("tail", "-f", handle), env=holdall.environment(), stdout=subprocess.PIPE)
        assert follow.stdout is not None
        assert follow.stdout.readline() == b"first\n"
        assert follow.stdout.readline() == b"second\n"
        _say(running)
        assert follow.stdout.read() == b"last\n"
        assert follow.wait(timeout=100) == 0
        follow.stdout.close()


@requirement("async:crash-interrupted", "async:never-run-twice")
def test_a_killed_exec_is_interrupted_and_keeps_what_had_been_written(holdall: Program) -> None:
    with _slow(holdall, [PROGRAM]) as (_, running):
        running.kill()
        running.wait(timeout=100)
    listed = holdall("ls", "--json").json["outputs"]
    assert [facts["state"] for facts in listed] == ["interrupted"]
    assert holdall("cat", listed[0]["handle"]).out == b"first\nsecond\n"
    assert len(holdall("ls", "--json").json["outputs"]) == 1
    counted = holdall("stats", "--json").json["counters"]
    assert [counted[name] for name in ("kept", "kept_for_people", "kept_bytes")] == [1, 1, len(b"first\nsecond\n")]


@pytest.mark.in_full(one_in=3)
@requirement("async:states", "cli:exec-killed-command")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_exec_that_is_asked_to_end_ends_its_command_and_keeps_what_it_wrote_as_cancelled(
    holdall: Program, number: signal.Signals
) -> None:
    """Ctrl-C reaches the command as well; the end of a terminal may reach the shell alone, or us."""
    with _slow(holdall, [PROGRAM], new_session=True) as (handle, running):
        (os.killpg if number == signal.SIGINT else os.kill)(running.pid, number)
        code = running.wait(timeout=100)
    facts = holdall("show", handle, "--json").json
    by = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
    assert (facts["state"], facts["error"]) == ("cancelled", f"it was asked to end (killed by {by.name})")
    assert (code, facts["exit_code"]) == (128 + by, 128 + by)
    assert holdall("cat", handle).out == b"first\nsecond\n"


@requirement("cli:exec-streams")
def test_exec_goes_on_behind_a_closed_terminal_with_nohup(holdall: Program) -> None:
    with _slow(holdall, ["nohup", PROGRAM]) as (handle, running):
        running.send_signal(signal.SIGHUP)
        _say(running)
        assert running.wait(timeout=100) == 0
    assert holdall("show", handle, "--json").json["state"] == "ready"


@requirement("cli:exec-streams")
def test_a_full_disk_names_the_handle_under_which_a_part_is_kept(holdall: Program, tmp_path: Path) -> None:
    way = way_in()
    if way is None:
        pytest.skip("no mount namespace is permitted here (Linux only)")
    (tmp_path / "big").write_bytes(os.urandom(6_000_000))
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=2m,mode=700 tmpfs "$1" && '
        '"$2" exec --home "$1" -- sh -c \'cat "$0"; exit 6\' "$3" > "$3.rest"; echo $?;'
        '"$2" ls --home "$1" --json; "$2" verify --home "$1"; echo $?'
    )
    words = [*way, "sh", "-c", script, "sh", str(disk), PROGRAM, str(tmp_path / "big")]
    ran = subprocess.run(words, env=holdall.environment(), capture_output=True, text=True, check=False, timeout=60)
    code, listed, verified = ran.stdout.splitlines()
    (facts,) = json.loads(listed)["outputs"]
    assert (code, facts["state"], verified) == ("3", "interrupted", "0")
    told, checked = ran.stderr.splitlines()
    assert told.startswith("holdall: no space left while ")
    begin = re.search(
        f" What had been written until then is kept as {facts['handle']}, which counts as interrupted. "
        r"From byte ([\d,]+) on, the output is the first ([\d,]+) bytes of standard output. The command ended: exit code 6. "
        r"What comes before it: holdall read (\w+) --bytes 0:(\d+).$",
        told,
    )
    assert begin
    assert (begin[3], begin[4]) == (facts["handle"], begin[1].replace(",", ""))
    assert int(begin[2].replace(",", "")) == (tmp_path / "big.rest").stat().st_size
    data, at = (tmp_path / "big").read_bytes(), int(begin[1].replace(",", ""))
    assert (tmp_path / "big.rest").read_bytes() == data[at:]
    assert hashlib.sha256(data[: facts["bytes"]]).hexdigest() == facts["sha256"]
    assert facts["bytes"] >= at > 0
    assert checked.endswith(" checked: every byte is as it came")


@requirement("cli:exec-streams")
@pytest.mark.parametrize("flags", [(), ("--background",)], ids=str)
def test_on_a_full_disk_no_command_is_started(holdall: Program, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """One that is ended halfway has done half of its work."""
    way = way_in()
    if way is None:
        pytest.skip("no mount namespace is permitted here (Linux only)")
    disk, began = tmp_path / "disk", tmp_path / "began"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=1m,mode=700 tmpfs "$1" && echo hi | "$2" put --home "$1" >/dev/null 2>&1;'
        'head -c 2000000 /dev/zero > "$1/filled" 2>/dev/null;'
        f'"$2" exec --home "$1" {" ".join(flags)} -- sh -c \'echo >> "$0"; sleep 1; echo >> "$0"\' "$3"; echo $?'
    )
    words = [*way, "sh", "-c", script, "sh", str(disk), PROGRAM, str(began)]
    ran = subprocess.run(words, env=holdall.environment(), capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.splitlines()[-1] == "3"
    assert "no space left" in ran.stderr
    assert not began.exists()


@contextmanager
def _slow(
    holdall: Program, program: Sequence[str] = (), *, new_session: bool = False
) -> Generator[tuple[str, "subprocess.Popen[bytes]"]]:
    """An `exec` that has written two lines, which are kept, and waits for a word on its standard input."""
    script = "echo first; echo second; read word; echo last"
    process = subprocess.Popen(
        [*(program or started_as()), "exec", "--", "sh", "-c", script],
        env=holdall.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=new_session,
    )
    try:
        yield _once_kept(holdall, b"first\nsecond\n"), process
    finally:
        process.kill()
        process.wait(timeout=100)
        assert process.stdin is not None
        process.stdin.close()


def _once_kept(holdall: Program, data: bytes) -> str:
    """The handle of the only output, as soon as it holds `data`. Each look is a process of its own."""
    until(lambda: list(holdall.home.glob("session-*/*.record")))
    (facts,) = holdall("ls", "--json").json["outputs"]
    handle = str(facts["handle"])
    until(lambda: holdall("cat", handle).out == data)
    return handle


def _say(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


def test_of_what_is_shown_as_it_is_nothing_says_that_it_is_too_large(holdall: Program) -> None:
    told = holdall("put", "--json", stdin=b"hello world\n").json
    assert told["inline"] is True
    assert told["notice"] == f"kept as {told['handle']}"


@requirement("dialect:refs-call-id")
def test_the_reference_to_the_output_of_a_command_has_an_id_that_leads_to_it(holdall: Program) -> None:
    refs = {"HOLDALL_DIALECT": "refs"}
    for given in ((), ("--call-id", "toolu_7")):
        told = holdall("exec", *given, "--", "seq", "5000", env=refs).text
        reference = json.loads(told.partition("ContextRef: ")[2].partition("\n")[0])
        call_id = reference["hint"]["toolCallId"]
        assert not given or call_id == "toolu_7"
        assert f"Tool: seq (toolCallId: {call_id})\n" in told
        assert holdall("show", "--json", call_id).json["handle"] == reference["id"]


@requirement("store:tool-redacts", "way:nothing-lost-silently")
def test_what_exec_cannot_keep_of_a_tool_with_redact_is_not_shown(holdall: Program) -> None:
    """It passed unmasked from the moment in which the store refused."""
    secret = "ghp_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
    code = f"print('x' * 3_000_000); print('GITHUB_TOKEN={secret}')"
    flags = ("--set", "session_quota_bytes=1000000", "--set", "tools.py.redact=true")
    ran = holdall(*flags, "exec", "--tool", "py", "--", sys.executable, "-c", code)
    assert ran.code == 3
    assert secret not in ran.text + ran.err
    assert "could not be kept, and are not shown: secrets of this tool are masked" in ran.err


@requirement("store:tool-redacts", "way:nothing-lost-silently")
@pytest.mark.parametrize("words", [("put", "sec.txt"), ("exec", "--tool", "sec.txt", "--", "cat", "sec.txt")])
def test_what_is_masked_in_a_small_output_is_said_beside_it(
    holdall: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sec.txt").write_text("GITHUB_TOKEN=ghp_Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5\n")
    ran = holdall("--set", "tools.sec.txt.redact=true", *words)
    assert ran.text == f"GITHUB_TOKEN={'*' * 40}\n"
    assert ran.err.rstrip().endswith(" · 1 secret is masked with * by the policy of its tool")


@requirement("cli:exec-streams", "way:nothing-lost-silently")
def test_what_exec_cannot_keep_is_on_standard_output_and_it_says_from_where(holdall: Program) -> None:
    whole = b"a" * 1000 + b"b" * 3_000_000
    code = "import os; os.write(1, b'a' * 1000); os.write(1, b'b' * 3_000_000); raise SystemExit(6)"
    ran = holdall("--set", "session_quota_bytes=1000000", "exec", "--", sys.executable, "-c", code)
    begin = re.search(f"{FROM} the first ([\\d,]+) bytes of standard output{ENDED}", ran.err)
    assert begin
    assert int(begin[2].replace(",", "")) == len(whole) - int(begin[1].replace(",", ""))
    assert ran.code == 3
    assert ran.out.startswith(whole[int(begin[1].replace(",", "")) :] + b"\n")


@requirement("cli:exec-streams", "cli:json-everywhere", "way:nothing-lost-silently")
@pytest.mark.parametrize("last", [b"b", b"bb", b"\xff\n\x00"])
def test_as_json_what_exec_cannot_keep_is_in_the_one_object(holdall: Program, last: bytes) -> None:
    whole = b"a" * 1000 + b"b" * 3_000_000 + last
    code = f"import os; os.write(1, b'a' * 1000); os.write(1, b'b' * 3_000_000 + {last!r}); raise SystemExit(6)"
    ran = holdall("--set", "session_quota_bytes=1000000", "exec", "--json", "--", sys.executable, "-c", code)
    told = json.loads(ran.err)
    begin = re.search(f"{FROM} in not_kept of the JSON{ENDED}", told["message"])
    assert begin
    assert (ran.code, told["error"]) == (3, "QuotaReached")
    rest = base64.b64decode(ran.json["not_kept"]["base64"])
    assert ran.json["not_kept"]["bytes"] == len(rest)
    assert rest == whole[int(begin[1].replace(",", "")) :]
    assert ran.json["facts"]["state"] == "interrupted"


@requirement("cli:exec-streams", "cli:exit-3", "way:nothing-lost-silently")
@pytest.mark.parametrize("flags", ["", "--json"])
@pytest.mark.parametrize(
    ("into", "why"),
    [("| head -c 1", "its reader has closed it."), ("> /dev/full", "standard output cannot be written: No space left on device.")],
)  # fmt: skip
def test_what_neither_the_store_nor_standard_output_takes_is_said_to_be_lost(
    holdall: Program, flags: str, into: str, why: str
) -> None:
    words = in_a_shell("--set", "session_quota_bytes=1000000", "exec")
    script = f"{{ {words} {flags} -- head -c 3000000 /dev/zero; echo $? >&2; }} {into}"
    ran = subprocess.run(["sh", "-c", script], env=holdall.environment(), capture_output=True, check=False, timeout=100)
    *_, told, code = ran.stderr.decode().splitlines()
    (facts,) = holdall("ls", "--json").json["outputs"]
    assert code == "3"
    assert re.search(
        rf"From byte [\d,]+ on, the output went to standard output instead, and {why} Of these [\d,]+ bytes, those that "
        rf"had not been taken are lost\. The command ended: exit code 0\. Of the output, the first {facts['bytes']:,} "
        rf"bytes are kept as {facts['handle']}, and no more\.",
        told,
    )


@requirement("cli:exec-exit-code")
def test_exec_has_the_exit_code_of_its_command_also_where_nobody_reads_on(holdall: Program) -> None:
    words = in_a_shell("exec", "--", "sh", "-c", "seq 100000; exit 5")
    ran = subprocess.run(
        ["sh", "-c", f"{{ {words}; echo $? >&2; }} | true"],
        env=holdall.environment(), capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    assert ran.stderr == b"5\n"
    assert holdall("ls", "--json").json["outputs"][0]["lines"] == 100_000


@requirement("cli:put")
def test_standard_input_is_kept_once_and_a_name_that_is_empty_is_shown(holdall: Program) -> None:
    ran = holdall("put", "-", "-", stdin=b"hi\n")
    assert (ran.code, ran.err) == (2, "holdall: standard input can be read once: name - once.\n")
    ran = holdall("put", "")
    assert ran.err == "holdall: '' cannot be read: No such file or directory. Nothing was kept of it.\n"
    assert not holdall.home.exists()


@requirement("cli:put", "cli:json-put")
def test_put_keeps_files_each_with_a_handle_and_one_that_cannot_be_read_costs_no_other(
    holdall: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    one, two, gone = folder / "one.csv", folder / "two.txt", folder / "gone"
    one.write_bytes(b"a;b\n1;2\n")
    two.write_bytes(b"second\n" * 20_000)
    ran = holdall("put", str(one), str(gone), str(two), str(folder))
    assert ran.code == 2
    assert ran.text.startswith("a;b\n1;2\ntwo.txt returned 140,000 bytes")
    newest, oldest = holdall("ls", "--json").json["outputs"]
    assert [(row["tool"], row["arguments"]) for row in (oldest, newest)] == [
        ("one.csv", {"file": str(one)}),
        ("two.txt", {"file": str(two)}),
    ]
    assert ran.err == (
        f"kept as {oldest['handle']} · {one}\n"
        f"holdall: {gone} cannot be read: No such file or directory. Nothing was kept of it.\n"
        f"holdall: {folder} is a folder, and put keeps files: name those in it, as {folder}/*.\n"
    )
    assert holdall("cat", newest["handle"]).out == two.read_bytes()
    told = holdall("put", "--json", "--kind", "log", str(one), str(gone), "-", stdin=b"x")
    assert told.code == 2
    first, missing, stdin = told.json["outputs"]
    assert (first["file"], first["facts"]["kind"], missing["error"]) == (str(one), "log", "WrongUse")
    assert holdall("cat", stdin["handle"]).out == b"x"
    assert holdall("put", "--json", str(one)).json["facts"]["tool"] == "one.csv"
    assert holdall("put", "--call-id", "c1", str(one), str(two)).code == 2


@requirement("cli:exec")
def test_a_kind_of_text_is_said_for_a_command_and_a_wrong_one_runs_nothing(holdall: Program, tmp_path: Path) -> None:
    told = holdall("exec", "--json", "--kind", "log", "--", "echo", "a,b").json
    assert told["facts"]["kind"] == "log"
    assert holdall("exec", "--kind", "nonsense", "--", "touch", str(tmp_path / "ran")).code == 2
    assert not (tmp_path / "ran").exists()
