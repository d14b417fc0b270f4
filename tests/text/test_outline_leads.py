"""What an outline proposes to ask next: real names and values, tried on the output before they are told."""

import base64
import hashlib
import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.text.outline_tools import outlined


def leads_of(data: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(lead.verb, lead.arguments) for lead in outlined(data).leads]


def _log(*bodies: str, times: int = 40) -> str:
    lines = [
        body.format(n=n, user=("root", "admin", "pi", "guest", "git")[n * n % 5])
        for n in range(times)
        for body in bodies
    ]
    return "".join(f"Nov {10 + at // 60} 02:{at % 60:02}:00 host sshd[{at}]: {line}\n" for at, line in enumerate(lines))


def test_of_a_log_what_varies_in_its_errors_is_counted_and_when_they_happened() -> None:
    log = _log(
        "Failed password for {user} from 10.0.0.{n} port {n}", "session opened for user root", "Connection closed"
    )
    assert leads_of(log) == snapshot(
        [
            ("grep", {"pattern": "Failed password for (\\w+)", "group": True}),
            (
                "query",
                {
                    "sql": "select left(text, 6) as day, count(*) from t where text like '%Failed password for%' group by 1 order by min(line_no)"
                },
            ),
        ]
    )


def test_what_two_shapes_differ_in_is_what_to_count_by() -> None:
    log = _log("Accepted publickey for bob", "Accepted password for bob", "Accepted password for bob")
    assert leads_of(log)[0] == snapshot(("grep", {"pattern": "Accepted (\\w+)", "group": True}))


def test_a_value_that_is_new_on_every_line_is_not_counted_by() -> None:
    lines = [
        f"2026-01-01 00:00:{n % 60:02} INFO job={n * 7919} state={('up', 'down')[n % 3 == 0]} ok\n" for n in range(300)
    ]
    assert leads_of("".join(lines))[0] == snapshot(("grep", {"pattern": "state=(\\w+)", "group": True}))


def test_all_of_a_value_is_counted_by_and_not_its_beginning() -> None:
    outputs = [
        "".join(f"load {n % 50 / 10} on node{n % 7}\n" for n in range(300)),
        "".join(f"temperature {n % 5 - 2} degrees at station {n}\n" for n in range(300)),
        "".join(f"request {n} from=10.0.0.{n % 5} done\n" for n in range(300)),
    ]
    assert list(map(leads_of, outputs)) == snapshot(
        [
            [("grep", {"pattern": "load ([-+]?\\d+(?:[.,]\\d+)*)", "group": True})],
            [("grep", {"pattern": "temperature ([-+]?\\d+(?:[.,]\\d+)*)", "group": True})],
            [("grep", {"pattern": "from=(\\w+(?:[.:@/-]\\w+)*)", "group": True})],
        ]
    )


def test_blanks_that_align_a_column_are_in_the_pattern_too() -> None:
    files = "".join(f"-rw-r--r-- 1 root root {n} Nov {n % 28 + 1:>2} 10:00 file {n}.txt\n" for n in range(300))
    assert leads_of(files) == snapshot([("grep", {"pattern": "Nov +(\\d+)", "group": True})])
    assert len(re.findall(r"Nov +(\d+)", files)) == 300
    one = files.replace("Nov  ", "Nov ")
    assert leads_of(one) == snapshot([("grep", {"pattern": "Nov (\\d+)", "group": True})])


def test_words_with_more_blanks_between_them_are_not_looked_for_by_sql() -> None:
    log = _log("Failed  password for {user} from 10.0.0.{n}", "Failed password for {user} from 10.0.0.{n}", "all well")
    assert leads_of(log) == snapshot(
        [
            ("grep", {"pattern": "Failed +password +for +(\\w+)", "group": True}),
            ("query", {"sql": "select left(text, 6) as day, count(*) from t group by 1 order by min(line_no)"}),
        ]
    )


def test_a_word_that_is_looked_up_is_in_the_output() -> None:
    encoded = base64.encodebytes(random.Random(3).randbytes(60_000)).decode()
    assert outlined(encoded).lines[1] == "10 × <path>"
    assert leads_of(encoded) == []
    html = "<html><body>" + "<h2>Caf&eacute; Zoo</h2><p>text</p>" * 9 + "</body></html>"
    assert leads_of(html) == []


@pytest.mark.parametrize("length", [7, 40, 64])
def test_a_hash_is_nothing_to_look_up(length: int) -> None:
    hashes = [hashlib.sha256(str(number).encode()).hexdigest()[:length] for number in range(300)]
    assert not [arguments for _, arguments in leads_of("\n".join(hashes)) if "pattern" in arguments]
    assert not [arguments for _, arguments in leads_of("\n".join(hashes[:3])) if "pattern" in arguments]


def test_a_hash_in_a_record_or_a_table_is_nothing_to_look_up() -> None:
    hashes = [hashlib.sha256(str(number).encode()).hexdigest()[:9] for number in range(300)]
    rows = "".join(json.dumps({"hash": one, "n": at}) + "\n" for at, one in enumerate(hashes))
    table = "hash,n\n" + "".join(f"{one},{at}\n" for at, one in enumerate(hashes) if one[0] in "abcdef")
    for data in (rows, table, json.dumps({one: {"a": 1} for one in hashes})):
        assert not [arguments for _, arguments in leads_of(data) if "pattern" in arguments]


def test_a_word_beside_a_hash_is_looked_up() -> None:
    ((_, arguments),) = leads_of("5feceb6 main\n6b86b27 release\n")
    assert arguments["pattern"] == "release"


def test_of_records_the_member_with_few_values_is_counted_by() -> None:
    rows = [{"id": n, "status": ("open", "paid")[n % 3 == 0], "name": f"n{n}"} for n in range(60)]
    assert leads_of(json.dumps({"page": 1, "items": rows})) == snapshot(
        [
            ("query", {"at": "$.items", "sql": "select id, name, status from t limit 5"}),
            ("query", {"path": "$.items[*].name"}),
        ]
    )
    assert leads_of("".join(json.dumps(row) + "\n" for row in rows))[0] == snapshot(
        ("query", {"sql": "select id, name, status from t limit 5"})
    )


def test_names_that_sql_would_misread_stand_in_quotes() -> None:
    rows = [{"order": ("a", "b")[n % 3 == 0]} for n in range(60)]
    assert leads_of(json.dumps(rows))[0] == snapshot(("query", {"sql": 'select "order" from t limit 5'}))
    assert leads_of("Country/Region,group\n" + "x,y\nx,z\nw,z\n" * 9)[0] == snapshot(
        ("query", {"sql": 'select "Country/Region", "group" from t limit 5'})
    )


def test_names_that_cannot_be_written_down_are_not_proposed() -> None:
    rows = [{"a\nb": ("x", "y")[n % 2], "</evil>": "z", "k" * 500: 1} for n in range(60)]
    assert leads_of(json.dumps(rows)) == snapshot([])


def test_of_names_that_differ_only_in_case_the_first_is_proposed() -> None:
    records = json.dumps([{"id": n, "ID": -n} for n in range(40)])
    assert leads_of(records) == [("query", {"sql": "select id from t limit 5"})]


def test_of_a_map_a_key_of_it_is_looked_up() -> None:
    paths = {f"/api/v1/{name}{n}": {"get": {"id": n}} for n in range(20) for name in ("pods", "nodes")}
    assert leads_of(json.dumps({"openapi": "3.0.0", "paths": paths})) == snapshot(
        [
            ("query", {"at": "$.paths", "sql": "select key from t where key like '%pods%'"}),
            ("query", {"path": "$.paths['/api/v1/pods10']"}),
            ("grep", {"pattern": "pods"}),
        ]
    )


def test_of_json_that_is_broken_only_paths_are_proposed() -> None:
    rows = json.dumps([{"id": n, "status": ("open", "paid")[n % 3 == 0]} for n in range(60)])
    assert [lead for lead in leads_of(rows[:-40]) if "sql" in lead[1]] == []
    assert leads_of(rows[:-40])[0] == snapshot(("query", {"path": "$[*].status"}))


def test_of_other_kinds_too_something_is_proposed() -> None:
    outputs = {
        "xml": '<?xml version="1.0"?>\n<a>\n' + "".join(f'<b type="T{n % 4}" n="{n}"/>\n' for n in range(40)) + "</a>",
        "html": "<html><body>" + "".join(f'<h2>Part {n}</h2><a href="/{n % 3}">x</a>' for n in range(9)) + "</body></html>",
        "markdown": "# The whole\n\n" + "".join(f"## Chapter {n}\n\n- words\n\n" for n in range(9)),
        "diff": "".join(f"diff --git a/x{n} b/x{n}\n--- a/x{n}\n+++ b/x{n}\n@@ -1 +1 @@\n-a\n+b\n" for n in range(300)),
        "pytest": "= test session starts =\nPASSED a\nPASSED b\nFAILED t.py::test_d\nFAILED c\n=== 2 failed, 2 passed in 1s ===\n",
        "compiler": "".join(f"m{n % 3}.c:{n}:1: error: no\n" for n in range(9)),
        "traceback": 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nValueError: no\n',
        "access log": "".join(f'10.0.0.{n} - - [10/Oct/2026:13:00:{n:02} +0000] "GET /{n} HTTP/1.1" 200 5\n' for n in range(30)),
    }  # fmt: skip
    assert {kind: leads_of(data)[0] for kind, data in outputs.items()} == snapshot(
        {
            "xml": ("grep", {"pattern": '<b type="([^"]*)"', "group": True}),
            "html": ("grep", {"pattern": "href=[\"']([^\"'#?]+)", "group": True}),
            "markdown": ("grep", {"pattern": "whole", "ignore_case": True, "after": 2}),
            "diff": ("grep", {"pattern": "^diff --git a/(\\S+)", "group": True}),
            "pytest": ("grep", {"pattern": "test_d", "before": 3, "after": 3}),
            "compiler": ("grep", {"pattern": "^([^:\\s]+):\\d+:\\d+: error", "group": True}),
            "traceback": ("grep", {"pattern": "([\\w.]+Error)\\b", "group": True}),
            "access log": ("grep", {"pattern": '"[A-Z]+ ([^ ?"]+)', "group": True}),
        }
    )


def test_of_a_test_that_failed_the_lines_around_the_reason_are_read() -> None:
    code = "".join(f"    step {number}\n" for number in range(30))
    end = "\nt.py:40: AssertionError\n=== short test summary info ===\nFAILED t.py::test_d - Assert...\n=== 1 failed in 1s ===\n"
    for length, expected in ((20, "25:37"), (600, "25:34")):  # of long lines fewer
        reason = "".join(f"E   {'x' * length}\n" for _ in range(5))
        report = f"= test session starts =\n= FAILURES =\n____ test_d ____\n{code}{reason}{end}"
        assert leads_of(report)[0] == ("read", {"lines": expected})


@pytest.mark.parametrize("word", ["a.b", "[x]", "(y", "c+", "d{2}", "e|f", "g^h$", "i\\j"])
def test_signs_of_patterns_are_escaped(word: str) -> None:
    log = _log(f"error in {word.replace('{', '{{').replace('}', '}}')} while reading {{user}} from disk", "all is well")
    pattern = str(leads_of(log)[0][1]["pattern"])
    assert re.search(pattern, log)
