"""ripgrep gives the answers of a reference, whatever shortcuts it takes, and a search leaves nothing behind."""

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from importlib.metadata import Distribution, PackagePath
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.search import ripgrep as programs
from holdall.search.pattern import Pattern, read_pattern
from holdall.search.ripgrep import Command, Places, Spread, Want, command_for, first_bytes, output_of, written
from holdall.store.reader import FileReader
from holdall.values.errors import BadPattern, WorkerFault
from holdall.verbs.grep import grep
from tests.requirements import requirement
from tests.search.reference import Reference, for_python
from tests.support import reader_of

# ── The answers of a reference ────────────────────────────────────────────────────────────────────────────────────────

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


def read(pattern: str, *, ignore_case: bool = False) -> Pattern | None:
    try:
        return read_pattern(pattern, ignore_case=ignore_case)
    except BadPattern:
        return None  # a count of a count, or of an edge


def printed(pattern: Pattern, want: Want, data: bytes) -> bytes:
    return b"".join(output_of(command_for(pattern, want, [data]), seconds=60))


def offsets_only(output: bytes) -> bytes:
    """ripgrep prints something after the offset of a line, and what that is does not matter."""
    return re.sub(rb"(?m)^(\d+:).*$", rb"\1", output)


@requirement("grep:same-answers")
@settings(max_examples=max(80, settings().max_examples))
@given(patterns, texts, st.booleans())
def test_any_pattern_finds_in_any_bytes_what_the_reference_finds(text: str, data: bytes, ignore_case: bool) -> None:
    pattern = read(text, ignore_case=ignore_case)
    if pattern is None:
        return
    reference = Reference(pattern)
    places = printed(pattern, "places", data)
    assert (offsets_only(places) if pattern.can_be_empty else places) == reference.places(data)
    assert printed(pattern, "values", data) == reference.values(data)
    assert int(printed(pattern, "count", data) or 0) == reference.count(data)
    assert bool(printed(pattern, "any", data)) == bool(reference.count(data))


# What misleads ripgrep is a literal that also stands inside of another way to match: an alternative, an optional part, a
# repeated class. These patterns are made of little else, and each is tried on every line that can be written in short.

_ITEMS = ["a", "b", "x", "ab", "ba", "bb", "xa", ".", "[ab]", "[^a]", r"\w", "(?i:B)"]
_item = st.sampled_from(_ITEMS)
_few = st.lists(_item, min_size=1, max_size=3).map("".join)
_maybe = st.lists(_item, max_size=2).map("".join)
_literal = st.sampled_from(["a", "b", "ab", "ba", "bb"])
_class = st.sampled_from([".", "[ab]", "[^a]", r"\w", "a", "[^ab]", "[bx]"])
_led = st.builds("{}{}".format, _class, _maybe)
_endless = st.builds("{}{}".format, _class, st.sampled_from(["*", "+", "{2,}", "*?", "+?"]))
_counts = st.sampled_from(["?", "?", "*", "{0,2}", "{1,3}", "??"])
_inside = st.one_of(
    st.builds("{0}{1}{2}|{1}".format, _led, _literal, _maybe),
    st.builds("{1}|{0}{1}{2}".format, _led, _literal, _maybe),
    st.builds("{}|{}|{}".format, _led, _literal, _led),
)
_misleading = st.one_of(
    _inside,
    st.builds("(?:{0}{1}{2}){3}{1}{4}".format, _led, _literal, _maybe, _counts, _maybe),
    st.builds("(?:{0}{1}){2}{1}".format, _led, _literal, _counts),
    st.builds("{}(?:{})".format, _endless, _inside),
    st.builds("{}(?:{}){}".format, _maybe, _inside, _maybe),
    st.builds("{}{}{}{}".format, _endless, _maybe, _endless, _literal),
)
_left_alone = st.one_of(
    st.builds("{}{}{}".format, _endless, _few, _maybe),
    st.builds("{}{}{}".format, _few, _few, st.sampled_from(["", "$", r"\b"])),
    st.lists(_literal, min_size=2, max_size=4).map("|".join),
)
EVERY_LINE = [
    "".join(chars) + ending
    for length, ending in ((0, ""), (1, ""), (2, ""), (3, "\r"), (4, ""), (5, ""), (6, ""))
    for chars in product("abx", repeat=length)
]


@requirement("grep:same-answers", "grep:several-in-a-line", "grep:byte-offsets")
@settings(max_examples=max(120, settings().max_examples))
@given(st.one_of(_misleading, _misleading, _left_alone), st.sampled_from(["", "", "^", r"\b"]), st.booleans())
def test_patterns_that_mislead_ripgrep_find_what_pythons_own_re_finds(text: str, edge: str, ignore_case: bool) -> None:
    pattern = read(f"{edge}(?:{text})" if edge else text, ignore_case=ignore_case)
    if pattern is None or pattern.can_be_empty:
        return
    matcher, at, expected = for_python(pattern), 0, list[str]()
    for line in EVERY_LINE:
        expected += [f"{at + match.start()}:{match[0]}\n" for match in matcher.finditer(line)]
        at += len(line) + 1
    assert printed(pattern, "places", "\n".join(EVERY_LINE).encode()).decode() == "".join(expected)


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
def test_where_ripgrep_goes_wrong_by_itself_the_answer_is_right(pattern: str, text: str, matches: list[str]) -> None:
    found = grep(reader_of(text.encode()), pattern)
    assert [match.match for match in found.matches] == matches


@pytest.mark.parametrize(
    ("pattern", "keeps"),
    [
        ("needle", True),
        ("error|warning|fatal", True),
        ("[0-9]+ ms", True),
        (r"[0-9]+(?:\.[0-9]+)? ms", False),
        (r"\d+\.\d+\.\d+\.\d+", False),
        ("status=5[0-9]{2}", True),
        ("[A-Z]{3}-[0-9]{4}", True),
        ("(?i)error|warning", True),
        (r"(?:GET|POST) /.* 500", True),
        (r"\w+Error: .*timeout", False),
        (r"\w+\s+error", False),
        (".*error.*", True),
        (r"\w+Error", True),
        (r"[a-z]+[0-9]{3}$", True),
        ("(error|warning): ", True),
        ("e.x|ex", False),
        (".bb|b", False),
        ("(?:xab){0,2}bb", False),
        ("[ab]*(?:ba1|b)", False),
    ],
)
def test_ripgrep_keeps_its_shortcuts_only_where_they_are_known_to_be_right(pattern: str, keeps: bool) -> None:
    assert written(read_pattern(pattern)).endswith(r"|\z.)") is not keeps


# ── Finding the program ─────────────────────────────────────────────────────────────────────────────────────


def installed_files_of(info: Path) -> Callable[[str], list[PackagePath] | None]:
    def files(name: str) -> list[PackagePath] | None:
        assert name == "ripgrep"
        return Distribution.at(info).files

    return files


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder on the PATH that may hold an rg, and none that was installed."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    monkeypatch.setattr(metadata, "files", installed_files_of(tmp_path / "nowhere"))
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
    if used:
        assert programs.ripgrep_path() == str(program)
        return
    with pytest.raises(WorkerFault, match="needs ripgrep 14"):
        programs.ripgrep_path()


@requirement("grep:without-ripgrep")
@pytest.mark.usefixtures("elsewhere")
def test_without_ripgrep_the_error_says_what_to_install() -> None:
    with pytest.raises(WorkerFault) as missing:
        grep(reader_of(b"a"), "a")
    assert str(missing.value) == snapshot(
        "grep needs ripgrep 14, and it is not there. Install it with: pip install 'ripgrep<15'"
    )


def test_a_ripgrep_that_pip_put_elsewhere_is_found(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `pip install --user` or `--target`: the folder is neither beside Python nor on the PATH."""
    info = elsewhere / "lib" / "ripgrep-14.1.0.dist-info"
    program = elsewhere / "lib" / "bin" / "rg"
    for folder in (info, program.parent):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ripgrep\nVersion: 14.1.0\n")
    (info / "RECORD").write_text("bin/rg,,\n")
    program.touch(0o755)
    monkeypatch.setattr(metadata, "files", installed_files_of(info))
    assert programs.ripgrep_path() == str(program)


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
    programs.ripgrep_path()  # is looked for once
    return Started(monkeypatch)


def test_after_an_answer_no_process_and_no_pipe_is_left(reader: FileReader, started: Started) -> None:
    assert grep(reader, "hit").total == 50_000
    assert started.are_gone()


def test_a_search_over_its_time_is_killed_and_says_what_to_do(reader: FileReader, started: Started) -> None:
    with pytest.raises(WorkerFault) as stopped:
        grep(reader, "hit", seconds=0.0001)
    assert str(stopped.value) == (
        "the search timed out after 0.0001 seconds and gives no answer. "
        "Search for something narrower, or allow it more time."
    )
    assert started.are_gone()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_in_the_middle_leaves_nothing_behind(
    reader: FileReader,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: type[BaseException],
) -> None:
    def interrupted(self: Places, piece: bytes) -> None:
        raise interrupt

    monkeypatch.setattr(Places, "feed", interrupted)
    with pytest.raises(interrupt):
        grep(reader, "hit")
    assert started.are_gone()


def test_a_search_that_is_left_in_the_middle_ends(reader: FileReader, started: Started) -> None:
    command = command_for(read_pattern("hit"), "places", first_bytes(reader.fileno(), reader.totals.bytes))
    output = output_of(command, seconds=60)
    assert next(output).startswith(b"14:hit\n")
    output.close()
    assert started.are_gone()


def shell(script: str) -> Command:
    return Command((shutil.which("sh") or "sh", "-c", script), ())


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (shell("echo 5:x; kill -9 $$"), WorkerFault, "killed by signal 9"),
        (shell("echo out of luck >&2; exit 3"), WorkerFault, "failed with code 3: out of luck"),
        (shell("exit 2"), WorkerFault, "it said nothing"),
        (shell("echo compiled regex exceeds size limit >&2; exit 2"), BadPattern, "exceeds size limit"),
        (Command(("/nowhere/rg",), ()), WorkerFault, "could not be started: No such file"),
    ],
)
def test_a_program_that_fails_is_an_error_and_never_nothing_found(
    command: Command, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(output_of(command, seconds=60))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets us limit the memory of another process")
def test_a_line_of_very_many_matches_takes_no_more_memory_than_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdall.search.ripgrep._MEMORY", 64 << 20)
    (tmp_path / "line").write_bytes(b"a" * 20_000_000)
    with (tmp_path / "line").open("rb") as file, pytest.raises(WorkerFault, match="one line has very many matches"):
        for _ in output_of(command_for(read_pattern("a"), "places", file.fileno()), seconds=60):
            pass


def test_a_pattern_that_only_its_compiler_refuses_is_a_bad_pattern_too() -> None:
    command = command_for(read_pattern("a"), "count", [b"a"])
    with pytest.raises(BadPattern, match="the pattern cannot be run"):
        list(output_of(replace(command, pattern="(?P<"), seconds=60))


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


@given(records, st.lists(st.integers(1, 200), max_size=20), st.integers(1, 40), st.integers(0, 3))
def test_the_parts_that_hold_matches_are_those_of_all_matches(
    steps: list[tuple[int, bytes]], sizes: list[int], parts: int, most: int
) -> None:
    starts = [sum(step for step, _ in steps[: number + 1]) for number in range(len(steps))]
    stream = b"".join(b"%d:%s\n" % (start, text) for start, (_, text) in zip(starts, steps, strict=True))
    size = (starts[-1] if starts else 0) + 50
    spread = Spread(parts, size)
    places = Places(start=0, most=most, spread=spread)
    for piece in cut_up(stream, sizes):
        places.feed(piece)
    assert spread.found == sorted({start * parts // size for start in starts})


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


def test_a_match_as_long_as_the_file_is_answered() -> None:
    reader = reader_of(b"<" + b"v" * 3_000_000 + b">\n")
    (match,) = grep(reader, "v+").matches
    assert (match.byte, match.end) == (1, 3_000_001)
    (group,) = grep(reader, "v+", group=True).groups
    assert (group.value, group.count) == ("v" * programs.LONG_VALUE, 1)
