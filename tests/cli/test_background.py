"""Commands that go on after their shell, with the real program: exec --background, wait, stop, tail -f. No sleeps."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from holdall import Holdall
from holdall.bag import waits
from tests.cli.program import Program, started_as, until
from tests.requirements import requirement


def _gate(folder: Path) -> Path:
    """A pipe with a name: whoever reads it waits until somebody writes."""
    gate = folder / "gate"
    os.mkfifo(gate)
    return gate


def _started(holdall: Program, script: str) -> str:
    ran = holdall("exec", "--background", "--json", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    assert ran.json["state"] == "running"
    return str(ran.json["handle"])


@requirement("cli:exec-background", "cli:wait", "async:wait-pattern", "cli:ls-running")
def test_a_command_in_the_background_outlives_its_shell_and_is_read_while_it_runs(
    holdall: Program, tmp_path: Path
) -> None:
    gate = _gate(tmp_path)
    handle = _started(holdall, f"echo first; cat {gate}; echo 'error: 7'; exit 3")
    seen = holdall("wait", handle, "--pattern", "fir.t")
    assert (seen.code, seen.err) == (0, f"{handle}: the pattern is there: holdall grep {handle} fir.t\n")
    assert f"holdall grep {handle} '(f|$HOME)ir'" in holdall("wait", handle, "--pattern", "(f|$HOME)ir").err
    assert holdall("tail", handle).text == "first\n"
    assert f"{handle}    sh    running" in holdall("ls").text
    assert f"\nprocess        {holdall('show', handle, '--json').json['process']}\n" in holdall("show", handle).text
    waiting = subprocess.Popen(started_as("wait", handle), env=holdall.environment(), stdout=subprocess.PIPE)
    following = subprocess.Popen(started_as("tail", "-f", handle), env=holdall.environment(), stdout=subprocess.PIPE)
    gate.write_text("from the gate\n")
    out, _ = waiting.communicate(timeout=60)
    assert out.decode().startswith(f"{handle} failed: exit code 3 · 29 bytes, 3 lines · ")
    shown, _ = following.communicate(timeout=60)
    assert shown == b"first\nfrom the gate\nerror: 7\n"
    assert holdall("cat", handle).out == shown
    assert holdall("wait", handle, "--pattern", "error: [0-9]").code == 0
    assert holdall("wait", handle, "--pattern", "never").code == 1


@requirement("cli:wait")
def test_a_wait_for_several_commands_ends_with_the_last_of_them(holdall: Program, tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    handles = [_started(holdall, script) for script in ("exit 3", f"cat {gate}; exit 4", "exit 0")]
    first, second, third = handles
    holdall("wait", first, third)
    left = holdall("wait", *handles, "--timeout", "0")
    assert (left.code, left.err) == (3, f"{second} still running; the time is over\n")
    assert [line[:4] for line in left.text.splitlines()] == [first, third]
    assert holdall("wait", third, second, "--timeout", "0").code == 1
    assert holdall("wait", *handles, "--timeout", "0", "--json").json["timed_out"] is True
    waiting = subprocess.Popen(
        started_as("wait", *handles, "--json"), env=holdall.environment(), stdout=subprocess.PIPE
    )
    gate.write_text("")
    out, _ = waiting.communicate(timeout=60)
    told = json.loads(out)
    assert (waiting.returncode, told["timed_out"]) == (4, False)
    assert [one["handle"] for one in told["ended"]] == handles
    assert holdall("wait", first, second, "--pattern", "x").code == 2


@requirement("cli:stop")
def test_stop_ends_a_command_with_all_that_it_started_and_keeps_what_it_wrote(holdall: Program, tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    handle = _started(holdall, f"echo begun; (cat {gate}; echo never) & wait")
    holdall("wait", handle, "--pattern", "begun")
    ran = holdall("stop", handle)
    assert ran.code == 0
    assert ran.text.startswith(f"{handle} cancelled: it was asked to end (killed by SIGTERM) · 6 bytes, 1 line ·")
    assert holdall("cat", handle).out == b"begun\n"
    again = holdall("stop", handle)
    assert again.code == 2
    assert "is not running: it is cancelled" in again.err


def test_a_process_of_another_machine_is_not_ended_here_whatever_its_number(
    holdall: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(process: int) -> str:
        return "another machine"

    monkeypatch.setattr(waits, "process_mark", elsewhere)
    innocent = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    async def begun() -> str:
        session = holdall("config", "show", "--json").json["session"]["value"]
        async with Holdall.open(home=str(holdall.home), session=session) as bag:
            writer = await bag.jobs.begin(tool="t", process=innocent.pid)
            ran = await asyncio.to_thread(holdall, "stop", writer.handle)
            await asyncio.to_thread(writer.finish)
            return ran.err

    try:
        assert f"process {innocent.pid} of another machine or container: end it there" in asyncio.run(begun())
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.communicate()


@requirement("async:crash-interrupted")
def test_a_keeper_that_is_killed_leaves_an_interrupted_output_with_every_byte(holdall: Program, tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    handle = _started(holdall, f"seq 1 5000; cat {gate}")
    holdall("wait", handle, "--pattern", "^5000$")
    keeper = holdall("show", handle, "--json").json["process"]
    os.kill(keeper, signal.SIGKILL)
    waited = holdall("wait", handle)
    assert waited.code == 3
    assert "3 where not all that it wrote is kept, or its writer was killed" in holdall("help", "exit-codes").text
    assert waited.text.startswith(
        f"{handle} interrupted: its writer ended before it did; what had been written is kept; "
        "its command may still run, or have done its work"
    )
    assert holdall("cat", handle).out == b"".join(b"%d\n" % n for n in range(1, 5001))
    counted = holdall("stats", "--json").json["counters"]
    assert (counted["kept"], counted["kept_for_people"], counted["background"]) == (1, 1, 1)
    descriptor = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)  # the command itself still waits there: let it go
    os.close(descriptor)


def test_what_cannot_be_started_is_told_at_once(holdall: Program) -> None:
    ran = holdall("exec", "--background", "--", "/nowhere/at/all")
    assert ran.code == 127
    assert "there is no such command" in ran.err
    assert holdall("ls").code == 1


@pytest.mark.parametrize("arguments", [("wait",), ("wait", "--pattern", "x"), ("wait", "zzzz"), ("stop", "zzzz")])
def test_a_wait_for_nothing_says_so(holdall: Program, arguments: tuple[str, ...]) -> None:
    ran = holdall(*arguments)
    assert ran.code in (1, 2)
    assert ran.err


@requirement("cli:wait")
def test_a_wait_that_is_over_its_time_says_so(holdall: Program, tmp_path: Path) -> None:
    handle = _started(holdall, f"cat {_gate(tmp_path)}")
    ran = holdall("wait", "--timeout", "0.05")
    assert (ran.code, ran.err) == (1, "still running; the time is over\n")
    assert holdall("stop", handle).code == 0


@requirement("cli:wait")
@pytest.mark.parametrize("as_json", [False, True])
def test_what_has_ended_between_two_waits_is_told_once(holdall: Program, tmp_path: Path, as_json: bool) -> None:
    def ended() -> tuple[int, list[str]]:
        ran = holdall("wait", *(["--json"] if as_json else []))
        told = [one["handle"] for one in ran.json["ended"]] if as_json else [one[:4] for one in ran.text.splitlines()]
        return ran.code, sorted(told)

    quick = [_started(holdall, f"exit {code}") for code in (0, 3)]
    until(lambda: not holdall("ls", "--state", "running", "--json").json["outputs"])
    named = _started(holdall, "true")
    assert holdall("wait", named).code == 0
    gate = _gate(tmp_path)
    slow = _started(holdall, f"cat {gate}")
    assert ended() == (3, sorted(quick)), "those that have ended, before what runs; not the one that was named"
    gate.write_text("go")
    assert ended() == (0, [slow])
    assert ended() == (1, [])


@requirement("cli:wait")
def test_what_was_told_is_not_told_again_once_another_output_is_removed(holdall: Program) -> None:
    old = _started(holdall, "exit 4")
    assert holdall("wait", old).code == 4
    assert holdall("rm", holdall.put(b"another\n")).code == 0
    new = _started(holdall, "sleep 0.3")
    waited = holdall("wait")
    assert (waited.code, old in waited.text, new in waited.text) == (0, False, True)


@requirement("cli:wait")
def test_the_bound_of_what_a_model_waits_is_not_a_persons(holdall: Program) -> None:
    handle = _started(holdall, "sleep 0.5; exit 5")
    ran = holdall("--set", "wait_max_seconds=0.01", "wait", handle)
    assert ran.code == 5


@requirement("cli:exec")
def test_the_limits_for_calls_of_a_model_are_not_those_of_a_command_and_its_help_says_so(holdall: Program) -> None:
    limits = ("--set", "tool_timeout_seconds=0.001", "--set", "max_background_calls=1")
    assert holdall(*limits, "exec", "--", "sh", "-c", "sleep 0.1; echo done").text == "done\n"
    told = " ".join(holdall("exec", "--help").text.split())
    assert "No setting limits its time: tool_timeout_seconds and max_background_calls are for calls of the" in told


@requirement("cli:json-everywhere")
def test_what_cannot_be_waited_for_or_started_is_json_where_json_was_asked_for(holdall: Program) -> None:
    nothing = holdall("wait", "--json")
    assert (nothing.code, nothing.err) == (1, "")
    assert nothing.json == {"ended": [], "matched": [], "timed_out": False}
    for flags in ((), ("--background",)):
        ran = holdall("exec", *flags, "--json", "--", "no-such-command-here")
        assert (ran.code, ran.out) == (127, b"")
        assert json.loads(ran.err) == {
            "error": "WrongUse",
            "message": "cannot run 'no-such-command-here': there is no such command. Nothing was kept.",
        }


@requirement("cli:json-everywhere")
def test_a_wait_that_is_over_its_time_is_json_where_json_was_asked_for(holdall: Program, tmp_path: Path) -> None:
    handle = _started(holdall, f"cat {_gate(tmp_path)}")
    ran = holdall("wait", "--timeout", "0.05", "--json")
    assert (ran.code, ran.err) == (1, "")
    assert ran.json == {"ended": [], "matched": [], "timed_out": True}
    assert holdall("stop", handle).code == 0


@requirement("cli:wait")
def test_a_wait_has_the_exit_code_of_what_it_waited_for(holdall: Program) -> None:
    handle = _started(holdall, "echo done; exit 7")
    assert holdall("wait", handle).code == 7
    assert holdall("wait", handle, "--json").code == 7
    assert holdall("wait", handle, "--pattern", "done").code == 0
    other = holdall("wait", handle, "--pattern", "other")
    assert (other.code, other.err) == (1, f"{handle}: it has ended, and no line matches 'other'\n")
    assert holdall("wait", _started(holdall, "true")).code == 0
    assert holdall("wait", handle, "--timeout", "0").code == 7
    assert holdall("wait", handle, "--pattern", "done", "--timeout", "0").code == 0


@requirement("cli:wait", "cli:exit-3")
@pytest.mark.parametrize("code", [0, 7])
def test_a_wait_for_a_command_whose_output_is_not_all_kept_ends_as_exec_does(holdall: Program, code: int) -> None:
    command = ("--", "sh", "-c", f"seq 1 1000; exit {code}")
    flags = ("--set", "session_quota_bytes=1000", "exec")
    handle = str(holdall(*flags, "--background", "--json", *command).json["handle"])
    ran = holdall("wait", handle)
    assert ran.code == holdall(*flags, *command).code == 3
    assert ran.text.startswith(f"{handle} interrupted: not all of it is kept: the quota of this session is 1.0 kB")


@requirement("cli:wait", "cli:rm")
def test_a_command_that_is_recommended_is_for_the_session_that_was_named(holdall: Program, tmp_path: Path) -> None:
    words = ("exec", "-s", "build", "--background", "--json", "--", "sh", "-c", f"echo one; cat {_gate(tmp_path)}")
    handle = str(holdall(*words).json["handle"])
    grep = f"{handle}: the pattern is there: holdall grep {handle} one --session build\n"
    assert holdall("wait", handle, "-s", "build", "--pattern", "one").err == grep
    refused = holdall("rm", handle, "-s", "build").err
    stop, wait = f"holdall stop {handle} --session build", f"holdall wait {handle} --session build"
    assert refused.endswith(f"End it first (`{stop}`) or wait for it (`{wait}`).\n")
    assert holdall("stop", handle, "-s", "build").code == 0
    assert holdall("cat", "zzzz", "-s", "build").err.endswith("(`holdall ls --session build` lists them.)\n")
    long = holdall.put(b"one line\n" * 20_000, "-s", "build")
    assert f" · next: holdall read {long} --lines " in (read := holdall("read", long, "-s", "build").err)
    assert read.endswith(": --session build\n")


def test_a_command_on_a_terminal_is_followed_in_the_session_that_was_named(holdall: Program) -> None:
    ours, theirs = os.openpty()
    words = started_as("exec", "-s", "build", "--", "true")
    env = holdall.environment({"NO_COLOR": "1"})
    ran = subprocess.run(words, env=env, stdout=theirs, stderr=theirs, check=False, timeout=60)
    (facts,) = holdall("ls", "-s", "build", "--json").json["outputs"]
    assert (ran.returncode, os.read(ours, 200).split(b"\r\n")[0].decode()) == (
        0, f"{facts['handle']} running: holdall tail -f {facts['handle']} --session build",
    )  # fmt: skip
    os.close(theirs)
    os.close(ours)


@requirement("cli:stats", "cli:exec-background")
def test_what_commands_in_the_background_and_on_a_terminal_kept_is_counted_and_in_the_tree(holdall: Program) -> None:
    def counters() -> dict[str, int]:
        return holdall("stats", "--json").json["counters"]

    ours, theirs = os.openpty()
    live = started_as("exec", "--", "echo", "one")
    env = holdall.environment({"NO_COLOR": "1"})
    subprocess.run(live, env=env, stdout=theirs, stderr=theirs, check=True, timeout=60)
    for descriptor in (theirs, ours):
        os.close(descriptor)
    holdall("exec", "--background", "--", "echo", "two")
    for_a_model = {"HOLDALL_READER": "model"}
    handle = holdall("exec", "-b", "--json", "--tool", "build", "--", "seq", "1000", env=for_a_model).json["handle"]
    until(lambda: counters()["kept"] == 3)
    counted = counters()
    assert (counted["kept_for_people"], counted["background"]) == (2, 2)
    assert counted["tokens_kept_out"] == holdall("show", handle, "--json").json["tokens"] > 500
    lines = holdall("show", "--tree", "cli").text.splitlines()
    assert [line.split(" · ")[0][3:] for line in lines[1:]] == ["tool echo", "tool echo", "tool build"]
    assert f"in the background, ready {handle}" in lines[-1]


@requirement("cli:stats", "cli:exec-background")
def test_a_command_in_the_background_that_writes_nothing_is_counted_as_kept_by_hand(holdall: Program) -> None:
    handle = holdall("exec", "--background", "--json", "--", "true").json["handle"]
    holdall("wait", handle)
    # Its record says that it is over a moment before its event does.
    until(lambda: holdall("stats", "--json").json["counters"]["kept"] == 1)
    told = holdall("stats").text
    assert "outputs kept   1\n" in told
    assert "by people      1 output kept by hand;" in told


def test_what_is_piped_to_a_command_in_the_background_is_said_not_to_be_passed_on(holdall: Program) -> None:
    told = "what is piped in is not passed on to a command in the background\n"
    assert told in holdall("exec", "--background", "--", "true", stdin=b"one\n").err
    assert told not in holdall("exec", "--background", "--", "true").err


def test_stop_ends_a_command_of_another_terminal_with_all_that_it_started(holdall: Program, tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    words = started_as("exec", "--", "sh", "-c", f"echo begun; cat {gate}; echo not reached")
    process = subprocess.Popen(words, env=holdall.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    found: list[str] = []

    def runs() -> bool:
        found[:] = [one["handle"] for one in holdall("ls", "--json").json["outputs"] if one["state"] == "running"]
        return bool(found)

    until(runs)
    assert holdall("wait", found[0], "--pattern", "begun").code == 0
    assert b"cancelled: it was asked to end" in holdall("stop", found[0]).out
    assert b"not reached" not in process.communicate(timeout=90)[0]
    with pytest.raises(OSError, match="No such device"):  # nobody reads it any more
        os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
