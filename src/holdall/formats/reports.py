"""Test and build output: the failures are the outline. Totals first, then each failure with its place. The formats that
are known are in one table.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import islice

import stringzilla

from holdall.formats.heads import Head
from holdall.formats.leads import literal
from holdall.formats.lines import error_lines, parts, sample_named
from holdall.formats.outline import (
    MAX_ERRORS,
    Lead,
    Lines,
    Outline,
    Room,
    Sample,
    cut,
    cut_bytes,
    figure,
    fitted,
    scattered,
    split,
)
from holdall.formats.shapes import Shapes, mine
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# Test and build output: the formats by which failures and totals are found. A table; `report_outline` uses it.
#
# Patterns begin with the newline before their line, which the engine finds at the speed of memory, and not with `^`,
# which it tries at every byte.


@record
class Format:
    """`failure` has a group `name`; the last match of `totals` is told. One of `signs` is there, or it is not this."""

    label: str
    signs: tuple[bytes, ...]
    failure: re.Pattern[bytes]
    totals: re.Pattern[bytes]
    after: bytes = b""  # failures are looked for after the last place of this, where there is one
    header: bytes = b""  # how the details of a failure begin, `%s` being its name
    several: bool = False  # all matches of `totals` are told, not only the last
    of_each: bool = False  # … the last of each that begins with another word
    warning: bytes = b""  # what a line has that is a warning
    numbered: bool = False  # tests are named by numbers: two of one name are two failures


_COLOUR = rb"(?:\x1b\[[\d;]{0,20}[mK])*+"
# What a wrapper writes before each line: the time, or the name of a container, an environment or a step.
_STAMPED = (
    rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]? {0,2}|\[?\d\d:\d\d:\d\d\]? {1,4}"
    rb"|[\w.@/-]{1,60} {0,30}\| "
)
_WRAPPED = rb"(?:" + _STAMPED + rb"|\w[\w.-]{0,30}: |\[[\w. /:-]{1,40}\] )?"
_WRAPPER = lazy_pattern((rb"(?:" + _STAMPED + rb")").decode(), re.ASCII)


def _lines(pattern: bytes) -> re.Pattern[bytes]:
    """Lines of that form, in a wrapper too."""
    return re.compile(rb"\n" + _WRAPPED + rb"(?:" + pattern + rb")", re.MULTILINE)


FORMATS = (
    Format(
        "jenkins",
        (
            b"Finished: SUCCESS",
            b"Finished: FAILURE",
            b"Finished: UNSTABLE",
            b"Finished: ABORTED",
            b"Finished: NOT_BUILT",
        ),
        _lines(
            rb"(?P<name>(?:ERROR|FATAL): [^\n]{1,300}|> Task \S+ FAILED|Failed in branch [^\n]{1,200})"
            rb"|\[ERROR\] +(?P<goal>(?:Failed to execute goal |[\w.$]+[.:#][\w$:.]+)[^\n]{1,300})"
            rb"|(?:FAILED|ERROR) (?P<test>\S+::[^\n]{1,300})"
        ),
        _lines(
            rb"(?:\[\w+\] )?(?P<totals>Tests run: [^\n]{1,120}|BUILD [A-Z]{4,12}[^\n]{0,40}|Finished: [A-Z_]+"
            rb"|=+ [^\n=]{0,200}(?:passed|failed|error)[^\n=]{0,120} =+)"
        ),
        of_each=True,
        warning=b"WARN",
    ),
    Format(
        "pytest",
        (b"= test session starts =", b"= short test summary info =", b" passed in ", b" failed in ", b" skipped in "),
        _lines(rb"(?:FAILED|ERROR) (?P<name>[^\s=][^\n]{0,300})"),
        _lines(
            rb"(?:=+ )?(?P<totals>(?:\d+ (?:x?passed|x?failed|errors?|skipped|deselected|warnings?|rerun)(?:, )?)+"
            rb" in [\d.:]+ ?s[^\n=]{0,40}?|no tests ran in [^\n=]{1,40}?)(?: =+)?\r?$"
        ),
        after=b"= short test summary info =",
        header=b"_ %s _",
    ),
    Format(
        "unittest",
        (b"\nRan ",),
        _lines(rb"(?:FAIL|ERROR): (?P<name>[^\n]{1,300})"),
        _lines(rb"(?P<totals>Ran \d+ tests? in [^\n]{1,40}\r?\n\r?\n(?:OK|FAILED)[^\n]{0,100})"),
    ),
    Format(
        "go test",
        (b"--- FAIL: ", b"=== RUN ", b"\nok  \t", b"--- PASS: "),
        _lines(rb" {0,16}--- FAIL: (?P<name>[^\n]{1,300})"),
        _lines(rb"(?P<totals>(?:FAIL\t|ok  \t)[^\n]{1,200})"),
        several=True,
    ),
    Format(
        "cargo test",
        (b"test result: ",),
        _lines(rb"test (?P<name>[^\n]{1,200}?) \.\.\. FAILED"),
        _lines(rb"(?P<totals>test result: [^\n]{1,200})"),
        header=b"---- %s stdout ----",
        several=True,
    ),
    Format(
        "jest",
        (b"Test Suites: ",),
        _lines(rb" {0,8}\xe2\x97\x8f (?P<name>[^\n]{1,300})"),
        _lines(rb"(?P<totals>Tests: [^\n]{1,200})"),
    ),
    Format(
        "mocha",
        (b" passing (", b" passing\n"),
        _lines(rb" {1,12}\d{1,5}\) (?P<name>[^\n]{1,300})"),
        _lines(rb" {0,8}(?P<totals>\d+ (?:passing|failing|pending)[^\n]{0,40})"),
        several=True,
    ),
    Format(
        "maven",
        (b"[INFO] BUILD ", b"[ERROR] COMPILATION ERROR", b"[INFO] Scanning for projects", b"Tests run: "),
        _lines(
            rb"\[ERROR\] +(?P<name>(?:[\w.$]+[.:#][\w$:.]+|\S+\.java:\[|Failed to execute goal )[^\n]{0,300})"
            rb"|\[INFO\] (?P<module>\S[^\n]{0,120}?) \.{2,} FAILURE\b"
        ),
        _lines(rb"(?:\[\w+\] )?(?P<totals>Tests run: [^\n]{1,120}|BUILD (?:SUCCESS|FAILURE))"),
        of_each=True,
        warning=b"[WARNING]",
    ),
    Format(
        "gradle",
        (b"BUILD FAILED in", b"BUILD SUCCESSFUL in", b"\n> Task :"),
        _lines(rb"(?P<name>[^\n>]{1,200} > [^\n]{1,200}) FAILED|> Task (?P<task>\S+) FAILED"),
        _lines(rb"(?P<totals>\d+ tests? completed[^\n]{0,100}|BUILD (?:FAILED|SUCCESSFUL)[^\n]{0,60})"),
        several=True,
        warning=b"warning: ",
    ),
    Format(
        "TAP",
        (b"TAP version ", b"\nnot ok "),
        _lines(rb"not ok (?![^\n]{0,300}# ?(?i:todo)\b)(?P<name>[^\n]{1,300})"),  # what is to do may fail
        _lines(rb"# (?P<totals>(?:tests|pass|fail|skip)\w* +\d+)"),
        several=True,
        numbered=True,
    ),
    Format(
        "tests",
        (b" passed, ", b" failed, ", b" failures, "),
        _lines(
            rb"_{4,80}+ (?P<name>[^\s:/.]{0,200}+[:/.]\S{1,200}+) _{4,}\r?$"
            rb"|(?P<task>[^\s_][^\n]{0,200}(?<! )) {1,40}(?:FAILED|FAIL)\r?$"
        ),
        _lines(rb"(?P<totals>[^\n]{0,80}\b\d+ (?:passed|failed|failures)\b,[^\n]{0,160})"),
    ),
)

DIAGNOSTIC = lazy_pattern(
    rb"(?P<place>[^\s:(][^\n:(]{0,200}(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))): (?:fatal )?error\b[: ]"
    rb"(?P<text>[^\n]{0,300})"
    rb"|(?P<rust>error(?:\[E\d+\])?: [^\n]{1,300})"
    rb"| {1,8}(?P<lint>\d+:\d+ +error +[^\n]{1,300})"
    rb"|(?P<make>(?:g?make|ninja)(?:\[\d+\])?: (?:\*\*\* |build stopped)[^\n]{1,300})"
    rb"|(?P<npm>npm ERR! [^\n]{1,200})"
)
"""What the line of an error looks like; tried on lines that have one of the signs."""
BUILD_SIGNS = (b": error", b"\nerror: ", b"\nerror[E", b": *** ", b"  error  ", b": fatal error", b"npm ERR!")
WARNING_SIGNS = (b": warning: ", b": warning ", b"\nwarning: ", b"\nwarning[", b"  warning  ")
RUST = lazy_pattern(rb"(?m)^(?:error|warning)\[E\d|^ {1,8}--> |^ {1,4}(?:Compiling|Checking|Finished) ")
CLOSING = lazy_pattern(
    rb"error: (?:could not compile |aborting due to )"
    rb"|(?:g?make|ninja)(?:\[\d+\])?: (?:\*\*\* (?:\[[^\n]{1,300}\] Error |Waiting for )|build stopped)"
)
SUMMED_UP = lazy_pattern(
    rb"(?m)^warning: (?:`[^`\n]{1,200}` [^\n]{0,200}generated \d+ warnings?|\d+ warnings? emitted)"
)
"""What cargo writes, and how it closes: with the number of its errors and warnings, which is none of them. Nor is what
make says when a command of its own has failed, at each of its levels."""
_CUT_SHORT = lazy_pattern(rb"\nonly showing the first \d+ (errors|warnings), of \d+ total")  # javac
STATUSES = (b"PASSED", b"FAILED", b"ERROR", b"SKIPPED", b"XFAIL", b"XPASS", b"WARNING")


_CODES = lazy_pattern(rb"\x1b\[[\d;]{0,20}[mK]")  # of colours, and what gcc writes behind each
_TOOK = lazy_pattern(r" \([0-9.]{1,20} ?m?s\)\s*\Z")  # behind the name of a test, how long it did
_MOST = 5000  # failures that are collected
_TRIED = 3000  # places of one sign that are looked at
_SIGNS_IN = 48 * 1024  # of both ends, where such output says what it is and what came of it
_WARNINGS = 10_000  # of one sign
_SHOWN = 30
_FAILURE = 200  # characters of one
_FREQUENT = 3  # shapes of lines besides
_DETAILED = 5  # failures whose details are looked for
_NAMED, _NAME_CHARS = 3, 80  # failures that are told with little room, at least by their names; characters of one
_DETAILS_END = lazy_pattern(rb"\n" + _WRAPPED + _COLOUR + rb"(?:_{3,} |={3,} |-{3,} |----)")
_DETAILS = 6000  # bytes of one failure's details, at most
_RULE = lazy_pattern(r"([-=_*~])\1{2}")  # a title between lines
_REASON = lazy_pattern(rb"\nE {3,}(?P<reason>[^\n]{1,300})")
_READ, _ABOVE, _BELOW = 1200, 9, 3  # bytes and lines around the reason of a failure
_NAME = lazy_pattern(r"[\w$-]{3,60}", re.ASCII)
_PLACED = lazy_pattern(rb"\n[^\s:]{1,200}:\d+:\d+: error")


_MADE_SIGNS = (b"\nmake", b"make: ", b"make[", b"gmake", b"ninja: ", b"%] ", b"\n[1/")
_MADE = lazy_pattern(
    rb"\n(?P<totals>g?make(?:\[\d+\])?: (?:Nothing to be done|[^\n]{1,200} is up to date|Leaving directory)[^\n]{0,200}"
    rb"|\[ {0,2}\d{1,3}%\] [^\n]{1,200}|\[\d+/\d+\] [^\n]{1,200}|ninja: no work to do[^\n]{0,40})"
)
_OF_MAKE = lazy_pattern(
    r"g?make(?:\[\d+\])?: |\[ {0,2}\d{1,3}%\] |\[\d+/\d+\] |ninja: |-- |libtool: "
    r"|(?:/\S{1,200}/)?(?:[\w-]{0,40}(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(?:-\d+)?"
    r"|ar|ld|rustc|install|mkdir|cp|mv|rm|ln|echo|ranlib|strip) "
    r"| {0,4}(?:CC|CXX|LD|AR|GEN|HOSTCC|INSTALL|AS|MKDIR) +\S"
    r"|\S{1,200}:\d+(?::\d+)?: (?:warning|note): | {1,8}(?:\d+ )?\|"
)


@record(frozen=False)
class _Found:
    label: str
    totals: list[str]
    failures: list[tuple[int, bytes]]  # place and name
    header: bytes = b""
    noun: str = "failure"
    complete: bool = True  # all failures of what was read
    each: bool = False  # each is told, also with the same name as another
    leads: list[Lead] = field(default_factory=list[Lead])


def report_outline(sample: Sample, room: Room, *, only_known: bool = False) -> Outline | None:
    """None if it is neither test nor build output. `only_known`: what only looks like some runner does not count."""
    found = _find(plain := _uncoloured(sample), only_known=only_known)
    if found is None:
        return None
    if plain is not sample:
        found.failures = [*_as_stored(found.failures, sample)]
        found.leads = []  # their patterns would meet the codes
    return _told(found, sample, room)


def _find(sample: Sample, *, only_known: bool) -> _Found | None:
    for form in FORMATS:
        if _has(sample, form.signs) and not (only_known and form.label == "tests"):
            found = _look(form, sample)
            if (found.totals or found.failures) and _is_most(form, sample):
                return found
    return None if only_known else _build(sample) or _made(sample)


def _uncoloured(sample: Sample) -> Sample:
    """Without the codes of colours, which stand anywhere in a line. Each piece keeps its start."""
    if not any(stringzilla.find(data, b"\x1b[") >= 0 for _, data in sample.pieces):
        return sample
    return replace(sample, pieces=tuple((start, _CODES.sub(b"", data)) for start, data in sample.pieces))


def _as_stored(failures: list[tuple[int, bytes]], sample: Sample) -> Iterator[tuple[int, bytes]]:
    """Failures that were found without codes, each where its line starts with them."""
    gone: list[tuple[list[int], list[int]]] = []
    for _, data in sample.pieces:
        places, lengths, length = list[int](), [0], 0
        for code in _CODES.finditer(data):
            places.append(code.start() - length)
            length += code.end() - code.start()
            lengths.append(length)
        gone.append((places, lengths))
    starts = [start for start, _ in sample.pieces]
    for place, name in failures:
        number = bisect_right(starts, place) - 1
        places, lengths = gone[number]
        yield place + lengths[bisect_left(places, place - starts[number])], name


def _is_most(form: Format, sample: Sample) -> bool:
    """Whether the report begins in the first half of the output: else it is one part of something larger."""
    if form.label != "pytest" or not sample.whole:
        return True
    begin = stringzilla.find(sample.head, form.signs[0])
    return begin < max(4096, len(sample.head) // 2)


def _has(sample: Sample, signs: tuple[bytes, ...]) -> bool:
    if sample.whole and len(sample.head) <= 2 * _SIGNS_IN:  # its ends meet
        return any(stringzilla.find(sample.head, sign) >= 0 for sign in signs)
    head, tail = sample.head[:_SIGNS_IN], sample.tail[-_SIGNS_IN:]
    return any(stringzilla.find(head, sign) >= 0 or stringzilla.find(tail, sign) >= 0 for sign in signs)


def _build(sample: Sample, *, is_one: bool = False) -> _Found | None:
    """`is_one`: it is the output of a build, wherever its errors stand."""
    if not is_one and not _has(sample, BUILD_SIGNS):
        return None
    places: dict[int, re.Match[bytes]] = {}
    complete = True
    for start, data in sample.pieces:
        for sign in BUILD_SIGNS:
            tried = list(islice(_lines_with(data, sign), _TRIED // len(sample.pieces)))
            complete &= len(tried) < _TRIED // len(sample.pieces)
            for at in tried:
                match = DIAGNOSTIC.match(data, at)
                if match and (at or not start):
                    places.setdefault(start + at, match)
    if not places:
        return None
    kinds = {match.lastgroup for match in places.values()}
    if kinds == {"rust"} and not is_one and not any(RUST.search(data) for _, data in sample.pieces):
        return None  # many programs say `error: …`
    failures = [(at, places[at][0].strip()) for at in sorted(places)]
    failures = [one for one in failures if not CLOSING.match(one[1])] or failures
    more = _CUT_SHORT.findall(sample.tail[-_SIGNS_IN:])
    mark = "" if sample.whole and complete and b"errors" not in more else "at least "
    about = _warnings(sample, all_shown=b"warnings" not in more)
    names = (("rust", "cargo build"), ("lint", "lint output"), ("text", "compiler output"), ("make", "make output"))
    label = next((label for kind, label in names if kind in kinds), "build output")
    found = _Found(
        label,
        [f"{mark}{plural(len(failures), 'error')}, {about}"],
        failures,
        noun="error",
        complete=complete,
        each=True,
    )
    if any(_PLACED.search(b"\n" + name) for _, name in failures[:3]):
        found.leads = [Lead("grep", {"pattern": r"^([^:\s]+):\d+:\d+: error", "group": True})]
    return found


def _made(sample: Sample) -> _Found | None:
    """What `make`, `ninja` or CMake writes when all goes well: how far it came, and its warnings."""
    last = list(islice(_MADE.finditer(b"\n" + sample.tail[-_SIGNS_IN:]), _TRIED))
    if not _has(sample, _MADE_SIGNS) or not last:
        return None
    lines = [line for line in scattered(sample) if line.strip()]
    if sum(_OF_MAKE.match(line) is not None for line in lines) * 2 < len(lines):
        return None
    if found := _build(sample, is_one=True):  # it was cut, or goes on after errors
        return found
    return _Found("make output", [cut(_text(last[-1]["totals"]), 160), _warnings(sample)], [], noun="error")


def _warnings(sample: Sample, *, all_shown: bool = True) -> str:
    exact, number = _count_lines(WARNING_SIGNS, sample)
    number -= sum(len(SUMMED_UP.findall(data)) for _, data in sample.pieces)
    return f"{'' if exact and all_shown else 'at least '}{plural(number, 'warning')}"


def _lines_having(sign: bytes, sample: Sample) -> str:
    exact, number = _count_lines((sign,), sample)
    return f"{'' if exact else 'at least '}{plural(number, 'line')}" if number else ""


def _count_lines(signs: tuple[bytes, ...], sample: Sample) -> tuple[bool, int]:
    """How many lines have one of the signs, and whether these are all."""
    exact, places = sample.whole, set[int]()
    for start, data in sample.pieces:
        for sign in signs:
            found = [start + at for at in islice(_lines_with(data, sign), _WARNINGS)]
            exact &= len(found) < _WARNINGS
            places.update(found)
    return exact, len(places)


def _lines_with(data: bytes, sign: bytes) -> Iterator[int]:
    """Where the lines start that have the sign; each once."""
    at = stringzilla.find(data, sign)
    while at >= 0:
        start = data.rfind(b"\n", max(0, at - 400), at + 1) + 1
        yield start
        end = data.find(b"\n", at + 1, at + 4000)
        at = stringzilla.find(data, sign, end) if 0 <= end < len(data) else -1


def _look(form: Format, sample: Sample) -> _Found:
    tail = sample.tail[-_SIGNS_IN:]
    totals = [match["totals"].strip(b"= ") for _, match in _matches(form.totals, tail, first=sample.whole)]
    if form.of_each:
        last = {each.split(maxsplit=1)[0]: each for each in totals}
        chosen = [each for at, each in enumerate(totals) if each in last.values() and each not in totals[at + 1 :]]
    else:
        chosen = totals[-3:] if form.several else totals[-1:]
    told = [cut(" ".join(_text(each).split()), 160) for each in chosen[-4:]]
    found = _Found(form.label, told, [], form.header, each=form.numbered)
    warned = _lines_having(form.warning, sample) if form.warning else ""
    found.totals += [f"{warned} with {form.warning.decode().strip(' :')}"] if warned else []
    last_section = stringzilla.rfind(sample.tail, form.after) if form.after else -1
    for start, data in sample.pieces if last_section < 0 else sample.pieces[-1:]:
        since = max(0, last_section)
        for at, match in _matches(form.failure, data[since:], first=not start + since):
            if len(found.failures) >= _MOST:
                found.complete = False
                break
            found.failures.append((start + since + at, match[match.lastindex or 0]))
    return found


def _matches(pattern: re.Pattern[bytes], data: bytes, *, first: bool) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Matches of a pattern that begins with a newline, with the start of the line. `first`: `data` starts with one."""
    if first:
        yield from ((match.start(), match) for match in pattern.finditer(b"\n" + data))
    else:
        yield from ((match.start() + 1, match) for match in pattern.finditer(data))


def _told(found: _Found, sample: Sample, room: Room) -> Outline:
    first: dict[bytes, tuple[int, bytes]] = {}
    times = Counter[bytes]()  # where each counts, one that is there again is told once, with how often it is there
    for place, name in found.failures:
        key = name.strip() if found.each else name.split(b" - ")[0].strip()
        first.setdefault(key, (place, name))
        times[key] = times[key] + 1 if found.each else 1
    ordered = list(first.items())
    lines = [" · ".join(found.totals)] if found.totals else []
    ranges: list[tuple[int, int, str]] = []
    for number, (key, (place, name)) in enumerate(ordered[:_SHOWN]):
        details = _details(sample, key, found.header) if found.header and number < _DETAILED else None
        if details:
            ranges.append((*details, f"details of {cut(_text(key), 80)}"))
        lines.append(_failure(found, sample, place, name, details) + _again(times[key], found, sample))
    more = "… at least 12,345 more failures"
    kept = list(fitted(lines, room.after([more]))) if lines else []
    if len(kept) <= bool(found.totals) and len(lines) > len(kept):  # one failure is told, however little room there is
        kept.append(room.after([*kept, more]).cut(lines[len(kept)], _FAILURE))
    for at in range(len(kept) - bool(found.totals), min(len(ordered), _NAMED)):  # a few more by their names alone
        key, (place, name) = ordered[at]
        brief = _failure(found, sample, place, cut(_text(name).split(" - ")[0], _NAME_CHARS).encode(), None)
        kept.append(brief + _again(times[key], found, sample))
    left = times.total() - sum(times[key] for key, _ in ordered[: len(kept) - bool(found.totals)])
    if left > 0:
        kept.append(f"… {'' if found.complete and sample.whole else 'at least '}{plural(left, f'more {found.noun}')}")
    errors = [(place, cut_bytes(_line_at(sample, place))) for place, _ in found.failures[:MAX_ERRORS]]
    lines_in = split(sample)
    mined = mine(lines_in, _unwrapped)
    kept += _by_status(sample, found.totals)
    known = [(place, place + 1) for place, _ in found.failures] + [(start, end) for start, end, _ in ranges]
    kept += _rest(known, mined, lines_in, sample, room.after(kept))
    reasons = _why_it_failed(sample, *ranges[0][:2]) if ranges else ()
    return Outline(
        found.label,
        tuple(kept),
        not mined.exact or not found.complete,
        tuple(errors or error_lines(mined, lines_in)),
        tuple(ranges),
        reasons or _leads(found, [_text(key) for key, _ in ordered[:1]]),
        ends=not kept,
    )


def _unwrapped(line: str) -> Head:
    wrapper = _WRAPPER.match(line)
    return Head(body=line[wrapper.end() :] if wrapper else line)


def _failure(found: _Found, sample: Sample, place: int, name: bytes, details: tuple[int, int] | None) -> str:
    text = cut(_text(name).strip(), _FAILURE)
    if found.label == "compiler output":
        return f"{sample.place(place)} {text}"
    note = f" · its details: {_lines_of(sample, *details)}" if details else ""
    if details and (" - " not in text or text.endswith(("...", "…"))):
        reason = _REASON.search(_part(sample, *details))
        note += f": {cut(_text(reason['reason']).strip(), 120)}" if reason else ""
    return f"FAILED {text} · {sample.place(place)}{note}"


def _again(times: int, found: _Found, sample: Sample) -> str:
    return f" · {'' if found.complete and sample.whole else 'at least '}{times:,} times" if times > 1 else ""


def _rest(known: list[tuple[int, int]], mined: Shapes, lines: Lines, sample: Sample, room: Room) -> list[str]:
    """What else is in it, where there is room."""
    if room.cost("x" * 100) > room.size:
        return []
    frequent, rare = parts(mined, lines, sample, room, known=known, most=_FREQUENT, passed_over=_RULE)
    return [*(sample_named(mined, lines) if frequent else []), *frequent, *rare]


def _why_it_failed(sample: Sample, start: int, end: int) -> tuple[Lead, ...]:
    """Of the details of a failure the lines around the first reason, or the last ones: above it stands what ran."""
    lines = _part(sample, start, end).removesuffix(b"\n").split(b"\n")
    at = next((at for at, line in enumerate(lines) if at and _REASON.match(b"\n" + line)), len(lines) - 1)
    first = last = at
    room = _READ - len(lines[at])
    while first > max(0, at - _ABOVE) and (room := room - len(lines[first - 1])) > 0:
        first -= 1
    while last < min(len(lines) - 1, at + _BELOW) and (room := room - len(lines[last + 1])) > 0:
        last += 1
    number = sample.line(start)
    return () if number is None else (Lead("read", {"lines": f"{number + first}:{number + last}"}),)


def _leads(found: _Found, failed: list[str]) -> tuple[Lead, ...]:
    leads = list(found.leads)
    for name in failed:
        words = _NAME.findall(_TOOK.sub("", name.split("[")[0].split(" - ")[0]))
        if words and not found.leads:
            leads.append(Lead("grep", {"pattern": literal(words[-1]), "before": 3, "after": 3}))
    return tuple(leads)


_TOTALLED = lazy_pattern(r"\b(\d+) (passed|failed|error|skipped|xfail|xpass|warning)", re.IGNORECASE)


def _by_status(sample: Sample, totals: Sequence[str]) -> list[str]:
    """How many lines begin with each of the words that say what became of a test, and a space: tests write others.
    Nothing where the totals say the same.
    """
    words = {word: sample.count(b"\n" + word + b" ") + sample.head.startswith(word + b" ") for word in STATUSES}
    told = [
        f"{word.decode()} {figure(times, sample.whole)}"
        for word, times in sorted(words.items(), key=lambda each: -each[1])
        if times
    ]
    totalled = {word.upper().encode(): int(number) for number, word in _TOTALLED.findall(" ".join(totals))}
    is_told = sample.whole and all(totalled.get(word) == times for word, times in words.items() if times)
    return [f"lines that begin with {', '.join(told)}, then a space"] if len(told) > 1 and not is_told else []


def _details(sample: Sample, key: bytes, header: bytes) -> tuple[int, int] | None:
    """Where the traceback of a failure stands, told from the line above it."""
    name = key.split(b"::", 1)[1].replace(b"::", b".") if b"::" in key else key.split(b" ")[0]
    title = header.replace(b"%s", name)
    for start, data in sample.pieces:
        at = stringzilla.find(data, title)
        if at >= 0:
            begin = data.rfind(b"\n", max(0, at - 400), at) + 1
            after = data.find(b"\n", at, at + 4000) + 1 or min(len(data), at + 4000)
            end = _DETAILS_END.search(data, after, begin + _DETAILS)
            stop = (
                end.start() + 1 if end else min(len(data), max(after, data.rfind(b"\n", after, begin + _DETAILS) + 1))
            )
            return start + begin, start + stop
    return None


def _lines_of(sample: Sample, start: int, end: int) -> str:
    first, last = sample.line(start), sample.line(max(start, end - 1))
    return f"bytes {start:,}–{end:,}" if first is None or last is None else f"L{first:,}–{last:,}"


def _part(sample: Sample, start: int, end: int) -> bytes:
    for at, data in reversed(sample.pieces):
        if start >= at:
            return data[start - at : end - at]
    return b""


def _line_at(sample: Sample, place: int) -> bytes:
    return _part(sample, place, place + 400).split(b"\n", 1)[0]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
