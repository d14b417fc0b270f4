"""`holdall export` and `holdall import`, as a person uses them."""

import gzip
import hashlib
import json
import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.program import Program, started_as, until
from tests.requirements import requirement

LOG = b"".join(b"2026-11-02T06:00:%02dZ INFO request %d took 12ms\n" % (n % 60, n) for n in range(4_000))
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Program:
    """Another machine."""
    return Program(tmp_path / "another" / "home")


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "index.sqlite" not in path.name
    }


@requirement("cli:export", "cli:import", "bundle:import-resolves")
def test_every_verb_answers_the_same_on_another_machine(holdall: Program, elsewhere: Program, tmp_path: Path) -> None:
    log = holdall.put(LOG, "-s", "build", "--call-id", "c1")
    data = holdall.put(json.dumps([{"id": n, "on": n % 3 == 0} for n in range(5000)]).encode(), "-s", "build")
    bundle = str(tmp_path / "build.holdall")
    made = holdall("export", "build", "-o", bundle)
    assert made.code == 0, made.err
    restored = elsewhere("import", bundle)
    assert (restored.code, restored.text) == (0, "build\n"), restored.err
    questions = [("cat", log), ("grep", "c1", "request (\\d)", "--group"), ("query", data, "--path", "$[7].id")]
    for question in questions:
        here, there = holdall(*question, "-s", "build"), elsewhere(*question, "-s", "build")
        assert (here.code, here.out) == (there.code, there.out), question
        assert here.code == 0


@requirement("cli:export")
def test_what_the_bundle_holds_is_listed_first(holdall: Program, tmp_path: Path) -> None:
    holdall.put(LOG, "-s", "build")
    holdall.put(b"small\n", "-s", "build")
    made = holdall("export", "build", "-o", str(tmp_path / "b"))
    first, last = made.err.strip().split("\n")
    assert first.startswith("session build: 2 outputs, 194.9 kB · events ")
    assert last.startswith(f"written to {tmp_path}/b: ")
    assert made.out == b""
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


@requirement("cli:json-everywhere")
def test_as_json(holdall: Program, elsewhere: Program, tmp_path: Path) -> None:
    holdall.put(f"token {TOKEN}\n".encode(), "-s", "build")
    made = holdall("export", "build", "-o", str(tmp_path / "b"), "--redact", "--json").json
    assert {name: made[name] for name in ("redacted", "outputs", "output_bytes", "masked")} == snapshot(
        {"redacted": True, "outputs": 1, "output_bytes": 47, "masked": {"GitHub Token": 1}}
    )
    assert made["bytes"] == (tmp_path / "b").stat().st_size
    (mask,) = made["masks"]
    assert (mask["kind"], mask["start"], mask["end"]) == ("GitHub Token", 6, 46)
    back = elsewhere("import", str(tmp_path / "b"), "--as", "mine", "--json").json
    assert (back["session"], back["new_ids"], back["redacted"]) == ("mine", False, True)
    assert back["restored"][0]["name"] == "mine"


def test_redacted_it_says_what_was_masked_and_never_the_secret(
    holdall: Program, elsewhere: Program, tmp_path: Path
) -> None:
    handle = holdall.put(f"a\nusing {TOKEN}\npostgres://u:hunter2@db/x\n".encode(), "-s", "build")
    made = holdall("export", "build", "-o", str(tmp_path / "b"), "--redact")
    assert made.code == 0
    assert f"masked  {handle} bytes 8–48  GitHub Token" in made.err
    assert "2 places masked" in made.err
    ran = holdall("exec", "-s", "flag", "--", "echo", "--password=hunter2hunter2").err.split()[2]
    flag = holdall("export", "flag", "-o", str(tmp_path / "flag"), "--redact").err
    assert f"masked  {ran} bytes 11–25  " in flag
    assert f"masked  {ran}.record bytes " in flag
    assert TOKEN not in made.err
    assert "hunter2" not in made.err
    elsewhere("import", str(tmp_path / "b"))
    shown = elsewhere("cat", handle, "-s", "build").text
    assert shown == f"a\nusing {'*' * 40}\npostgres://u:*******@db/x\n"
    assert elsewhere("verify").code == 0


def test_where_nothing_looks_like_a_secret_it_promises_nothing(holdall: Program, tmp_path: Path) -> None:
    holdall.put(b"nothing here\n", "-s", "build")
    made = holdall("export", "build", "-o", str(tmp_path / "b"), "--redact")
    assert "does not mean that there is none" in made.err


def test_through_a_pipe(holdall: Program, elsewhere: Program, tmp_path: Path) -> None:
    handle = holdall.put(LOG, "-s", "build")
    made = holdall("export", "build", "-o", "-")
    holdall("export", "build", "-o", str(tmp_path / "b"))
    assert made.out == (tmp_path / "b").read_bytes()
    assert "written to standard output" in made.err
    assert elsewhere("import", "-", stdin=made.out).code == 0
    assert elsewhere("cat", handle, "-s", "build").out == LOG
    told = holdall("export", "build", "-o", "-", "--json")
    assert told.out == made.out
    assert json.loads(told.err)["file"] == "standard output"


@requirement("cli:exit-2")
def test_an_existing_file_is_not_overwritten_unless_asked(holdall: Program, tmp_path: Path) -> None:
    holdall.put(b"x\n", "-s", "build")
    target = tmp_path / "b"
    target.write_text("mine")
    refused = holdall("export", "build", "-o", str(target))
    assert (refused.code, target.read_text()) == (2, "mine")
    assert "--force" in refused.err
    assert holdall("export", "build", "-o", str(target), "--force").code == 0
    assert target.read_bytes().startswith(b"\x28\xb5\x2f\xfd")


WRONG: list[tuple[list[str], int, str]] = [
    (["export", "nobody", "-o", "b"], 2, 'there is no session "nobody"'),
    (["export", "buidl", "-o", "b"], 2, "Did you mean build?"),
    (["export", "build", "-o", "."], 2, "is a folder"),
    (["export", "build", "-o", "no/such/folder/b"], 3, "No such file or directory"),
    (["export", "build"], 2, "-o"),
    (["import", "no-such-file"], 2, "cannot be opened"),
    (["import", "."], 2, "is a folder"),
    (["import", "/dev/null"], 3, "no bytes at all"),
]


@requirement("cli:exit-2", "cli:exit-3")
@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=str)
def test_what_cannot_be_done_is_told_and_nothing_is_left(
    arguments: list[str], code: int, words: str, holdall: Program, tmp_path: Path
) -> None:
    holdall.put(b"x\n", "-s", "build")
    before = files(tmp_path)
    ran = holdall(*arguments, cwd=tmp_path)
    assert ran.code == code, ran.err
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert files(tmp_path) == before


def test_a_name_that_is_taken_names_the_way_out(holdall: Program, tmp_path: Path) -> None:
    handle = holdall.put(LOG, "-s", "build")
    bundle = str(tmp_path / "b")
    holdall("export", "build", "-o", bundle)
    before = files(holdall.home)
    refused = holdall("import", bundle)
    assert refused.code == 2
    assert refused.err.endswith(
        'holdall: there is a session "build" already, and it is not touched. Choose another name with --as NAME.\n'
    )
    assert files(holdall.home) == before
    assert holdall("import", bundle, "--as", "build again").text == "build again\n"
    assert holdall("cat", handle, "-s", "build again").out == LOG


@requirement("bundle:all-or-nothing", "cli:exit-3")
def test_a_damaged_bundle_changes_nothing(holdall: Program, elsewhere: Program, tmp_path: Path) -> None:
    holdall.put(LOG, "-s", "build")
    elsewhere.put(b"mine\n", "-s", "mine")
    bundle = tmp_path / "b"
    holdall("export", "build", "-o", str(bundle))
    data = bundle.read_bytes()
    before = files(elsewhere.home)
    for broken in (data[:-1], data[: len(data) // 2], data[:500] + b"x" + data[501:]):
        bundle.write_bytes(broken)
        ran = elsewhere("import", str(bundle))
        assert ran.code == 3
        assert "this bundle is" in ran.err
    assert files(elsewhere.home) == before


def test_importing_makes_no_session_but_those_of_the_bundle(
    holdall: Program, elsewhere: Program, tmp_path: Path
) -> None:
    holdall.put(b"x\n", "-s", "build")
    holdall("export", "build", "-o", str(tmp_path / "b"))
    elsewhere("import", str(tmp_path / "b"))
    assert len(list(elsewhere.home.glob("session-*"))) == 1


def test_a_bundle_is_not_written_to_a_terminal(holdall: Program) -> None:
    holdall.put(b"x\n", "-s", "build")
    ours, theirs = pty.openpty()
    try:
        ran = subprocess.run(
            started_as("export", "build", "-o", "-"),
            env=holdall.environment(), stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert ran.returncode == 2
    assert b"not for a terminal" in ran.stderr


@requirement("cli:import")
@pytest.mark.parametrize("ratio", ["nan", "-5", "0"])
def test_a_ratio_that_no_bundle_can_keep_is_refused(holdall: Program, ratio: str) -> None:
    ran = holdall("import", "any", "--max-ratio", ratio)
    assert (ran.code, ran.err) == (2, f"holdall: --max-ratio is a number of 1 or more, not {ratio}.\n")


@requirement("cli:export")
def test_what_went_as_it_is_is_told(holdall: Program, tmp_path: Path) -> None:
    handle = holdall.put(gzip.compress(LOG), "-s", "build")
    made = holdall("export", "build", "-o", str(tmp_path / "b"), "--redact", "--with-packed")
    assert f"packed, so as they are, with any secret in them: {handle}\n" in made.err
    made = holdall("export", "build", "-o", str(tmp_path / "b"), "--redact", "--with-packed", "--force", "--json")
    assert made.json["packed"] == [handle]


@requirement("cli:export")
def test_a_flag_of_redact_is_refused_without_it(holdall: Program, tmp_path: Path) -> None:
    """Whoever gives it believes that the rest is masked."""
    holdall.put(LOG, "-s", "build")
    ran = holdall("export", "build", "-o", str(tmp_path / "b"), "--with-packed")
    told = "holdall: --with-packed goes with --redact; without it packed outputs go as they are anyway.\n"
    assert (ran.code, ran.err, (tmp_path / "b").exists()) == (2, told, False)


def test_interrupted_it_leaves_no_half_of_a_file(holdall: Program, tmp_path: Path) -> None:
    """Ctrl-C in the middle of a large export."""
    holdall.put(os.urandom(1 << 20) * 100, "-s", "build")
    folder = tmp_path / "target"
    folder.mkdir()
    process = subprocess.Popen(
        started_as("export", "build", "-o", str(folder / "b")),
        env=holdall.environment(), stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    with process:
        assert process.stderr.readline().startswith(b"session build")
        until(lambda: process.poll() is not None or list(folder.iterdir()))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(folder.iterdir()) == []


def test_a_command_that_is_told_runs_nothing_of_a_name(holdall: Program, elsewhere: Program, tmp_path: Path) -> None:
    name = "report'; touch PWNED; '"
    holdall.put(b"x", "--session", name)
    bundle = str(tmp_path / "b.holdall")
    assert holdall("export", name, "-o", bundle).code == 0
    told = elsewhere("import", bundle).err.strip().rpartition(": ")[2]
    assert shlex.split(told) == ["holdall", "ls", "--session", name]


def test_a_session_is_copied_to_another_store_and_nothing_is_made_where_there_is_none(
    holdall: Program, elsewhere: Program
) -> None:
    kept = holdall("--set", "retention=2 days", "put", "--json", "-s", "build", stdin=LOG)
    handle = str(kept.json["handle"])
    missing = holdall("copy", "biuld", "--to", str(elsewhere.home))
    assert missing.code == 2
    assert "Did you mean build?" in missing.err
    assert not elsewhere.home.exists()
    copied = holdall("copy", "build", "--to", str(elsewhere.home))
    assert (copied.code, copied.text) == (0, "build\n")
    assert copied.err.endswith(f"1 output, 194.9 kB copied to {elsewhere.home}\n")
    assert elsewhere("cat", handle, "-s", "build").out == LOG
    assert elsewhere("ls", "--sessions", "--json").json["sessions"][0]["retention"] == "2 days"
    again = holdall("copy", "build", "--to", str(elsewhere.home))
    taken = 'holdall: there is a session "build" already, and it is not touched. Choose another name with --as NAME.\n'
    assert (again.code, again.err.endswith(taken)) == (2, True)
    assert holdall("copy", "build", "--to", str(elsewhere.home), "--as", "twice").code == 0
