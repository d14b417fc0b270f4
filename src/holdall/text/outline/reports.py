"""Test and build output: the formats by which failures and totals are found. A table; `report_outline` uses it.

Patterns begin with the newline before their line, which the engine finds at the speed of memory, and not with `^`,
which it tries at every byte.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """`failure` has a group `name`; the last match of `totals` is told. One of `signs` is there, or it is not this."""

    label: str
    signs: tuple[bytes, ...]
    failure: re.Pattern[bytes]
    totals: re.Pattern[bytes]
    after: bytes = b""  # failures are looked for after the last place of this, where there is one
    header: bytes = b""  # how the details of a failure begin, `%s` being its name
    several: bool = False  # all matches of `totals` are told, not only the last


def _lines(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\n(?:" + pattern + rb")", re.MULTILINE)


FORMATS = (
    Format(
        "pytest",
        (b"= test session starts =", b"= short test summary info ="),
        _lines(rb"(?:FAILED|ERROR) (?P<name>\S[^\n]{0,300})"),
        _lines(rb"=+ (?P<totals>[^\n=]{0,200}(?:passed|failed|error|no tests ran|skipped)[^\n=]{0,120}) =+\r?$"),
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
        (b"Tests run: ", b"[INFO] BUILD ", b"[ERROR] COMPILATION ERROR"),
        _lines(rb"\[ERROR\] +(?P<name>(?:[\w.$]+[.:#][\w$:.]+|\S+\.java:\[)[^\n]{0,300})"),
        _lines(rb"(?:\[\w+\] )?(?P<totals>Tests run: [^\n]{1,120}|BUILD (?:SUCCESS|FAILURE))"),
    ),
    Format(
        "gradle",
        (b"BUILD FAILED in", b"BUILD SUCCESSFUL in", b"\n> Task :"),
        _lines(rb"(?P<name>[^\n>]{1,200} > [^\n]{1,200}) FAILED|> Task (?P<task>\S+) FAILED"),
        _lines(rb"(?P<totals>\d+ tests? completed[^\n]{0,100}|BUILD (?:FAILED|SUCCESSFUL)[^\n]{0,60})"),
        several=True,
    ),
    Format(
        "TAP",
        (b"TAP version ", b"\nnot ok "),
        _lines(rb"not ok (?P<name>[^\n]{1,300})"),
        _lines(rb"# (?P<totals>(?:tests|pass|fail|skip)\w* +\d+)"),
        several=True,
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

DIAGNOSTIC = re.compile(
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
STATUSES = (b"PASSED", b"FAILED", b"ERROR", b"SKIPPED", b"XFAIL", b"XPASS", b"WARNING")
