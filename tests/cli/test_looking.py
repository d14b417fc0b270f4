"""Who only looks makes nothing: no session by a mistyped name, no data folder."""

import os
import time

import pytest

from tests.cli.program import Program
from tests.requirements import requirement

LOOKING = [
    ("ls",), ("verify",), ("gc",), ("gc", "--dry-run"), ("stats",), ("wait",), ("stop", "k3f9"), ("show", "k3f9"),
    ("cat", "k3f9"), ("read", "k3f9"), ("tail", "k3f9"), ("grep", "k3f9", "x"), ("slice", "k3f9", "--start", "1"),
    ("query", "k3f9", "select 1"), ("extract", "k3f9", "what?"), ("show", "--tree"),
]  # fmt: skip


@pytest.mark.in_full(one_in=3)
@requirement("cli:session-flag")
@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_session_that_is_not_there_is_named_and_not_made(holdall: Program, command: tuple[str, ...]) -> None:
    holdall.put(b"x", "--session", "build-42")
    ran = holdall(*command, "--session", "build-24")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err == (
        'holdall: there is no session "build-24". The newest are: build-42. (`holdall ls --sessions` lists all.) '
        "Did you mean build-42?\n"
    )
    assert [one["name"] for one in holdall("ls", "--sessions", "--json").json["sessions"]] == ["build-42"]


@requirement("cli:ls")
def test_a_session_that_holds_nothing_any_more_is_listed_as_such(holdall: Program) -> None:
    holdall("rm", holdall.put(b"x", "--session", "emptied"), "--session", "emptied")
    assert holdall("--set", "session_quota_bytes=1", "put", "--session", "never", stdin=b"xx").code == 3
    rows = [line.split()[:5] for line in holdall("ls", "--sessions").text.splitlines()[1:]]
    assert sorted(rows) == [["emptied", "30", "days", "none", "left"], ["never", "30", "days", "none", "0"]]
    assert holdall("exec", "--session", "other", "--", "/no/such/command").code == 127
    assert len(holdall("ls", "--sessions").text.splitlines()) == 3  # what is refused at once makes none


@pytest.mark.parametrize("command", [*LOOKING, ("ls", "--sessions"), ("doctor",)], ids=" ".join)
def test_looking_makes_neither_the_usual_session_nor_the_data_folder(
    holdall: Program, command: tuple[str, ...]
) -> None:
    ran = holdall(*command)
    assert ran.code in (0, 1, 2)
    assert "Traceback" not in ran.err
    assert not holdall.home.exists()


def test_a_folder_that_is_no_store_is_left_as_it_is(holdall: Program) -> None:
    holdall.home.mkdir(mode=0o700)
    (holdall.home / "notes.txt").write_text("mine")
    assert holdall("ls").err == 'nothing is kept in session "cli" yet: some-command | holdall put\n'
    assert os.listdir(holdall.home) == ["notes.txt"]


def test_a_session_is_found_by_its_id_and_by_its_folder(holdall: Program) -> None:
    handle = holdall.put(b"x", "--session", "one")
    id = holdall("ls", "--sessions", "--json").json["sessions"][0]["id"]
    assert holdall("cat", handle, "--session", id).out == b"x"
    assert holdall("cat", handle, "--session", f"session-{id}").out == b"x"


def test_the_usual_session_need_not_be_there_yet(holdall: Program) -> None:
    holdall.put(b"x", "--session", "one")
    assert holdall("ls", env={"HOLDALL_SESSION": "two"}).err == (
        'nothing is kept in session "two" yet: some-command | holdall put\n'
    )
    assert holdall("read", "k3f9").err == (
        'holdall: no output is kept under "k3f9" in session "cli". Kept: nothing yet. (`holdall ls` lists them.)\n'
    )
    assert [one["name"] for one in holdall("ls", "--sessions", "--json").json["sessions"]] == ["one"]


@requirement("store:gc-dry-run")
def test_a_dry_run_removes_nothing_even_where_a_sweep_is_due(holdall: Program) -> None:
    ran = holdall("--set", "retention=0", "put", "--json", "-s", "short", stdin=b"old")
    handle = str(ran.json["handle"])
    long_ago = time.time() - 200_000
    os.utime(holdall.home / ".last-gc", (long_ago, long_ago))
    assert holdall("gc", "--dry-run").text.startswith(f"{handle}  short")
    assert holdall("gc", "--dry-run").text.startswith(f"{handle}  short")
