"""Outlines by kind: exact texts for small outputs, each as a model would see it."""

import datetime
import json
import re
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.formats.heads import tally
from tests.requirements import requirement
from tests.support import in_effort
from tests.text.outline_tools import measured, outlined, text_of


def test_like_objects_are_merged_into_one_shape_with_counts_and_optional_keys() -> None:
    users: list[dict[str, Any]] = [
        {"id": n, "name": f"user {n}", "role": "admin" if n % 3 else "guest"} for n in range(9)
    ]
    users[4]["tags"] = ["new", "old"]
    assert text_of(json.dumps({"page": 1, "users": users, "next": None})) == snapshot("""\
json
{page: 1, users: [9], next: null}
$.users[*]: {id: int 0…8, name: str "user 0", role: "admin" ×6|"guest" ×3, tags?: [2 × "new"|"old"]}\
""")


def test_a_map_is_told_from_a_record_by_its_many_like_values() -> None:
    paths = {f"/items/{n}": {"get": {"id": f"get{n}"}} for n in range(40)}
    assert text_of(json.dumps({"openapi": "3.0.0", "paths": paths})) == snapshot("""\
openapi
{openapi: "3.0.0", paths: {40 keys like "/items/20", "/items/39": {get}}}
$.paths.*: {get: {id: str "get0"}}\
""")


def test_json_that_is_cut_off_tells_what_can_be_seen_and_that_it_is_cut() -> None:
    whole = json.dumps([{"sku": f"A-{n}", "qty": n} for n in range(100)])
    assert text_of(whole[:1500]) == snapshot("""\
json
[at least 55 × {sku: str "A-0", qty: int at least 0…53}]
cut off: it ends at byte 1,500 without the closing bracket; the shape is that of the part before\
""")


def test_text_that_follows_json_is_told_with_its_place() -> None:
    rows = json.dumps([{"sku": f"A-{n}", "qty": n} for n in range(100)])
    assert text_of(rows + "\nDone in 3 s\n") == snapshot("""\
json
[100 × {sku: str "A-0", qty: int 0…99}]
other text follows the JSON, from byte 2,781 on\
""")
    assert text_of('{"page": 1, "next": null}\n' + "[ok] Done\n" * 100).split("\n")[0] == "text"  # most of it is that


def test_values_that_stand_one_after_the_other_are_told_as_an_array() -> None:
    records = [json.dumps({"sku": f"A-{n}", "qty": n}) for n in range(100)]
    assert text_of("".join(records)) == snapshot("""\
json
[100 × {sku: str "A-0", qty: int 0…99}]
values one after the other: a path sees them as one array, $[0], $[1], …\
""")
    assert text_of("\n".join(json.dumps(json.loads(record), indent=1) for record in records)) == snapshot("""\
json
[100 × {sku: str "A-0", qty: int 0…99}]
values one after the other: a path sees them as one array, $[0], $[1], …\
""")
    assert text_of("".join(records)[:1500]) == snapshot("""\
json
[at least 58 × {sku: str "A-0", qty: int at least 0…57}]
values one after the other: a path sees them as one array, $[0], $[1], …
cut off: its last value has no end; the shape is that of the part before\
""")
    assert text_of("".join(records) + "\nDone\n") == snapshot("""\
json
[at least 100 × {sku: str "A-0", qty: int at least 0…99}]
values one after the other: a path sees them as one array, $[0], $[1], …
not valid JSON from byte 2,581 on; the shape is that of the part before\
""")


def test_a_large_text_that_does_not_end_as_json_is_not_said_to_be_cut_off() -> None:
    rows = json.dumps([{"id": n, "v": n % 4} for n in range(800_000)])
    assert text_of(rows + "\nDone\n").split("\n")[2] == snapshot(
        "it does not end as JSON does: cut off, or other text follows; the shape is that of the part before"
    )


def test_broken_json_is_told_up_to_where_it_breaks() -> None:
    assert text_of('{"a": 1, "b": [1, 2, {"c": "x"}], "d": oops}') == snapshot("""\
json
{a: 1, b: [3 × {c: "x"|…}|1|2|…]}
not valid JSON from byte 39 on; the shape is that of the part before\
""")


def test_names_and_values_that_are_not_ascii_come_back_as_they_are() -> None:
    assert text_of(json.dumps([{"名": "北京市"}, {"名": "\u00e9"}], ensure_ascii=False)) == snapshot("""\
json
[2 × {名: "北京市"|"é"}]\
""")
    assert text_of(json.dumps({"名": "漢字 \ud83d\ude00"})) == snapshot("""\
json
{名: "漢字 😀"}\
""")


def test_escaped_names_and_values_are_told_as_what_they_stand_for() -> None:
    assert text_of('{"caf\\u00e9": "\\u00e9t\\u00e9", "raw": "été", "lone": "\\ud800"}') == snapshot("""\
json
{café: "été", raw: "été", lone: "�"}\
""")


def test_nan_and_double_names_are_no_trouble() -> None:
    assert text_of('{"a": NaN, "a": 2, "b": -Infinity}') == snapshot("""\
json
{a: 2, b: -Infinity}\
""")


def test_numbers_that_are_none_are_said_beside_their_range() -> None:
    rows = ", ".join(f'{{"x": {"NaN" if n % 3 == 0 else n * 1.5}}}' for n in range(3000))
    assert text_of(f"[{rows}]") == snapshot("""\
json
[3,000 × {x: float|NaN 1.5…4498.5}]\
""")
    assert text_of('[{"x": NaN}, {"x": 1.5}, {"x": NaN}, {"x": 1.5}, {"x": NaN}]') == snapshot("""\
json
[5 × {x: NaN ×3|1.5 ×2}]\
""")


def test_ndjson_is_outlined_as_one_array() -> None:
    rows = "".join(json.dumps({"level": "info" if n % 4 else "error", "ms": n * 3}) + "\n" for n in range(12))
    assert text_of(rows) == snapshot("""\
ndjson
[12 × {level: "info" ×9|"error" ×3, ms: int 0…33}]\
""")


def test_a_table_has_its_columns_with_types_and_ranges() -> None:
    rows = "".join(f'{n},"name, {n}",{n / 4},{"yes" if n % 2 else ""},2024-01-0{n + 1}\n' for n in range(8))
    assert text_of("id,name,share,ok,day\n" + rows) == snapshot("""\
csv
8 rows × 5 columns
id: int 0…7
name: str, all distinct, e.g. "name, 0", "name, 1", "name, 2"
share: float 0…1.75
ok: always "yes" · 4 empty
day: date 2024-01-01…2024-01-08\
""")


def test_the_values_of_a_table_are_told_as_sql_finds_them() -> None:
    rows = "".join(
        f"{1234567890123456789 + n},{1794939134467 + n}, x{n % 2},{n / 7},{10**20 + n},{n * 1e20}\n" for n in range(8)
    )
    assert text_of("id,ms,name,share,wide,far\n" + rows) == snapshot("""\
csv
8 rows × 6 columns
id: int 1234567890123456789…1234567890123456796
ms: int 1794939134467…1794939134474
name: " x0" ×4|" x1" ×4
share: float 0…1
wide: int 100000000000000000000…100000000000000000007
far: float 0…7e+20\
""")
    assert "share: float 0…0.8571428571428571\n" in text_of(
        "id,ms,name,share,wide,far\n" + "".join(rows.splitlines(True)[:7])
    )


def test_columns_side_by_side_with_like_names_are_told_once() -> None:
    header = "country," + ",".join(f"1/{day}/20" for day in range(1, 31))
    rows = [f"{name}," + ",".join(str(base + day) for day in range(30)) for name, base in (("Fiji", 0), ("Togo", 50))]
    assert text_of("\n".join([header, *rows])) == snapshot("""\
csv
2 rows × 31 columns
country: "Fiji" ×1|"Togo" ×1
30 columns 1/1/20 … 1/30/20: int 0…79\
""")


LOG = "".join(
    f"Nov 15 02:{n // 60:02}:{n % 60:02} host sshd[{n}]: Failed password for {user} from 10.0.0.{n} port {4000 + n}\n"
    for n, user in enumerate(["root", "admin", "guest", "pi", "oracle", "test"] * 4)
)


def test_a_log_has_its_times_programs_frequent_shapes_and_rare_lines() -> None:
    log = LOG.replace("\n", "\nNov 15 02:00:00 host sshd[9]: error: maximum attempts exceeded for bob\n", 1)
    assert text_of(log) == snapshot("""\
syslog
Nov 15 02:00:00 → 02:00:23 · 1 program: sshd 25
24 × sshd: Failed password for <*> from <ip> port <n>
… 1 more shape, 1 rare (≤2 lines):
L2 × 1  sshd: error: maximum attempts exceeded for bob\
""")
    assert outlined(log).errors == snapshot(
        ((79, "Nov 15 02:00:00 host sshd[9]: error: maximum attempts exceeded for bob"),)
    )


def test_two_words_at_a_position_stay_apart() -> None:
    log = "".join(
        f"2024-01-01T00:00:{n:02}Z Accepted {'publickey' if n % 3 else 'password'} for bob\n" for n in range(30)
    )
    assert text_of(log) == snapshot("""\
log
2024-01-01T00:00:00Z → 00:00:29Z
20 × Accepted publickey for bob
10 × Accepted password for bob\
""")


def test_the_failures_of_pytest_come_first() -> None:
    report = """\
============================= test session starts ==============================
collected 3 items

test_a.py .F.                                                            [100%]

=================================== FAILURES ===================================
___________________________________ test_two ___________________________________

    def test_two():
>       assert 1 == 2
E       assert 1 == 2

test_a.py:5: AssertionError
=========================== short test summary info ============================
FAILED test_a.py::test_two - assert 1 == 2
========================= 1 failed, 2 passed in 0.03s =========================
"""
    found = outlined(report)
    assert "\n".join([found.label, *found.lines[:3]]) == snapshot("""\
pytest
1 failed, 2 passed in 0.03s
FAILED test_a.py::test_two - assert 1 == 2 · L15 · its details: L7–13
… 6 more shapes, 6 rare (≤2 lines):\
""")
    assert found.errors == snapshot(((518, "FAILED test_a.py::test_two - assert 1 == 2"),))
    assert [report.encode()[start:end].split(b"\n")[0] for start, end, _ in found.ranges] == snapshot(
        [b"___________________________________ test_two ___________________________________"]
    )


def test_with_little_room_three_failures_are_named() -> None:
    named = [f"tests/test_{'part' * 9}_{n}.py::test_{'case' * 9}_{n}" for n in range(9)]
    whole = "\n".join(f"FAILED {one} - AssertionError: {'it is not what it was, ' * 9}" for one in named)
    head = "=== test session starts ===\ncollected 900 items\n\n" + "tests/test_a.py ....F.... [ 10%]\n" * 50
    found = outlined(
        f"{head}=== short test summary info ===\n{whole}\n=== 9 failed, 891 passed in 0.03s ===\n", budget=60
    )
    told = [line for line in found.lines if line.startswith("FAILED")]
    assert [line.split(" · ")[0].split()[1][:30] for line in told] == [one[:30] for one in named[:3]]
    assert "… 6 more failures" in found.lines


def test_the_failures_of_other_runners_are_known_too() -> None:
    go = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    b_test.go:7: no\n--- FAIL: TestB (0.01s)\nFAIL\nFAIL\tx/y\t0.02s\n"
    cargo = "running 2 tests\ntest a::ok ... ok\ntest a::bad ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n"
    unittest = "F.\n======\nFAIL: test_x (m.T)\n------\nTraceback (most recent call last):\nAssertionError\n\n------\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n"
    jest = "FAIL src/a.test.js\n  ● adds › two numbers\n\n    expect(3).toBe(4)\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 4 passed, 5 total\n"
    firsts = [(found.label, *found.lines[:2]) for found in map(outlined, (go, cargo, unittest, jest))]
    assert firsts == snapshot(
        [
            ("go test", "FAIL x/y 0.02s", "FAILED TestB (0.01s) · L5"),
            ("cargo test", "test result: FAILED. 1 passed; 1 failed; 0 ignored", "FAILED a::bad · L3"),
            ("unittest", "Ran 2 tests in 0.001s FAILED (failures=1)", "FAILED test_x (m.T) · L3"),
            ("jest", "Tests: 1 failed, 4 passed, 5 total", "FAILED adds › two numbers · L2"),
        ]
    )
    assert [lead.arguments["pattern"] for lead in outlined(go).leads] == ["TestB"]


@requirement("notice:outline-last-result")
def test_the_last_result_of_a_build_is_told_whatever_wraps_it() -> None:
    maven = (
        "[INFO] Scanning for projects...\n[WARNING] old\n[INFO] Tests run: 2, Failures: 0\n[ERROR] a.FooTest.bar:12 no\n"
        "[ERROR] Tests run: 9, Failures: 1\n[INFO] core ........ FAILURE [ 1 s]\n[INFO] BUILD FAILURE\n"
    )
    jenkins = f"Started by user ann\n{maven}Recording test results\nFinished: UNSTABLE\n"
    gradle = "> Task :app:test FAILED\nA.java:3: warning: x\n\nFooTest > bar FAILED\n\n9 tests completed, 1 failed\nBUILD FAILED in 3s\n"
    pytest = "\x1b[1m=== test session starts ===\x1b[0m\n\x1b[31mFAILED\x1b[0m a.py::test_\x1b[1mx\x1b[0m - no\n\x1b[31m=== \x1b[31m1 failed\x1b[0m, 2 passed in 0.1s ===\x1b[0m\n"
    stamped = "".join(
        f"2026-01-01T00:00:01.1234567Z {line}\n"
        for line in ("= test session starts =", "FAILED a.py::b - no", "= 1 failed in 0.1s =")
    )
    firsts = [(found.label, *found.lines[:3]) for found in map(outlined, (maven, jenkins, gradle, pytest, stamped))]
    assert firsts == snapshot(
        [
            (
                "maven",
                "Tests run: 9, Failures: 1 · BUILD FAILURE · 1 line with [WARNING]",
                "FAILED a.FooTest.bar:12 no · L4",
                "FAILED core · L6",
            ),
            (
                "jenkins",
                "Tests run: 9, Failures: 1 · BUILD FAILURE · Finished: UNSTABLE · 1 line with WARN",
                "FAILED a.FooTest.bar:12 no · L5",
                "… 9 more shapes, 9 rare (≤2 lines):",
            ),
            (
                "gradle",
                "9 tests completed, 1 failed · BUILD FAILED in 3s · 1 line with warning",
                "FAILED :app:test · L1",
                "FAILED FooTest > bar · L4",
            ),
            (
                "pytest",
                "1 failed, 2 passed in 0.1s",
                "FAILED a.py::test_x - no · L2",
                "… 2 more shapes, 2 rare (≤2 lines)",
            ),
            ("pytest", "1 failed in 0.1s", "FAILED a.py::b - no · L2", "… 2 more shapes, 2 rare (≤2 lines):"),
        ]
    )


def test_errors_of_a_compiler_are_listed_with_their_places() -> None:
    build = "cc -c a.c\na.c:3:5: warning: unused 'x'\na.c:9:1: error: expected ';' before '}'\nb.c:1:10: fatal error: no.h: No such file\nmake: *** [a.o] Error 1\n"
    assert text_of(build) == snapshot("""\
compiler output
2 errors, 1 warning
L3 a.c:9:1: error: expected ';' before '}'
L4 b.c:1:10: fatal error: no.h: No such file
… 3 more shapes, 3 rare (≤2 lines):
L5 × 1  make: *** [a.o] Error 1
L2 × 1  a.c:3:5: warning: unused 'x'\
""")


def test_what_a_compiler_did_not_show_is_told_as_at_least() -> None:
    build = "".join(f"A{n}.java:{n}: error: cannot find symbol\n" for n in range(1, 101))
    build += (
        "100 errors\nonly showing the first 100 errors, of 160 total; use -Xmaxerrs if you would like to see more\n"
    )
    assert text_of(build).splitlines()[1] == "at least 100 errors, 0 warnings"


def test_what_cargo_closes_with_is_no_error_and_no_warning() -> None:
    build = "   Compiling foo v0.1.0\n"
    code = "  |\n9 | let x = 1;\n  |     ^\n\n"
    build += "".join(f"warning: unused variable: `x{n}`\n --> src/a.rs:{n}:9\n{code}" for n in range(1, 31))
    build += "".join(f"error[E0308]: mismatched types {n}\n --> src/b.rs:{n}:9\n{code}" for n in range(1, 4))
    build += 'warning: `foo` (bin "foo") generated 30 warnings\n'
    build += 'error: could not compile `foo` (bin "foo") due to 3 previous errors; 30 warnings emitted\n'
    told = text_of(build).splitlines()
    assert told[:2] == ["cargo build", "3 errors, 30 warnings"]
    assert not any("could not compile" in line for line in told if line.startswith("FAILED"))


@pytest.mark.parametrize(
    "last", ["error: failed to push some refs", "error: subprocess-exited-with-error", "error: see below"]
)
def test_a_line_that_says_error_does_not_make_it_a_build_of_cargo(last: str) -> None:
    told = text_of("".join(f"copying file {n} to target\n" for n in range(500)) + last + "\n")
    assert "cargo" not in told
    assert last in told


def test_colours_hide_neither_errors_nor_warnings() -> None:
    bold, red, none = "\x1b[01m\x1b[K", "\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"
    build = "".join(f"{bold}a.c:{line}:5:{none} {red}warning: {none}unused '{bold}x{none}'\n" for line in range(1, 9))
    build += f"{bold}a.c:9:1:{none} {red}error: {none}expected ';'\nmake: *** [a.o] Error 1\n"
    told = text_of(build)
    assert told.splitlines()[:4] == [
        "compiler output",
        "1 error, 8 warnings",
        "L9 a.c:9:1: error: expected ';'",
        "8 × a.c:<n>:<n>: warning: unused 'x'",
    ]
    assert "[K" not in told


def test_a_stack_trace_is_told_by_its_exception_and_innermost_frames() -> None:
    python = 'start\nTraceback (most recent call last):\n  File "/app/main.py", line 10, in run\n    get()\n  File "/app/db.py", line 4, in get\n    raise KeyError("id")\nKeyError: \'id\'\nend\n'
    java = "Exception in thread main java.lang.IllegalStateException: no\n\tat a.B.c(B.java:7)\n\tat a.Main.main(Main.java:3)\n"
    go = "panic: boom\n\ngoroutine 1 [running]:\nmain.f()\n\t/src/main.go:5 +0x1d\n"
    assert [text_of(each).split("\n")[:2] for each in (python, java, go)] == snapshot(
        [
            ["python stack trace", "L2 KeyError: 'id' ← db.py:4 in get ← main.py:10 in run"],
            [
                "java stack trace",
                "L1 Exception in thread main java.lang.IllegalStateException: no ← a.B.c(B.java:7) ← a.Main.main(Main.java:3)",
            ],
            ["go stack trace", "L1 panic: boom ← /src/main.go:5"],
        ]
    )
    found = outlined(python)
    assert [python[start:end].rsplit("\n", maxsplit=1)[-1] for start, end, _ in found.ranges] == snapshot(
        ["KeyError: 'id'"]
    )


def test_a_python_trace_is_told_by_its_innermost_frame_however_deep_it_is() -> None:
    def deep(frames: int) -> str:
        lines = (f'  File "/src/a.py", line {n}, in f{n}\n    f{n + 1}()\n    ~~~^^\n' for n in range(frames))
        return f"Traceback (most recent call last):\n{''.join(lines)}ValueError: the reason\n"

    group = """\
  + Exception Group Traceback (most recent call last):
  |   File "/src/a.py", line 5, in main
  |     async with asyncio.TaskGroup() as group:
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/src/a.py", line 2, in f
    |     raise ValueError(1)
    | ValueError: 1
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/src/a.py", line 2, in f
    |     raise KeyError(2)
    | KeyError: 2
    +------------------------------------
"""
    assert [text_of(each).split("\n")[1:5] for each in (deep(90), deep(3_000), deep(9_000), group)] == snapshot(
        [
            [
                "L1 ValueError: the reason ← a.py:89 in f89 ← a.py:88 in f88",
                '90 × File "<path>", line <n>, in f<n>',
                "90 × f<n>()",
                "90 × ~~~^^",
            ],
            [
                "L1 ValueError: the reason ← a.py:2999 in f2999 ← a.py:2998 in f2998",
                '3,000 × File "<path>", line <n>, in f<n>',
                "3,000 × f<n>()",
                "3,000 × ~~~^^",
            ],
            ["L1 Traceback", '9,000 × File "<path>", line <n>, in f<n>', "9,000 × f<n>()", "9,000 × ~~~^^"],
            [
                "at least 3 different stack traces",
                "L1 ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions) ← a.py:5 in main",
                "L6 ValueError: 1 ← a.py:2 in f",
                "L11 KeyError: 2 ← a.py:2 in f",
            ],
        ]
    )


def test_a_diff_has_its_files_with_lines_added_and_removed() -> None:
    diff = "diff --git a/x.py b/x.py\nindex 1..2\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n same\n-old\n+new\n+more\ndiff --git a/y.md b/y.md\nnew file mode 100644\n--- /dev/null\n+++ b/y.md\n@@ -0,0 +1 @@\n+text\n"
    assert text_of(diff) == snapshot("""\
diff
2 files, +3 −1
+2 −1  x.py · L1
+1 −0  y.md (new) · L10\
""")


def test_pages_and_markdown_have_their_headings() -> None:
    page = "<!DOCTYPE html><html><head><title>A page</title></head><body><h1>One</h1><p>x</p><h2>Two <b>b</b></h2><a href=x>l</a></body></html>"
    markdown = "# Title\n\nSome words with a [link](https://example.org).\n\n```sh\n# not a heading\n```\n\n## Next\n\n- one\n- two\n\n1. x\n"
    assert text_of(page) == snapshot("""\
html
title: A page
1 <a>, 1 <p>, 2 headings
h1 One · L1
  h2 Two b · L1\
""")
    assert text_of(markdown) == snapshot("""\
markdown
2 headings, 1 code block
# Title · L1
## Next · L9\
""")


def test_xml_has_its_elements_with_counts_and_attributes() -> None:
    xml = (
        '<?xml version="1.0"?>\n<bugs>\n'
        + "".join(f'  <bug type="T{n % 2}" line="{n}"/>\n' for n in range(9))
        + "</bugs>\n"
    )
    assert text_of(xml) == snapshot("""\
xml
root <bugs> · 2 element names
9 × bug type="T0"|"T1" line="0",… · first in bugs
1 × bugs\
""")


def test_binary_is_told_by_its_first_bytes() -> None:
    png = (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
        + (640).to_bytes(4, "big")
        + (480).to_bytes(4, "big")
        + b"\x08\x06"
        + bytes(64)
    )
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(40) + b"/lib64/ld-linux-x86-64.so.2\x00"
    other = bytes(range(256))
    assert [text_of(each) for each in (png, elf, other)] == snapshot(
        [
            """\
PNG image
PNG image: 640 × 480 px\
""",
            """\
ELF
ELF: 64-bit shared object, x86-64
texts in it: "/lib64/ld-linux-x86-64.so.2"\
""",
            """\
binary
binary: begins 00 01 02 03 04 05 06 07
texts in it: "!"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[…"\
""",
        ]
    )


def test_prose_has_its_paragraphs_and_headings_or_its_beginning() -> None:
    assert text_of("It was a dark night.\nThe rain fell.\n\nThen it stopped.\n") == snapshot("""\
text
2 paragraphs, 1 blank line, longest line 20 bytes\
""")
    assert text_of("Introduction\n============\n\nOnce there was.\n\nCHAPTER TWO\n\nThen it ended.\n") == snapshot("""\
text
4 paragraphs, 3 blank lines, longest line 15 bytes
L1 Introduction
L6 CHAPTER TWO\
""")


def test_nothing_is_said_of_nothing() -> None:
    assert text_of("") == snapshot("""\
text
empty\
""")
    assert text_of("\n\n\n") == snapshot("""\
text
no paragraphs, 3 blank lines, longest line 0 bytes\
""")
    assert text_of("\n" * 70_000) == snapshot("""\
text
at least 5,985 blank lines, longest line 0 bytes\
""")
    assert text_of("x" * 9_000_000 + "\n" + "x") == snapshot("""\
text
at least 1 paragraph, longest line 9,000,000 bytes\
""")


def test_what_says_that_there_is_no_error_is_not_one() -> None:
    calm = "build finished with 0 errors\nno error found\nerrors: 0\nerror_count=7\n"
    assert outlined(calm).errors == ()
    assert [text for _, text in outlined(calm + "ERROR: disk is full\n").errors] == ["ERROR: disk is full"]


def test_the_times_of_a_log_are_the_earliest_and_the_latest_whatever_their_order() -> None:
    lines = (
        "2026-03-02T00:00:01Z b",
        "2026-03-01T23:00:00Z a",
        "2026-03-02T00:00:01+02:00 c",
        "2026-03-01T23:59:59Z d",
    )
    winter = ("Dec 31 23:59:58 h app[1]: a", "Jan  1 00:00:02 h app[1]: b", "Dec 31 23:59:59 h app[1]: late")
    clock = ("23:59:58 a", "00:00:02 b", "00:00:01 c")
    days = ("28/02/26 10:00:00 a", "01/03/26 09:00:00 b")
    assert [text_of("\n".join(each)).split("\n")[1] for each in (lines, winter, clock, days)] == snapshot(
        [
            "2026-03-02T00:00:01+02:00 → 2026-03-02T00:00:01Z",
            "Dec 31 23:59:58 → Jan  1 00:00:02 · 1 program: app 3",
            "23:59:58 → 00:00:02",
            "28/02/26 10:00:00 → 01/03/26 09:00:00",
        ]
    )


@requirement("notice:figures-true")
@pytest.mark.parametrize(
    ("date", "told", "next_step"),
    [
        ("Mon Nov {} 10:00:00 2026 +0100", True, r"^Date: +(\w+ \w+ \d+)"),
        ("Mon Nov {} 10:00:00 2026", True, r"^Date: +(\w+ \w+ \d+)"),
        ("2026-11-{} 10:00:00 +0100", True, r"^Date: +(\d+-\d+-\d+)"),
        ("2026-11-{}T10:00:00Z", True, r"^Date: +(\d+-\d+-\d+)"),
        ("2026-11-{}", True, r"^Date: +(\d+-\d+-\d+)"),
        ("Mon, {} Nov 2026 10:00:00 -0730", True, r"^Date: +(\w+, \d+ \w+ \d+)"),
        ("17950{} +0100", False, "^Author: ([^<]+)"),
        ("{} weeks ago", False, "^Author: ([^<]+)"),
    ],
)
def test_the_dates_of_a_history_are_read_in_every_form_of_git(date: str, told: bool, next_step: str) -> None:
    for count in (40, 12_000):  # of the second the lines are counted
        text = "".join(
            f"commit {n:040x}\nAuthor: A <a@x.y>\nDate:   {date.format(10 + n % 9)}\n\n    Message {n}\n\n"
            for n in range(count)
        )
        found = outlined(text)
        assert found.lines[0] == f"{count:,} commits · {'2026-11-10 → 2026-11-18 · ' * told}1 author: A {count:,}"
        assert [lead.arguments["pattern"] for lead in found.leads] == [next_step]
        assert re.search(next_step, text, re.MULTILINE)


def test_a_byte_order_mark_takes_nothing_away() -> None:
    outputs = {
        "ndjson": "".join(json.dumps({"a": n}) + "\n" for n in range(400)),
        "diff": "".join(f"diff --git a/f{n} b/f{n}\n--- a/f{n}\n+++ b/f{n}\n@@ -1 +1 @@\n-a\n+b\n" for n in range(40)),
        "markdown": "# Title\n\n" + "".join(f"## Part {n}\n\n- one\n- two\n\n" for n in range(40)),
        "git log": "".join(
            f"commit {n:040x}\nAuthor: A <a@x.y>\nDate:   Mon Nov 2 10:00:00 2026 +0100\n\n    Message {n}\n\n"
            for n in range(40)
        ),
        "sql dump": "CREATE TABLE t (id int, n text);\n"
        + "".join(f"INSERT INTO t VALUES ({n}, 'n{n}');\n" for n in range(400)),
        "log": "2026-01-01 00:00:00 ERROR first\n" + "2026-01-01 00:00:00 INFO words\n" * 400,
    }
    for kind, text in outputs.items():
        plain, marked = outlined(text), outlined(f"\ufeff{text}")
        assert (plain.label, marked.lines) == (kind, plain.lines)
        assert marked.errors == tuple((at + 3, told) for at, told in plain.errors)
        assert marked.ranges == tuple((start + 3, end + 3, told) for start, end, told in plain.ranges)


def test_however_many_byte_order_marks_there_are_an_output_has_its_outline() -> None:
    found = outlined("\ufeff" * 2000 + "plain words\n" * 400)
    assert any("plain words" in line for line in found.lines)


@pytest.mark.parametrize("blanks", [" " * 100, "\n" * 1000, " " * 60_000, "\r\n" * 40_000])
def test_blanks_behind_json_do_not_cut_it_off(blanks: str) -> None:
    for value in ([{"a": n} for n in range(9000)], [{"a": 1}]):
        text = json.dumps(value)
        assert measured((text + blanks).encode()).kind == "json"
        assert outlined(text + blanks).lines == outlined(text).lines
    assert outlined(f'[{{"a": 1}}, {{"a": 2{blanks}').lines[1].startswith("cut off: it ends at byte ")


@pytest.mark.parametrize("prefixes", [("", ""), ("i/", "w/"), ("a/", "b/")])
def test_a_diff_with_other_prefixes_or_none_has_the_names_of_its_files(prefixes: tuple[str, str]) -> None:
    old, new = prefixes
    names = ["src/one file.py", "b.sql"]
    parts = [
        f"diff --git {old}{name} {new}{name}\nindex 1..2 100644\n--- {old}{name}\n+++ {new}{name}\n@@ -1 +1 @@\n-a\n+b\n"
        for name in names
    ]
    moved = f"diff --git {old}x.py {new}y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
    told = outlined("".join([*parts, moved]))
    assert told.lines == (
        "3 files, +2 −2",
        "+1 −1  src/one file.py · L1",
        "+1 −1  b.sql · L8",
        f"+0 −0  {'' if old == 'a/' else new}y.py (renamed) · L15",
    )
    assert told.leads == (), "all of its files are told"
    many = "".join(parts[1].replace("b.sql", f"b{number}.sql") for number in range(300))
    pattern = str(outlined(many).leads[0].arguments["pattern"])
    assert len(re.findall(pattern, many, re.MULTILINE)) == 300


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("%m/%d/%Y %I:%M:%S %p", ("03/01/2026 12:00:00 AM", "03/02/2026 06:49:23 AM")),
        ("%Y-%m-%d %I:%M:%S.000 %p", ("2026-03-01 12:00:00.000 AM", "2026-03-02 06:49:23.000 AM")),
        ("[%Y/%m/%d, %I:%M %p]", ("2026/03/01, 12:00 AM", "2026/03/02, 06:49 AM")),
        ("%I:%M:%S %p", ("12:00:00 AM", "06:49:23 AM")),
        ("%Y-%m-%d %I:%M:%Sa.m.", ("2026-03-01 01:00:26a.m.", "2026-03-02 06:49:23a.m.")),
    ],
)
def test_hours_that_count_to_twelve_are_put_in_order(form: str, told: tuple[str, str]) -> None:
    start = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(seconds=37 * number) for number in range(3_000)]
    if form.endswith("a.m."):
        times = [time for time in times if 0 < time.hour < 12]
    found = tally([f"{time.strftime(form)} ERROR {number}".encode() for number, time in enumerate(times)])
    assert (found.first, found.last) == told


def test_numbers_as_long_as_times_of_which_the_last_is_none_are_no_error() -> None:
    found = tally([b"2700000000 ERROR x", b"1900000000 a", b"2900000000 a"])
    assert (found.lines, found.first, found.last) == (3, "", "")


@pytest.mark.parametrize("cell", ["@." * 30_000 + "!", "0-" * 30_000 + "!", "/" * 60_000 + " ", "-" * 60_000 + "x"])
def test_a_long_cell_takes_no_longer_than_a_long_text(cell: str) -> None:
    """The square of its length: nobody else came to speak, and no deadline was looked at."""
    table = "a,b,c\n" + f"{cell},b,c\n" * 5 + "1,2,3\n" * 300
    in_effort(40, lambda: text_of(table))
    in_effort(40, lambda: text_of(f"NAME   READY   AGE\n{cell}\n" + "a      1       2\n" * 50))
