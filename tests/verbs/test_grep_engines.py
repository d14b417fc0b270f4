"""The two engines give the same answers, and a search leaves nothing behind."""

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.search import engine as programs
from holdall.search.engine import Command, Places, Task
from holdall.search.re2_program import search
from holdall.search.translate import Pattern, translate
from holdall.store.reader import FileReader
from holdall.values.errors import BadPattern, WorkerFault, WrongUse
from holdall.verbs.grep import grep
from tests.requirements import requirement
from tests.support import reader_of

Engine = Literal["ripgrep", "re2"]

# ── The same answers ────────────────────────────────────────────────────────────────────────────────────────

LITERALS = ["a", "b", "x", "1", " ", "é", "漢", "K", "s", "ab", "abc", "ms", ""]
SETS = [".", "[ab]", "[^a]", "[a-c1]", "[é漢]", r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", r"\p{Lu}", r"\x00", "(?i:k)"]
EDGES = [r"\b", r"\B", "^", "$"]
COUNTS = ["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "+?", "??", "{1,2}?"]


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds("{}{})".format, st.sampled_from(["(", "(?:", "(?i:"]), inner)
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.builds("{}{}".format, group, st.sampled_from(COUNTS)),
        group,
    )


patterns = st.recursive(st.sampled_from(LITERALS + SETS + EDGES), grown, max_leaves=8).filter(bool)
PLAIN = [b"a", b"b", b"ab", b"abc", b"x", b"1", b" ", b" ms", b"\n", b"\r\n", b"\r", b"\x00", b"k", b"S", b"\xff"]
FOREIGN = ["é".encode(), "漢".encode(), "\u212a".encode(), b"\xc3", b"\xed\xa0\x80", b"\xe0\x80\x80", b"a" * 300]
texts = st.lists(st.sampled_from(PLAIN + FOREIGN), min_size=1, max_size=60).map(b"".join)


def translated(pattern: str, *, ignore_case: bool) -> Pattern | None:
    try:
        return translate(pattern, ignore_case=ignore_case)
    except BadPattern:
        return None  # a count of a count, or of an edge


def printed_by_ripgrep(task: Task) -> bytes:
    return b"".join(programs.output_of(programs.ripgrep_command(task), seconds=60))


def offsets_only(output: bytes) -> bytes:
    """ripgrep prints something after the offset of a line, and what that is does not matter."""
    return re.sub(rb"(?m)^(\d+:).*$", rb"\1", output)


@requirement("grep:same-answers")
@settings(max_examples=max(200, settings().max_examples))
@given(patterns, texts, st.booleans())
def test_both_engines_print_the_same_for_any_pattern_and_any_bytes(
    pattern: str, data: bytes, ignore_case: bool
) -> None:
    written = translated(pattern, ignore_case=ignore_case)
    if written is None:
        return
    reader = reader_of(data)
    unit = "lines" if written.can_be_empty else "matches"
    for want in ("places", "values", "count"):
        printed = printed_by_ripgrep(Task(written, want, reader.fileno(), len(data), growing=False))
        expected = b"".join(search(written.re2, data, want, unit, written.captures))
        if want == "count":
            assert int(printed or 0) == int(expected)
        elif want == "places" and unit == "lines":
            assert offsets_only(printed) == expected
        else:
            assert printed == expected


@requirement("grep:same-answers")
@settings(max_examples=max(20, settings().max_examples // 4))
@given(patterns, texts, st.sampled_from([{}, {"group": True}, {"count": True}, {"context": 2, "limit": 3}]))
def test_the_whole_answer_is_the_same_but_for_the_name_of_the_engine(
    pattern: str, data: bytes, options: dict[str, Any]
) -> None:
    if translated(pattern, ignore_case=False) is None:
        return
    reader = reader_of(data)
    found = [grep(reader, pattern, engine=engine, **options) for engine in ("ripgrep", "re2")]
    assert [answer.engine for answer in found] == ["ripgrep", "re2"]
    assert replace(found[0], engine="re2") == found[1]


plain_patterns = st.recursive(
    st.sampled_from(["a", "b", "c", "ab", "bc", "[ab]", "[^a]", ".", r"\w", r"\d", r"\b", "1"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["?", "{2}", "{1,3}", "{0,2}?", "{1,2}"])),
    ),
    max_leaves=7,
)


@requirement("grep:several-in-a-line", "grep:byte-offsets")
@given(plain_patterns, st.lists(st.text(alphabet="abc1 ", max_size=12), min_size=1, max_size=12))
def test_matches_are_those_of_pythons_own_re_line_by_line(pattern: str, lines: list[str]) -> None:
    written = translated(pattern, ignore_case=False)
    if written is None or written.can_be_empty:
        return
    expected: list[tuple[int, int, int]] = []
    at = 0
    for number, line in enumerate(lines, start=1):
        found = re.finditer(pattern, line, re.ASCII)
        expected += [(number, at + match.start(), at + match.end()) for match in found]
        at += len(line) + 1
    answer = grep(reader_of("\n".join(lines).encode()), pattern, limit=10_000, max_bytes=None)
    assert [(match.line, match.byte, match.end) for match in answer.matches] == expected


@requirement("grep:same-answers")
@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(?i)e.x|ex", "e-x", ["e-x"]),  # ripgrep 14.1.0 misses the line
        (".bb|b", "zabb", ["abb"]),  # every ripgrep finds b at 2
        ("ab{2,}|b", "xabby", ["abb"]),
        ("(?:xab){0,2}bb", "xabbb", ["xabbb"]),
        (r"(?:\wb[ab]c)?cc", "abbccc", ["abbccc"]),
        (r"(?:[^a]?ba(?:\wx|xab)){1,3}", " bacx", [" bacx"]),
    ],
)
def test_where_ripgrep_goes_wrong_by_itself_both_engines_are_right(pattern: str, text: str, matches: list[str]) -> None:
    for engine in ("ripgrep", "re2"):
        found = grep(reader_of(text.encode()), pattern, engine=engine)
        assert [match.match for match in found.matches] == matches


@pytest.mark.parametrize(
    ("pattern", "trusted"),
    [
        ("needle", True),
        ("error|warning|fatal", True),
        ("[0-9]+ ms", True),
        (r"[0-9]+(?:\.[0-9]+)? ms", True),
        (r"\d+\.\d+\.\d+\.\d+", True),
        ("status=5[0-9]{2}", True),
        ("[A-Z]{3}-[0-9]{4}", True),
        ("(?i)error|warning", True),
        (r"(?:GET|POST) /.* 500", True),
        (r"\w+Error: .*timeout", True),
        (r"\w+\s+error", True),
        (".*error.*", True),
        ("e.x|ex", False),
        (".bb|b", False),
        ("(?:xab){0,2}bb", False),
        ("[ab]*(?:ba1|b)", False),
    ],
)
def test_ripgrep_keeps_its_shortcuts_where_they_are_known_to_be_right(pattern: str, trusted: bool) -> None:
    assert translate(pattern).ripgrep.endswith(r"|\z.)") is not trusted


# ── Choosing ────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:without-ripgrep")
def test_without_ripgrep_the_search_runs_on_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "ripgrep_path", lambda: None)
    found = grep(reader_of(b"one\ntwo\n"), "two")
    assert (found.engine, found.total, found.matches[0].line) == ("re2", 1, 2)


def test_without_any_engine_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "ripgrep_path", lambda: None)
    with pytest.raises(WorkerFault, match=r"needs ripgrep, .* Install it with: pip install ripgrep$"):
        grep(reader_of(b"a"), "a", engine="ripgrep")
    monkeypatch.setattr(programs, "installed", lambda: False)
    with pytest.raises(WorkerFault, match="needs ripgrep or google-re2"):
        grep(reader_of(b"a"), "a")
    with pytest.raises(WorkerFault, match="pip install google-re2"):
        grep(reader_of(b"a"), "a", engine="re2")
    with pytest.raises(WrongUse, match="known are auto, ripgrep and re2"):
        grep(reader_of(b"a"), "a", engine="grep")  # pyright: ignore[reportArgumentType]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder on the PATH that may hold an rg, and none beside Python."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    programs.ripgrep_path.cache_clear()
    yield tmp_path
    programs.ripgrep_path.cache_clear()


@pytest.mark.parametrize(("version", "used"), [("14.1.1", True), ("13.0.0", False), ("15.1.0", False), ("", False)])
def test_a_ripgrep_on_the_path_is_used_only_where_its_answers_are_known(
    elsewhere: Path, version: str, used: bool
) -> None:
    program = elsewhere / "rg"
    program.write_text(f"#!/bin/sh\necho ripgrep {version}\n")
    program.chmod(0o755)
    assert programs.ripgrep_path() == (str(program) if used else None)


def test_where_no_ripgrep_is_there_none_is_found(elsewhere: Path) -> None:
    assert programs.ripgrep_path() is None


def test_neither_a_configuration_nor_the_environment_changes_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "rc"
    config.write_text("--invert-match\n--ignore-case\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    assert grep(reader_of(b"a\nA\nb\n"), "a").total == 1


# ── Nothing is left behind ──────────────────────────────────────────────────────────────────────────────────


class Started:
    """Every process that a search started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        gc.collect()  # readers of other tests would be closed on the way
        self.descriptors = len(os.listdir("/dev/fd"))
        original = subprocess.Popen

        def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
            self.processes.append(original[bytes](*arguments, **options))
            return self.processes[-1]

        monkeypatch.setattr(programs.subprocess, "Popen", start)

    def are_gone(self) -> bool:
        """Ended and reaped, without a pipe left open."""
        return (
            bool(self.processes)
            and all(one.returncode is not None for one in self.processes)
            and len(os.listdir("/dev/fd")) == self.descriptors
        )


@pytest.fixture
def reader() -> FileReader:
    return reader_of(b"a line with a hit in it\n" * 50_000)


@pytest.fixture
def started(reader: FileReader, monkeypatch: pytest.MonkeyPatch) -> Started:
    programs.choose("auto")  # looks for ripgrep once
    return Started(monkeypatch)


@pytest.mark.parametrize("engine", ["ripgrep", "re2"])
def test_after_an_answer_no_process_and_no_pipe_is_left(reader: FileReader, started: Started, engine: Engine) -> None:
    assert grep(reader, "hit", engine=engine).total == 50_000
    assert started.are_gone()


@pytest.mark.parametrize("engine", ["ripgrep", "re2"])
def test_a_search_over_its_time_is_killed_and_says_what_to_do(
    reader: FileReader, started: Started, engine: Engine
) -> None:
    with pytest.raises(WorkerFault) as stopped:
        grep(reader, "hit", engine=engine, seconds=0.0001)
    assert str(stopped.value) == (
        "the search was stopped after 0.0001 seconds and gives no answer. "
        "Search for something narrower, or allow it more time."
    )
    assert started.are_gone()


@pytest.mark.parametrize("engine", ["ripgrep", "re2"])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_in_the_middle_leaves_nothing_behind(
    reader: FileReader,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine,
    interrupt: type[BaseException],
) -> None:
    def interrupted(self: Places, piece: bytes) -> None:
        raise interrupt

    monkeypatch.setattr(Places, "feed", interrupted)
    with pytest.raises(interrupt):
        grep(reader, "hit", engine=engine)
    assert started.are_gone()


def test_a_search_that_is_left_in_the_middle_ends(reader: FileReader, started: Started) -> None:
    task = Task(translate("hit"), "places", reader.fileno(), reader.totals.bytes, growing=True)
    output = programs.output_of(programs.ripgrep_command(task), seconds=60)
    assert next(output).startswith(b"14:hit\n")
    output.close()
    assert started.are_gone()


def shell(script: str, good_codes: tuple[int, ...] = (0, 1)) -> Command:
    return Command((shutil.which("sh") or "sh", "-c", script), {}, 0, good_codes)


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (shell("echo 5:x; kill -9 $$"), WorkerFault, "killed by signal 9"),
        (shell("echo out of luck >&2; exit 3"), WorkerFault, "failed with code 3: out of luck"),
        (shell("exit 2"), WorkerFault, "it said nothing"),
        (shell("echo compiled regex exceeds size limit >&2; exit 2"), BadPattern, "exceeds size limit"),
        (shell("exit 1", good_codes=(0,)), WorkerFault, "failed with code 1"),
        (Command(("/nowhere/rg",), {}, 0, (0, 1)), WorkerFault, "could not be started: No such file"),
    ],
)
def test_a_program_that_fails_is_an_error_and_never_nothing_found(
    command: Command, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(programs.output_of(command, seconds=60))


def test_what_only_the_compiler_of_re2_refuses_is_a_bad_pattern_too(reader: FileReader) -> None:
    broken = replace(translate("a"), re2=b"(?P<")
    task = Task(broken, "count", reader.fileno(), reader.totals.bytes, growing=False)
    with pytest.raises(BadPattern, match="the pattern cannot be run"):
        list(programs.output_of(programs.command_for("re2", task), seconds=60))


# ── Reading what is printed ─────────────────────────────────────────────────────────────────────────────────


def cut_up(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


records = st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b":"))))


@given(records, st.lists(st.integers(1, 60), max_size=60), st.integers(0, 800), st.integers(1, 12))
def test_places_are_read_alike_however_the_stream_is_cut(
    steps: list[tuple[int, bytes]], sizes: list[int], start: int, most: int
) -> None:
    at, wanted, stream = 0, list[tuple[int, int]](), b""
    for step, text in steps:
        at += step
        stream += b"%d:%s\n" % (at, text)
        wanted.append((at, at + len(text)))
    places = Places(start=start, most=most)
    for piece in cut_up(stream, sizes):
        places.feed(piece)
    assert places.total == len(steps)
    assert [(span.start, span.end) for span in places.found] == [pair for pair in wanted if pair[0] >= start][:most]


@given(
    st.lists(st.sampled_from([b"", b"a", b"bb", b"\xff", b"x" * 200, b"x" * 201, b"x" * 5000, b"y" * 5000])),
    st.lists(st.integers(1, 400), max_size=80),
)
def test_values_are_counted_alike_however_the_stream_is_cut(values: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(value + b"\n" for value in values)
    read = [key for batch in programs.values_in(cut_up(stream, sizes), without_return=False) for key in batch]
    assert len(read) == len(values)
    assert len(set(read)) == len(set(values))
    assert all(
        key == value or (len(value) > 200 and key[:200] == value[:200]) for key, value in zip(read, values, strict=True)
    )


@requirement("grep:same-answers")
def test_a_match_as_long_as_the_file_is_answered_alike_by_both_engines() -> None:
    reader = reader_of(b"<" + b"v" * 3_000_000 + b">\n")
    for group in (False, True):
        found = [grep(reader, "v+", group=group, engine=engine) for engine in ("ripgrep", "re2")]
        assert replace(found[0], engine="re2") == found[1]
        assert found[0].total == 1
