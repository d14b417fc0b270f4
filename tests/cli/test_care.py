"""gc, rm, verify, stats, doctor, start-up and completion, run for real."""

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdall import Holdall, Kept, Settings, ToolPolicy
from holdall.store.opening import open_store
from holdall.values.outputs import Origin
from tests.cli.program import PROGRAM, Program
from tests.packed import zipped
from tests.requirements import requirement

COMMANDS = [
    "put",
    "exec",
    "wait",
    "stop",
    "ls",
    "show",
    "cat",
    "read",
    "tail",
    "grep",
    "slice",
    "query",
    "extract",
    "run",
    "gc",
    "rm",
    "verify",
    "stats",
    "doctor",
    "demo",
    "config show",
]


@requirement("cli:gc", "store:gc-dry-run", "store:tombstone", "settings:retention")
def test_gc_removes_what_has_expired_and_a_dry_run_only_says_so(holdall: Program) -> None:
    handle = _put_for_no_time(holdall)
    dry = holdall("gc", "--dry-run")
    assert dry.text.startswith(f"{handle}  short  t  3 B")
    assert dry.err == "1 expired output, 0 left-over files: would free 3 B\n"
    assert holdall("cat", handle, "-s", "short").out == b"old"
    assert holdall("gc").err == "1 expired output, 0 left-over files: freed 3 B\n"
    gone = holdall("cat", handle, "-s", "short")
    assert gone.code == 3
    assert gone.err.startswith(f"holdall: output {handle} expired: its bytes were removed on 2")
    assert gone.err.endswith("(kept for 0 days).\n")
    assert holdall("ls", "-s", "short").text.split("\n")[1].split()[:3] == [handle, "t", "expired"]


def test_gc_removes_what_is_older_than_it_is_told_and_nothing_that_runs(holdall: Program) -> None:
    old = holdall.put(b"ab", "-s", "a")
    other = holdall.put(b"cde", "-s", "b")
    with closing(open_store(str(holdall.home))) as store:
        session = store.find_session("a")
        assert session is not None
        writer = store.begin(session, Origin(tool="slow"))
        dry = holdall("gc", "--older-than", "0s", "--dry-run")
        assert dry.err == "2 expired outputs, 0 left-over files: would free 5 B\n"
        one = holdall("gc", "--older-than", "0s", "-s", "a")
        assert one.err == "1 expired output, 0 left-over files: freed 2 B\n"
        assert holdall("gc", "--older-than", "1w").err == "0 expired outputs, 0 left-over files: freed 0 B\n"
        assert holdall("cat", other, "-s", "b").out == b"cde"
        assert holdall("cat", old, "-s", "a").err.endswith("(older than 0 seconds).\n")
        assert writer.finish().state == "ready"
    wrong = holdall("gc", "--older-than", "7")
    assert wrong.code == 2
    assert "such as 12h or 7d" in wrong.err


def test_ls_lists_the_newest_first_and_sorts_filters_and_limits(holdall: Program) -> None:
    small, large = holdall.put(b"1\n2\n", "--tool", "git"), holdall.put(b"x" * 999, "--tool", "curl")

    def handles(*flags: str) -> list[str]:
        return [line.split()[0] for line in holdall("ls", *flags).text.splitlines()[1:]]

    assert handles() == [large, small]
    assert handles("-r") == [small, large]
    assert handles("--sort", "lines") == [small, large]
    assert handles("--sort", "size") == [large, small]
    assert handles("--tool", "g*") == [small]
    assert handles("--state", "kept", "-n", "1") == [large]
    assert holdall("ls", "-n", "1").err == "1 of 2 outputs; all of them without --limit\n"
    assert (missing := holdall("ls", "--kind", "csv")).code == 1
    assert missing.err == "none of the 2 outputs is of kind csv\n"
    assert holdall("ls", "--sort", "colour").code == 2
    unknown = holdall("ls", "--state", "stopped")
    assert unknown.code == 2
    assert unknown.err == (
        "holdall: --state takes kept, removed, queued, running, ready, failed, cancelled, timed out, interrupted, "
        "expired, unreadable, not 'stopped'.\n"
    )


def test_the_list_of_sessions_tells_what_takes_room_and_counts_what_is_kept(holdall: Program) -> None:
    holdall.put(b"x" * 4000, "-s", "large")
    for _ in range(2):  # the same bytes are kept once
        holdall.put(b"y" * 3000, "-s", "twice")
    gone = holdall.put(b"z" * 9000, "-s", "small")
    holdall("rm", gone, "-s", "small")
    names, *lines = holdall("ls", "--sessions", "--sort", "size").text.splitlines()
    assert names.split() == ["SESSION", "RETENTION", "OUTPUTS", "TAKES", "AGE"]
    listed = [line.split()[0:1] + line.split()[3:6] for line in lines]
    assert listed == [["large", "1", "4.0", "kB"], ["twice", "2", "3.0", "kB"], ["small", "none", "left", "0"]]
    told = holdall("--set", "retention=1 hour", "put", "-s", "large", stdin=b"a") and holdall(
        "ls", "--sessions", "--json"
    )
    assert [(one["name"], one["kept"], one["bytes"], one["retention"]) for one in told.json["sessions"]] == [
        ("small", 0, 0, "30 days"), ("twice", 2, 3000, "30 days"), ("large", 2, 4001, "1 hour"),
    ]  # fmt: skip


def test_ls_and_show_say_how_much_a_running_output_has_so_far(holdall: Program) -> None:
    holdall.put(b"a")
    with closing(open_store(str(holdall.home))) as store:
        session = store.find_session("cli")
        assert session is not None
        writer = store.begin(session, Origin(tool="slow"))
        writer.write(b"one\ntwo\n")
        listed = holdall("ls", "--state", "running")
        assert listed.text.splitlines()[1].split()[4:7] == ["-", "8", "B"]
        assert holdall("show", writer.handle, "--json").json["so_far"] == {"bytes": 8, "lines": 2}
        shown = [line.split(None, 1) for line in holdall("show", writer.handle).text.splitlines()]
        assert [line for line in shown if line[0] in ("bytes", "lines", "so_far")] == [
            ["bytes", "8 so far"],
            ["lines", "2 so far"],
        ]
        assert holdall("ls", "--json").json["outputs"][0]["so_far"] == {"bytes": 8, "lines": 2}
        writer.finish()


@requirement("store:retention-not-by-commands", "way:nothing-lost-silently")
def test_commands_do_not_end_the_session_of_an_agent_that_runs(holdall: Program) -> None:
    """With the retention session all that it kept was gone as soon as somebody listed it."""

    async def agent() -> None:
        async with Holdall.open(home=str(holdall.home), session="s", settings=Settings(dialect="extract")) as bag:
            handle = (await bag.keep("of the agent")).handle
            assert holdall("ls", "-s", "s").code == 0
            assert holdall("cat", handle, "-s", "s").out == b"of the agent"
            ran = holdall("put", "-s", "s", stdin=b"of the user")
            [own] = re.findall("kept as (.*) until its session ends", ran.err)
            assert holdall("--set", "retention=1", "show", handle, "-s", "s").code == 0
            assert (await bag.read(handle)).text == "of the agent"
            assert (await bag.read(own)).text == "of the user"

    asyncio.run(agent())
    assert [line.split()[2] for line in holdall("ls", "-s", "s").text.splitlines()[1:]] == ["expired"] * 2


def test_what_is_kept_for_a_session_that_no_command_ends_says_how_it_goes(holdall: Program) -> None:
    ran = holdall("--set", "retention=session", "put", stdin=b"one")
    assert ran.err.endswith(" until its session ends, which no command does: holdall rm removes it\n")
    assert "commands end none, so what they keep stays" in holdall("help", "settings").text


@requirement("store:retention-changed")
def test_a_retention_that_is_set_replaces_that_of_the_session_and_says_so(holdall: Program) -> None:
    def rule() -> str:
        return str(holdall("ls", "--sessions", "--json").json["sessions"][0]["retention"])

    assert holdall("--set", "retention=keep", "put", stdin=b"one").err.startswith("kept as ")
    assert holdall("put", stdin=b"two").err.startswith("kept as ")
    assert rule() == "keep"
    said = holdall("--set", "retention=7", "put", stdin=b"three").err
    assert said.startswith("retention of session cli changed from keep to 7 days, for all that is in it\n")
    assert rule() == "7 days"
    assert "kept as " in holdall("--set", "retention=0", "put", stdin=b"four").err
    assert holdall("--set", "retention=0", "put", stdin=b"five").err.endswith(" for 0 days\n")


def _put_for_no_time(holdall: Program) -> str:
    ran = holdall("--set", "retention=0", "put", "--json", "-s", "short", "--tool", "t", stdin=b"old")
    return str(ran.json["handle"])


def _put(holdall: Program, text: bytes, session: str = "cli", *more: str) -> str:
    return str(holdall("put", "--json", "-s", session, "--tool", "t", *more, stdin=text).json["handle"])


def test_rm_where_nothing_was_ever_kept_names_no_session(holdall: Program) -> None:
    ran = holdall("rm", "x")
    assert (ran.code, ran.err) == (
        2, 'holdall: no output is kept under "x". Kept: nothing yet. (`holdall ls` lists them.)\n'
    )  # fmt: skip


@requirement("cli:rm", "store:removed", "store:removed-with-last-handle")
def test_rm_removes_outputs_and_says_who_still_has_their_bytes(holdall: Program) -> None:
    first, second, other = _put(holdall, b"same"), _put(holdall, b"same"), _put(holdall, b"other")
    ran = holdall("rm", first)
    assert (ran.code, ran.text) == (0, f"{first}  t  (the same bytes are in {second})\n")
    assert ran.err == "1 output removed: freed 0 B\n"
    ran = holdall("rm", second, other, "--json")
    assert ran.json["freed_bytes"] == 9
    assert {row["handle"]: row["still_held_by"] for row in ran.json["removed"]} == {second: [], other: []}
    again = holdall("rm", first)
    assert (again.code, again.err) == (0, "0 outputs removed: freed 0 B · 1 gone before\n"), "it is no error"
    third = _put(holdall, b"third")
    assert holdall("rm", first, third, "--json").json["gone_before"] == 1
    assert [line.split()[2] for line in holdall("ls").text.splitlines()[1:]] == ["removed"] * 4
    assert "\nstate          removed\n" in holdall("show", first).text
    for facts in (holdall("show", first, "--json").json, *holdall("ls", "--json").json["outputs"]):
        assert (facts["state"], facts["removed"]) == ("expired", True), "programs know it by expired"
    gone = holdall("cat", first)
    assert gone.code == 3
    assert gone.err.startswith(f"holdall: output {first} was removed on request on 2")
    assert "outputs kept   0 (and 4 removed)\n" in holdall("stats").text
    told = holdall("stats", "--json").json
    assert (told["expired"], told["removed"], told["by_state"]) == (0, 4, {"removed": 4})
    assert holdall("verify").code == 0


@requirement("cli:rm", "store:session-removed")
def test_rm_with_a_session_and_no_handle_removes_all_of_it(holdall: Program) -> None:
    handles = {_put(holdall, b"one", "mine"), _put(holdall, b"two", "mine")}
    kept = _put(holdall, b"one", "other")
    ran = holdall("rm", "--session", "mine", "--json")
    assert (ran.code, ran.json["sessions"], ran.json["freed_bytes"]) == (0, ["mine"], 6)
    assert {row["handle"] for row in ran.json["removed"]} == handles
    assert holdall("rm", "--session", "mine").err == "0 outputs of 1 session removed: freed 0 B · 2 gone before\n"
    assert holdall("cat", kept, "-s", "other").out == b"one"


@requirement("cli:session-flag", "cli:exit-2", "cli:gc", "cli:rm")
def test_an_empty_name_of_a_session_is_neither_all_of_them_nor_the_default_one(holdall: Program) -> None:
    handle = _put_for_no_time(holdall)
    commands = ("gc",), ("verify",), ("stats",), ("ls",), ("rm", handle), ("put",), ("gateway", "--", "true")
    for words in [
        (*words[:1], flag, name, *words[1:]) for words in commands for flag, name in (("-s", ""), ("--session", " "))
    ]:
        ran = holdall(*words)
        assert (ran.code, ran.text) == (2, "")
        assert ran.err == "holdall: --session is empty: give the name of a session, or leave it out.\n"
    assert holdall("--session", "", "gc").code == 2
    assert holdall("cat", handle, "-s", "short").out == b"old"
    assert holdall("ls", env={"HOLDALL_SESSION": ""}).err.startswith('nothing is kept in session "cli" yet')


@requirement("cli:rm", "store:removal-refused")
def test_rm_of_a_member_says_that_only_the_whole_can_go(holdall: Program) -> None:
    handle = holdall.put(zipped({"a.txt": b"one"}))
    ran = holdall("rm", f"{handle}!a.txt")
    assert (ran.code, ran.text) == (2, "")
    told = f"what is packed in {handle} cannot be removed alone: remove {handle} itself. Nothing was removed."
    assert ran.err == f"holdall: {told}\n"
    assert holdall("cat", f"{handle}!a.txt").out == b"one"
    assert "no output is kept under" in holdall("rm", "nope!a.txt").err


@requirement("cli:rm", "cli:exit-2", "store:removal-refused")
def test_rm_refuses_what_is_not_named_what_is_not_there_and_what_runs(holdall: Program) -> None:
    handle = _put(holdall, b"x")
    for words in (("rm",), ("rm", "nope"), ("rm", handle, "nope"), ("rm", "--session", "nope")):
        ran = holdall(*words)
        assert (ran.code, ran.text) == (2, "")
    assert "--session NAME" in holdall("rm").err
    assert holdall("rm", env={"HOLDALL_SESSION": "cli"}).code == 2, "not without --session written out"
    running = str(holdall("exec", "--background", "--json", "--", "sleep", "60").json["handle"])
    for words in (("rm", running), ("rm", handle, running), ("rm", "--session", "cli")):
        ran = holdall(*words)
        assert ran.code == 2
        assert ran.err.startswith(f"holdall: output {running} is still being written; nothing was removed.")
    assert holdall("cat", handle).out == b"x"
    assert holdall("stop", running).code == 0
    assert holdall("rm", handle, running).code == 0


@requirement("cli:verify", "cli:exit-3", "store:verify-all")
def test_verify_names_what_is_damaged(holdall: Program) -> None:
    good, bad = holdall.put(b"good" * 1000), holdall.put(b"bad" * 1000)
    assert holdall("verify").err == "2 outputs, 7.0 kB checked: every byte is as it came\n"
    path = _file_of(holdall, bad)
    path.write_bytes(b"B" + path.read_bytes()[1:])
    ran = holdall("verify")
    assert ran.code == 3
    assert ran.text.startswith(f"{bad}  cli  output {bad} is damaged: checksum mismatch in bytes 0 to 3,000.")
    assert good not in ran.text
    assert "holdall verify" not in ran.text
    assert "Make the others again, or import them; `holdall rm` removes them, and" in ran.err
    shown = holdall("cat", bad)
    assert (shown.code, shown.out) == (3, b"")
    assert "damaged" in shown.err
    assert holdall("verify", "--json").json["damaged"][0]["handle"] == bad


@requirement("store:damaged-never-shown", "cli:grep")
def test_a_search_that_ends_at_damage_says_how_it_goes_on_behind_it(holdall: Program) -> None:
    bad = holdall.put(b"ERROR here\n" + b"fine\n" * 20_000 + b"ERROR there\n")
    path = _file_of(holdall, bad)
    path.write_bytes(path.read_bytes().replace(b"fine", b"Fine", 1))
    ran = holdall("grep", bad, "here")
    assert (ran.code, ran.text) == (3, "")
    assert ran.err.endswith(" With --from 65536 the search goes on behind them.\n")
    assert holdall("grep", bad, "here", "--from", "65536").text == "20002:100018:ERROR there\n"


def _file_of(holdall: Program, handle: str) -> Path:
    facts = holdall("show", handle, "--json").json
    return holdall.home / f"session-{facts['session']}" / facts["file"]


def test_a_record_that_cannot_be_read_is_named_not_left_out(holdall: Program) -> None:
    handle = holdall.put(b"x")
    (record,) = holdall.home.glob(f"session-*/{handle}.record")
    record.write_bytes(b"nonsense")
    listed = holdall("ls")
    assert f"records that cannot be read: {handle}; `holdall verify` says why" in listed.err
    assert [line.split()[:3] for line in listed.text.splitlines()[1:]] == [[handle, "-", "unreadable"]]
    told = holdall("ls", "--json").json
    assert handle in told["unreadable"]
    assert [(one["handle"], one["state"], one["seen"]) for one in told["outputs"]] == [(handle, "unreadable", None)]
    assert holdall("cat", handle).code == 3


@requirement("way:nothing-lost-silently")
def test_a_pipe_that_is_over_a_quota_is_said_to_be_gone(holdall: Program) -> None:
    ran = holdall("--set", "session_quota_bytes=1000", "put", stdin=b"x" * 2000)
    assert (ran.code, ran.text) == (3, "")
    assert ran.err.endswith(
        " Nothing of standard input was kept, and what was read of it is gone: `some-command | tee FILE | holdall put` "
        "has it in a file too, and `holdall exec` passes it on.\n"
    )
    assert holdall("ls").code == 1


def test_a_command_cannot_pass_a_quota_and_what_is_over_it_is_still_shown(holdall: Program) -> None:
    ran = holdall("--set", "session_quota_bytes=1000", "exec", "--", "sh", "-c", "seq 1 200; echo ----; seq 201 1000")
    assert ran.code == 3
    assert "the quota of this session is 1.0 kB" in ran.err
    # How much came before the quota was met depends on how the pipe was filled: that part is kept, the rest is shown.
    kept = holdall("cat", holdall("ls", "--json").json["outputs"][0]["handle"]).out
    assert {*kept.split(), *ran.out.split()} >= {b"%d" % number for number in range(1, 1001)}
    assert holdall("stats", "--json").json["stored_bytes"] <= 1000


def test_what_is_shown_instead_of_kept_does_not_run_into_the_notice(holdall: Program) -> None:
    words = ("exec", "--", "sh", "-c", "seq 1 20000; echo ----; printf 'no line end'")
    ran = holdall("--set", "session_quota_bytes=1000", *words)
    assert ran.code == 3
    assert ran.out.partition(b"no line end")[2][:13] == b"\nsh returned "


@requirement("cli:stats", "watch:outputs-kept", "watch:bytes-kept")
def test_stats_counts_what_is_kept(holdall: Program) -> None:
    for data in (b"one\n", b"one\n", b'{"a": 1}'):
        holdall.put(data, "--tool", "t")
    told = holdall("stats", "--json").json
    assert {name: told[name] for name in ("sessions", "outputs", "bytes", "stored_bytes", "lines")} == {
        "sessions": 1, "outputs": 3, "bytes": 16, "stored_bytes": 12, "lines": 3,
    }  # fmt: skip
    assert told["by_kind"] == {"text": 2, "json": 1}
    text = holdall("stats").text
    assert "outputs kept   3\nbytes          16 B, 12 B with identical ones once\non disk        " in text
    assert told["disk_bytes"] == sum(one.stat().st_size for one in holdall.home.rglob("*") if one.is_file())
    holdall("--set", "retention=0.001s", "put", "-s", "short", stdin=b"short")
    (facts,) = holdall("ls", "-s", "short", "--json").json["outputs"]
    assert (facts["state"], "removed" in facts) == ("expired", False)
    text = holdall("stats").text
    assert "outputs kept   3 (and 1 expired)\n" in text
    assert (
        "\nbytes          16 B, 12 B with identical ones once, and 5 B that have expired, until `holdall gc`\n" in text
    )
    assert "\nstates         kept 3, expired 1\n" in text
    assert {one["name"]: one["kept"] for one in holdall("ls", "--sessions", "--json").json["sessions"]}["short"] == 0


@requirement("cli:stats", "cli:ls-running")
def test_stats_and_ls_agree_about_what_is_still_written(holdall: Program, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = f"printf 'one\\ntwo\\n'; cat {gate}"
    handle = holdall("exec", "--background", "--json", "--", "sh", "-c", command).json["handle"]
    holdall("wait", handle, "--pattern", "two")
    told, (listed,) = holdall("stats", "--json").json, holdall("ls", "--json").json["outputs"]
    assert (told["bytes"], told["lines"]) == (listed["so_far"]["bytes"], listed["so_far"]["lines"]) == (8, 2)
    assert "states         running 1\n" in holdall("stats").text
    holdall("stop", handle)
    assert "states         cancelled 1\n" in holdall("stats").text


LARGE = b"".join(b"2026-01-01 00:00:00 INFO job %d done\n" % number for number in range(20_000))


@requirement("cli:stats", "watch:tokens-kept-out", "watch:retrievals-by-verb")
def test_stats_adds_up_what_the_sessions_did(holdall: Program) -> None:
    for_a_model = {"HOLDALL_READER": "model"}
    told = holdall("put", "--json", "-s", "one", stdin=LARGE, env=for_a_model).json
    holdall.put(b"small\n", "-s", "two")
    holdall("read", told["handle"], "-s", "one", env=for_a_model)
    holdall("read", told["handle"], "-s", "one")  # by a person
    counted = holdall("stats", "--json").json["counters"]
    assert 0 < counted["tokens_kept_out"] < told["facts"]["tokens"]
    notice = told["facts"]["tokens"] - counted["tokens_kept_out"]
    assert 0 < notice <= 500
    assert counted == {
        "inline": 0, "kept": 2, "kept_for_people": 1, "unkept": 0, "kept_bytes": len(LARGE) + 6, "tokens_kept_out": counted["tokens_kept_out"],
        "retrievals": {"read": 1}, "retrieved_tokens": counted["retrieved_tokens"], "refused": 0,
        "passed_by_reference": 0,
        "background": 0, "extractions": {}, "fallbacks": 0, "turns": 0, "agents": 0, "recoveries": 0, "model_calls": 0,
        "model_tokens": 0, "model_input_tokens": 0, "estimated_tokens": 0, "model_cost": 0.0, "unpriced_calls": 0,
    }  # fmt: skip
    assert holdall("stats").text.split("\n")[-9:] == [
        "",
        "by people      1 output kept by hand; what follows is of models alone",
        "shown whole    0",
        f"kept out       ~{counted['tokens_kept_out']:,} tokens of the context",
        "retrievals     1 (read 1)",
        "refused        0",
        "extractions    0",
        "model calls    0",
        "",
    ]
    only = holdall("stats", "-s", "two", "--json").json["counters"]
    assert (only["kept"], only["tokens_kept_out"], only["retrievals"]) == (1, 0, {})


@requirement("cli:stats", "watch:retrievals-by-verb")
def test_stats_counts_what_a_library_did_in_the_same_store(holdall: Program) -> None:
    async def work() -> None:
        settings = Settings(tools={"vault": ToolPolicy(store="never")})
        async with Holdall.open(home=str(holdall.home), session="agent", settings=settings) as bag:
            await bag.take("fits")
            kept = await bag.take(LARGE.decode(), tool="fetch")
            await bag.take(LARGE.decode(), tool="vault")
            assert isinstance(kept, Kept)
            await bag.call("context_grep", {"handle": kept.handle, "pattern": "job 7 "})
            await bag.call("context_grep", {"handle": kept.handle, "pattern": "job 8 "})
            await bag.call("context_tail", {"handle": kept.handle})
            await bag.call("context_tail", {"handle": "nonsense"})

    asyncio.run(work())
    counted = holdall("stats", "--json").json["counters"]
    assert {name: counted[name] for name in ("inline", "kept", "unkept", "refused", "retrievals")} == {
        "inline": 1, "kept": 1, "unkept": 1, "refused": 1, "retrievals": {"grep": 2, "tail": 1},
    }  # fmt: skip
    text = holdall("stats").text
    assert "shown whole    1\nnot stored     1, shown in part\n" in text
    assert "retrievals     3 (grep 2, tail 1)\nrefused        1\n" in text


@requirement("cli:doctor")
def test_doctor_checks_everything_and_names_what_is_wrong(holdall: Program) -> None:
    ran = holdall("doctor")
    assert ran.code == 0, ran.text
    assert [line.split()[1] for line in ran.text.splitlines()] == [
        "python", "configuration", "store", "ripgrep", "duckdb", "tokens",
    ]  # fmt: skip
    wrong = holdall("doctor", "--json", env={"HOLDALL_ANSWER_MAX_BYTES": "many"})
    assert wrong.code == 3
    failed = {check["name"]: check["detail"] for check in wrong.json["checks"] if not check["ok"]}
    assert set(failed) == {"configuration", "store"}
    assert "'answer_max_bytes'" in failed["configuration"]


@requirement("cli:doctor", "grep:without-ripgrep")
def test_doctor_says_what_to_install_where_ripgrep_is_missing(tmp_path: Path) -> None:
    program = (
        "import sys; from importlib import metadata; sys.executable = '/nowhere/python'; metadata.files = lambda _: None; "
        "sys.argv = ['holdall', 'doctor', '--json']; import holdall.__main__ as m; m.main()"
    )
    env = {"HOLDALL_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=False, timeout=60)
    assert ran.returncode == 3, ran.stderr
    failed = {check["name"]: check["detail"] for check in json.loads(ran.stdout)["checks"] if not check["ok"]}
    assert failed == {
        "ripgrep": "grep needs ripgrep 14, and it is not there. Install it with: pip install 'ripgrep<15'"
    }


@requirement("cli:doctor")
def test_doctor_says_what_to_do_about_a_folder_that_cannot_be_written(holdall: Program) -> None:
    ran = holdall("doctor", "--json", "--home", "/proc/holdall")
    assert ran.code == 3
    (detail,) = [check["detail"] for check in ran.json["checks"] if not check["ok"]]
    assert detail == (
        "nothing can be kept in /proc/holdall: No such file or directory. What is kept can be read. Make the folder "
        "writable, or choose another one with --home or HOLDALL_HOME."
    )


@requirement("cli:json-everywhere")
@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("stats",),
        ("verify",),
        ("gc",),
        ("doctor",),
        ("ls", "--sessions"),
        ("config", "show"),
        ("config", "path"),
    ],
)
def test_json_is_all_that_stands_on_standard_output(holdall: Program, command: tuple[str, ...]) -> None:
    holdall.put(b"x")
    assert isinstance(holdall(*command, "--json").json, dict)


def test_an_error_is_json_too_where_json_was_asked_for(holdall: Program) -> None:
    ran = holdall("read", "zzzz", "--json")
    assert (ran.code, ran.out) == (2, b"")
    assert '"error": "UnknownHandle"' in ran.err


@requirement("cli:completion")
def test_shell_completion_knows_the_commands_and_the_handles(holdall: Program) -> None:
    handle = holdall.put(b"x")
    for name in (r"c \$(touch here)", "c`id`", "=c"):  # shells run what stands in a completion
        assert holdall("put", f"--session={name}", "-", stdin=b"x").code == 0
    assert _complete(holdall, "holdall ls -s ") == ["cli"]
    words = _complete(holdall, "holdall ")
    assert {command.split()[0] for command in COMMANDS} <= set(words)
    assert {"show", "path"} <= set(_complete(holdall, "holdall config "))
    assert handle in _complete(holdall, "holdall cat ")
    for line in ("holdall ls -s c", "holdall export "):
        assert _complete(holdall, line) == ["cli"]
    assert _complete(holdall, "holdall ls --state fa") == ["failed"]
    assert _complete(holdall, "holdall help pa") == ["patterns", "paths"]
    for line in (f"holdall --home {holdall.home} cat ", f"holdall cat --home {holdall.home} "):
        assert handle in _complete(Program(holdall.home.parent / "other"), line)


def _complete(holdall: Program, line: str) -> list[str]:
    env = {"_HOLDALL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    return holdall(env=env).text.split()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_in_its_help(holdall: Program, command: str) -> None:
    ran = holdall(*command.split(), "--help")
    assert ran.code == 0
    assert len(ran.text.splitlines()) > 8
    assert "--json" in ran.text


ONE_OF_EACH_MODULE = ["", "show", "put", "extract", "run", "view", "gateway", "gc", "demo", "export", "config path"]


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("command", ONE_OF_EACH_MODULE)
def test_help_imports_nothing_that_it_does_not_need(command: str) -> None:
    words = ["holdall", *command.split(), "--help"]
    program = f"import sys; sys.argv = {words}\ntry:\n import holdall.__main__ as m; m.main()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    loaded = set(ran.stderr.split())
    assert not loaded & {
        "asyncio",
        "sqlite3",
        "duckdb",
        "re2",
        "stringzilla",
        "rich.console",
        "holdall.bag",
        "holdall.store",
        "holdall.agent",
        "holdall.config",
    }


@requirement("store:windows")
def test_on_windows_it_says_what_is_not_supported() -> None:
    program = "import sys; sys.platform = 'win32'; import holdall.__main__ as m; m.main()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 2
    assert ran.stderr.startswith("holdall: Windows is not supported: the store needs advisory locks")


@requirement("store:folders-0700", "store:files-0600")
@pytest.mark.parametrize("mask", [0, 0o777])
def test_modes_do_not_depend_on_the_umask(holdall: Program, mask: int) -> None:
    command = f"umask {mask:04o}; echo x | {PROGRAM} put"
    subprocess.run(["bash", "-c", command], env=holdall.environment(), check=True, capture_output=True, timeout=100)
    for path in [holdall.home, *holdall.home.rglob("*")]:
        if path.name not in ("index.sqlite-journal",):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("home", ["/dev/null", "/proc/self", "relative/path", "~", "$HOME"])
def test_a_home_that_cannot_be_one_is_refused_with_the_rule(holdall: Program, home: str) -> None:
    ran = holdall("ls", env={"HOLDALL_HOME": home})
    assert ran.code == 2
    assert ran.err.startswith(f"holdall: setting 'HOLDALL_HOME' is '{home}'; it must be a")


def test_a_home_folder_that_does_not_exist_is_named(holdall: Program) -> None:
    ran = holdall("ls", env={"HOME": "/nonexistent", "HOLDALL_HOME": None})
    assert ran.code == 2
    assert ran.err == (
        "holdall: setting 'HOME' is '/nonexistent'; there is no such folder; set HOLDALL_HOME to the folder to keep outputs in\n"
    )


@requirement("store:per-user-folder", "store:no-predictable-path")
def test_without_any_setting_outputs_are_kept_in_the_users_own_data_folder(holdall: Program, tmp_path: Path) -> None:
    assert holdall("put", stdin=b"x", env={"HOLDALL_HOME": None, "HOME": str(tmp_path)}).code == 0
    assert list(tmp_path.rglob("session-*/session.json"))


def test_in_a_working_folder_that_was_removed_everything_works_but_relative_paths(
    holdall: Program, tmp_path: Path
) -> None:
    handle = holdall.put(b"a,b\n1,2\n3,4\n")
    response = {"stdout": "row\n" * 30_000, "stderr": "", "interrupted": False, "isImage": False}
    about: dict[str, object] = {
        "hook_event_name": "PostToolUse", "session_id": "5f1e", "tool_name": "Bash", "tool_input": {}
    }  # fmt: skip
    result = json.dumps({**about, "tool_response": response})
    (tmp_path / "result").write_text(result)

    def there(command: str) -> "subprocess.CompletedProcess[str]":
        script = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && {PROGRAM} {command}"
        words = ["bash", "-c", script]
        return subprocess.run(words, env=holdall.environment(), capture_output=True, text=True, check=False, timeout=60)

    shown = {
        f"cat {handle}": "a,b\n1,2\n3,4\n",
        f"grep {handle} 3,4": "3:8:3,4\n",
        f"query {handle} 'select sum(b) as s from t'": "s\n6\n",
        "exec -- echo run": "run\n",
        f"put {tmp_path}/result": "handle: ",
        f"hook claude-code < {tmp_path}/result": "handle: ",
        "doctor": "ok    store ",
    }
    for command, output in shown.items():
        ran = there(command)
        assert ran.returncode == 0, (command, ran.stderr)
        assert output in ran.stdout, command
    for command in ("ls --home here", "export cli -o here"):
        refused = there(command)
        assert (refused.returncode, refused.stderr) == (
            3, "holdall: the working folder was removed: change to another one, or write paths in full, from / on.\n"
        )  # fmt: skip


def test_a_temporary_folder_with_a_strange_name_is_no_matter(holdall: Program, tmp_path: Path) -> None:
    strange = tmp_path / "a b\nc"
    strange.mkdir()
    assert holdall("put", stdin=b"x" * 100_000, env={"TMPDIR": str(strange)}).code == 0


def test_a_home_that_others_can_write_to_is_refused(holdall: Program, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o777)
    ran = holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(shared)})
    assert ran.code == 3
    assert "others can write to the data folder" in ran.err
    assert "(mode 0777)" in ran.err
    assert list(shared.iterdir()) == []
    above = holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(shared / "below")})
    assert above.code == 3
    assert f"others own or can write to {shared}, and could replace the data folder {shared / 'below'}." in above.err
    os.chmod(shared, 0o1777)  # as /tmp is
    assert holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(shared / "below")}).code == 0
    if os.geteuid() == 0:
        os.chown(shared, 1234, -1)
        foreign = holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(shared / "below")})
        assert foreign.code == 3
        assert foreign.err.endswith(
            "It belongs to user 1234. Choose another data folder: --home, HOLDALL_HOME or Holdall.open(home=…).\n"
        )
        os.chown(shared, 0, -1)
    safe = tmp_path / "safe"
    safe.mkdir()
    (shared / "link").symlink_to(safe)
    assert holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(shared / "link" / "home")}).code == 0
    os.chmod(shared, 0o777)  # now anybody can lead the link elsewhere
    linked = holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(shared / "link" / "home")})
    assert linked.code == 3
    assert f"others own or can write to {shared}, " in linked.err


@requirement("store:symlink-confined")
def test_a_home_that_is_a_link_is_refused_and_nothing_is_written_through_it(holdall: Program, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    ran = holdall("put", stdin=b"x", env={"HOLDALL_HOME": str(tmp_path / "link")})
    assert ran.code == 2
    assert "not a link; name the folder that it leads to" in ran.err
    assert list(target.iterdir()) == []


def test_an_argument_of_two_megabytes_is_refused_by_name_or_taken_as_data(holdall: Program) -> None:
    ran = holdall("read", "x" * 100_000)
    assert ran.code == 2
    assert len(ran.err) < 400


@requirement("cli:missing-extra")
def test_a_missing_extra_is_named_with_its_install_line(holdall: Program, tmp_path: Path) -> None:
    package = "rs-bpe" if sys.version_info < (3, 14) else "bpe-openai"
    (tmp_path / f"{package.replace('-', '_')}.py").write_text("raise ImportError('not installed')")
    env = {"PYTHONPATH": str(tmp_path), "HOLDALL_TOKENIZER": "o200k"}
    ran = holdall("put", stdin=b"x", env=env)
    assert ran.code == 2
    assert ran.err == (
        f"holdall: counting tokens exactly needs the package '{package}'. "
        "Install it with: pip install 'holdall[tokens]'\n"
    )
    told = holdall(
        "put", "--json", stdin=b"one two", env={"PYTHONPATH": str(tmp_path), "HOLDALL_TOKENIZER": "estimate"}
    )
    assert told.json["facts"]["tokens_exact"] is False


@requirement("measure:escape-facts")
def test_what_a_stranger_named_never_breaks_a_message_into_lines(holdall: Program) -> None:
    ran = holdall("exec", "--", "a\nb\x1b[31m")
    assert ran.err == "holdall: cannot run 'a\\nb\\x1b[31m': there is no such command. Nothing was kept.\n"
    wrong = holdall("cat", "a\nb\x1b[31m")
    assert "a\\nb\\x1b[31m" in wrong.err
    assert wrong.err.count("\n") == 1
