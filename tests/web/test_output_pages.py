"""What the output page and its scripts are answered: bounded, in the verbs' own words, and without a trace."""

import asyncio
import contextlib
import csv
import gzip
import hashlib
import html
import io
import itertools
import json
import re
import sqlite3
import tarfile
import threading
import zipfile
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdall.bag import Holdall
from holdall.bag.records import noticed_key
from holdall.llm.scripted import ScriptedModel
from holdall.store.directory.store import DirectoryStore
from holdall.store.reader import FileReader
from holdall.store.records import sealed
from holdall.values.outputs import Facts, Kept, Running
from holdall.values.settings import Settings, ToolPolicy
from holdall.web import output_page
from tests.requirements import requirement
from tests.web.stories import FALSE_QUOTE, NEEDLE, REAL_QUOTE, Told, investigation
from tests.web.support import client

LINES = "".join(f"line {at} of many ü\n" for at in range(1, 5001))


def made(home: Path, work: Callable[[Holdall], Coroutine[Any, Any, Any]]) -> tuple[str, Any]:
    """The session's id, and what `work` gave."""

    async def run() -> tuple[str, Any]:
        async with Holdall.open(home=str(home), session="s") as bag:
            return bag.session.id, await work(bag)

    return asyncio.run(run())


def kept(home: Path, output: object, **about: Any) -> str:
    """The address of one output."""
    session, facts = made(home, lambda bag: bag.keep(output, **about))
    return f"/s/{session}/o/{facts.handle}"


def told(browser: TestClient, address: str, status: int = 200, params: dict[str, str] | None = None) -> dict[str, Any]:
    answer = browser.get(address, params=params)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.text.isascii()
    return answer.json()


def _database() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("create table users (id integer, name text)")
        database.execute("insert into users values (1, 'a')")
        database.execute("create table orders (total real)")
        database.commit()
        return database.serialize()


def _archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("data.csv", "id,v\n1,2\n3,4\n5,6\n")
    return made.getvalue()


def text_of(runs: list[Any]) -> str:
    return "".join(run if isinstance(run, str) else run[0] for run in runs)


# The page


def test_the_page_is_small_whatever_the_size_and_says_what_is_known(home: Path) -> None:
    output = kept(home, LINES * 20, tool="crawl", arguments={"url": "http://x"}, call_id="c7")
    with client(home) as browser:
        page = browser.get(output)
    assert page.status_code == 200
    assert len(page.content) < 20_000
    assert "line 4000 of many" not in page.text
    for known in ("crawl", "100,000 lines", "c7", "http://x", hashlib.sha256((LINES * 20).encode()).hexdigest()):
        assert known in page.text


def test_what_comes_from_a_tool_is_text_on_the_page(home: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"
    output = kept(home, evil * 3000, tool=evil, arguments={"x": evil}, call_id=evil)
    with client(home) as browser:
        for part in ("", "/notice", "/quotes"):
            page = browser.get(f"{output}{part}").text
            assert "<script>alert" not in page
            assert "<img" not in page
            assert "\u202e" not in page
            assert "\x1b" not in page


def test_an_output_that_is_not_there_and_one_of_another_session_get_the_same_answer(home: Path) -> None:
    session, _ = made(home, lambda bag: bag.keep("mine"))

    async def other() -> str:
        async with Holdall.open(home=str(home), session="other") as bag:
            return (await bag.keep("theirs")).handle

    foreign = asyncio.run(other())
    with client(home) as browser:
        for part in ("", "/raw", "/rows", "/notice", "/search?q=x"):
            answers = [browser.get(f"/s/{session}/o/{handle}{part}") for handle in (foreign, "zzzz")]
            assert [answer.status_code for answer in answers] == [404, 404]
            one, another = (re.sub(r' nonce="[\w-]{22}"', "", answer.text) for answer in answers)
            assert one.replace(foreign, "zzzz") == another


def test_the_page_of_an_output_that_expired_says_so_and_offers_nothing(home: Path) -> None:
    async def keep() -> Facts:
        settings = Settings(retention="session")
        async with Holdall.open(home=str(home), session="s", settings=settings) as bag:
            return await bag.keep(LINES, tool="crawl")

    facts = asyncio.run(keep())
    output = f"/s/{facts.session}/o/{facts.handle}"
    with client(home) as browser:
        page = browser.get(output)
        assert page.status_code == 200
        assert f"output {facts.handle} expired" in page.text
        assert "/raw" not in page.text
        assert 'data-view="sql"' not in page.text
        assert "expired" in told(browser, f"{output}/rows?from=1", 500)["error"]
        assert browser.get(f"{output}/raw").status_code == 500


# Rows and places


@requirement("viewer:pages")
def test_rows_anywhere_are_the_lines_with_their_bytes(home: Path) -> None:
    output = kept(home, LINES)
    with client(home) as browser:
        answer = told(browser, f"{output}/rows?by=lines&from=4321&count=2")
    assert [(row["n"], text_of(row["t"])) for row in answer["rows"]] == [
        (4321, "line 4321 of many ü"), (4322, "line 4322 of many ü"),
    ]  # fmt: skip
    start = answer["rows"][0]["at"]
    assert LINES.encode()[start:].startswith(b"line 4321 ")
    assert answer["total"]["lines"] == 5000
    assert answer["state"] == "ready"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("rows?by=words", "rows are shown by lines, bytes, hex."),
        ("rows?from=x", "from is a whole number, not 'x'."),
        ("rows?count=1000", "a window has 1 to 400 rows of 1 to 512 bytes and starts at 0 or later."),
        ("rows?from=-3", "from must be 0 or more, not -3."),
        ("place?byte=1e9", "byte is a whole number, not '1e9'."),
        ("tree?at=x", "at is a whole number, not 'x'."),
    ],
)
def test_a_question_that_is_none_is_refused_in_words(home: Path, asked: str, why: str) -> None:
    output = kept(home, LINES)
    with client(home) as browser:
        assert told(browser, f"{output}/{asked}", 400) == {"error": why}


def test_a_place_knows_its_line_and_its_byte_and_where_the_end_is(home: Path) -> None:
    output = kept(home, "one\ntwo\nthree")
    with client(home) as browser:
        places = [told(browser, f"{output}/place?{asked}") for asked in ("line=2", "byte=5", "line=99", "byte=99")]
    assert places == [
        {"line": 2, "begins": 4, "byte": 4, "past_end": False},
        {"line": 2, "begins": 4, "byte": 5, "past_end": False},
        {"line": 3, "begins": 8, "byte": 8, "past_end": True},
        {"line": 3, "begins": 8, "byte": 12, "past_end": True},
    ]


def test_an_empty_output_has_a_page_no_rows_and_a_first_place(home: Path) -> None:
    output = kept(home, "")
    with client(home) as browser:
        assert browser.get(output).status_code == 200
        assert told(browser, f"{output}/rows")["rows"] == []
        assert told(browser, f"{output}/place?byte=0")["line"] == 1
        assert told(browser, f"{output}/seen")["shown"] == []
        assert browser.get(f"{output}/raw").content == b""


def test_damaged_bytes_are_never_shown_and_the_answer_says_so(home: Path) -> None:
    session, facts = made(home, lambda bag: bag.keep(LINES))
    file = home / f"session-{session}" / facts.file
    data = bytearray(file.read_bytes())
    data[10] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    output = f"/s/{session}/o/{facts.handle}"
    with client(home) as browser:
        answer = told(browser, f"{output}/rows?from=1", 500)
        assert "checksum mismatch in bytes 0 to" in answer["error"]
        assert browser.get(output).status_code == 200


def test_a_search_says_that_matches_may_be_missing_in_what_is_damaged(home: Path) -> None:
    session, facts = made(home, lambda bag: bag.keep("a line\n" * 30_000))
    file = home / f"session-{session}" / facts.file
    data = bytearray(file.read_bytes())
    data[70_000] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    with client(home) as browser:
        answer = told(browser, f"/s/{session}/o/{facts.handle}/search?q=line")
        whole = told(browser, f"{kept(home, 'a line')}/search?q=line")
    assert answer["damage"] == "Damaged, so that matches may be missing: bytes 65,536 to 131,072."
    assert whole["damage"] == ""


# Search


@requirement("viewer:search")
def test_a_search_finds_every_match_with_its_exact_bytes(home: Path) -> None:
    text = "x" * 300_000 + "ü NEEDLE ü" + "y" * 300_000
    output = kept(home, text)
    with client(home) as browser:
        answer = told(browser, f"{output}/search?q=needle")
        strict = told(browser, f"{output}/search?q=needle&case=1")
    (match,) = answer["matches"]
    assert text.encode()[match["at"] : match["end"]] == b"NEEDLE"
    assert [text_of(runs) for runs in match["t"]][1] == "NEEDLE"
    assert (answer["total"], strict["total"]) == (1, 0)


@requirement("viewer:search")
def test_many_matches_come_in_pages_that_go_on_where_the_last_one_ended(home: Path) -> None:
    output = kept(home, LINES)
    seen: list[int] = []
    start: int | None = 0
    with client(home) as browser:
        while start is not None:
            answer = told(browser, f"{output}/search?q=many&start={start}")
            assert answer["total"] == 5000
            seen += [match["at"] for match in answer["matches"]]
            start = answer["next"]
    assert len(seen) == len(set(seen)) == 5000


def test_a_pattern_that_cannot_be_run_is_refused_in_words_for_who_typed_it(home: Path) -> None:
    output = kept(home, LINES)
    with client(home) as browser:
        assert told(browser, f"{output}/search?q=(&pattern=1", 400)["error"] == (
            "This cannot be searched for. This bracket is not closed: '(' at character 1 of the pattern. Write \\( for "
            "the character (. Without .* the characters are searched for as they are."
        )
        assert "group=" not in told(browser, f"{output}/search?q=(%3F%3C%3Da)b&pattern=1", 400)["error"]
        assert told(browser, f"{output}/search?q=(")["total"] == 0


def test_a_match_deep_in_a_line_is_told_with_what_is_around_it(home: Path) -> None:
    output = kept(home, "short needle\n" + "x" * 5000 + " needle " + "y" * 5000 + "\n")
    with client(home) as browser:
        short, long = told(browser, f"{output}/search?q=needle")["matches"]
    assert [text_of(runs) for runs in short["t"]] == ["short ", "needle", ""]
    assert "cut" not in short
    before, within, after = (text_of(runs) for runs in long["t"])
    assert (before, within, after[:3], long["cut"]) == ("x" * 39 + " ", "needle", " yy", True)


@requirement("viewer:search")
@pytest.mark.parametrize(
    ("data", "note"),
    [
        (
            "café 100\n".encode("latin-1") * 9,
            "bytes that are not UTF-8, shown as escapes, are not found: search for what is beside them",
        ),
        (
            ("café 100\n" * 9).encode("utf-16"),
            "these are the bytes of UTF-16: search what is inside, by its link above",
        ),
        (
            _archive(),
            "these are the bytes of a zip: search what is inside, by its link above",
        ),
    ],
)
def test_why_nothing_was_found_is_said_with_what_the_page_has(home: Path, data: bytes, note: str) -> None:
    output = kept(home, data)
    with client(home) as browser:
        assert told(browser, f"{output}/search?q=café 100")["notes"] == [note]


def test_a_match_beside_bytes_that_are_no_text_shows_them_as_escapes(home: Path) -> None:
    output = kept(home, b"\xff\xfe\x1b[31mneedle\xff\x00\n")
    with client(home) as browser:
        (match,) = told(browser, f"{output}/search?q=needle")["matches"]
    assert [text_of(runs) for runs in match["t"]] == ["\\xff\\xfe\\e[31m", "needle", "\\xff\\0"]


# JSON, tables, SQL


def test_a_tree_is_opened_by_bytes(home: Path) -> None:
    text = json.dumps({"a": [1, {"deep": "value"}], "b": None})
    output = kept(home, text)
    with client(home) as browser:
        (root,) = told(browser, f"{output}/tree")["children"]
        first, second = told(browser, f"{output}/tree?at={root['at']}")["children"]
        inner = told(browser, f"{output}/tree?at={first['at']}")["children"]
        counted = [
            told(browser, f"{output}/count?{asked}") for asked in (f"at={first['at']}&end={first['end']}", "at=99")
        ]
    assert (first["plain"], second["plain"], second["kind"]) == ("a", "b", "word")
    assert text[inner[1]["at"] : inner[1]["end"]] == '{"deep": "value"}'
    assert counted == [{"count": 2}, {"count": None}]


def test_a_byte_has_a_way_through_the_tree(home: Path) -> None:
    text = json.dumps({"a": [1, {"deep": "value"}], "b": None})
    output = kept(home, text)
    with client(home) as browser:
        way = told(browser, f"{output}/way?byte={text.index('value')}")
        assert [step["at"] for step in way["way"]] == [0, 6, 10, text.index('"value"')]
        assert way["next"] is None
        rest = told(browser, f"{output}/way?byte={text.index('value')}&at=6&after=9&index=1")
        assert rest == {"way": way["way"][2:], "next": None}
        for parent, step in pairwise(way["way"]):
            byte, index = step["after"]
            level = told(browser, f"{output}/tree?at={parent['at']}&after={byte}&index={index}")
            assert level["children"][0]["at"] == step["at"]
        records = kept(home, '{"n": 1}\n{"n": 2}\n')
        way = told(browser, f"{records}/way?byte=15")["way"]
        assert [step["at"] for step in way] == [9, 15]
        byte, index = way[0]["after"]
        assert told(browser, f"{records}/tree?after={byte}&index={index}")["children"][0]["at"] == 9


def test_a_way_that_takes_long_says_where_to_go_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = kept(home, json.dumps({"a": [1, {"deep": "value"}]}))
    monkeypatch.setattr(output_page, "_WAY_SECONDS", -1.0)
    with client(home) as browser:
        begun = told(browser, f"{output}/way?byte=20")
        assert begun == {"way": [], "next": {"at": None, "after": 0, "index": 0}}
        assert told(browser, f"{output}/way?byte=20&after=0&index=0&patient=1")["next"] is None


def test_csv_comes_as_cells(home: Path) -> None:
    output = kept(home, "id,name\n" + "".join(f'{at},"n, {at}"\n' for at in range(500)))
    with client(home) as browser:
        page = browser.get(output).text
        answer = told(browser, f"{output}/table?from=400&count=1")
    assert 'data-view="table"' in page
    assert [text_of(name) for name in answer["columns"]] == ["id", "name"]
    assert [text_of(cell["t"]) for cell in answer["rows"][0]["cells"]] == ["398", "n, 398"]


def test_sql_answers_a_table_and_refuses_in_its_own_words(home: Path) -> None:
    output = kept(home, "id,name\n" + "".join(f"{at},name {at}\n" for at in range(2000)))
    with client(home) as browser:
        answer = told(browser, f"{output}/query?sql=select count(*) c, max(id) m from t")
        many = told(browser, f"{output}/query?sql=from t")
        wrong = told(browser, f"{output}/query?sql=select nothing from t", 400)
        written = told(browser, f"{output}/query?sql=delete from t", 400)
    assert [[text_of(cell["t"]) for cell in row] for row in answer["rows"]] == [["2000", "1999"]]
    assert (many["shown"], many["total"], many["more"]) == (100, 2000, True)
    assert many["numbers"][:2] == [1, 2]
    assert "Columns of t: id" in wrong["error"]
    assert written["error"]


def _rows(answer: dict[str, Any]) -> list[list[str]]:
    return [[text_of(cell["t"]) for cell in row] for row in answer["rows"]]


def test_the_rows_of_sql_come_in_pages_sorted_by_any_column(home: Path) -> None:
    output = kept(home, "id,kind,n\n" + "".join(f"{at},{'ab'[at % 2]},{-at}\n" for at in range(1000)))
    with client(home) as browser:
        page = told(browser, f"{output}/query?sql=from t;&skip=950")
        assert (page["shown"], page["total"], page["more"], page["skip"]) == (50, 1000, False, 950)
        assert (_rows(page)[0], page["numbers"][0]) == (["950", "a", "-950"], 951)
        found: list[int] = []
        for skip in range(0, 1000, 100):
            page = told(browser, f"{output}/query?sql=select * from t -- all of it&sort=2&down=1&skip={skip}")
            assert page["total"] == 1000
            assert [text_of(name) for name in page["columns"]] == ["id", "kind", "n"]
            found += page["numbers"]
        assert found == [*range(2, 1001, 2), *range(1, 1001, 2)]  # rows that sort alike keep their order
        by_number = told(browser, f"{output}/query?sql=from t&sort=3")
        assert _rows(by_number)[0] == ["999", "b", "-999"]
        assert by_number["numbers"][0] == 1000
        for sql in ("describe t", "summarize t", "values (2), (1)", "with x as (from t) select id from x", "from t"):
            assert told(browser, f"{output}/query?sql={sql}&sort=1")["rows"]
        assert "ORDER" in told(browser, f"{output}/query?sql=from t&sort=9", 400)["error"]
        told(browser, f"{output}/query?sql=from t) union all (select 1&sort=-1", 400)
        refused = told(browser, f"{output}/query?sql=from read_csv('/etc/passwd')&sort=1", 400)
        assert "root:" not in refused["error"]


@pytest.mark.parametrize(
    ("output", "at", "columns"),
    [
        ("id,name\n1,a\n2,b\n3,c\n", "", ["id BIGINT", "name VARCHAR"]),
        ("plain text\nof two lines\n", "", ["line_no BIGINT", "text VARCHAR"]),
        (json.dumps({"meta": 1, "items": [{"a": at, "b": "x"} for at in range(500)]}), "$.items", ["a BIGINT", "b VARCHAR"]),
        (json.dumps([{"a": at} for at in range(500)]), "", ["a BIGINT"]),
        (_database(), "users", ["id BIGINT", "name VARCHAR"]),
        (_archive(), "!data.csv", ["id BIGINT", "v BIGINT"]),
        (gzip.compress(b"id,v\n1,2\n3,4\n5,6\n", mtime=0), "!", ["id BIGINT", "v BIGINT"]),
    ],
)  # fmt: skip
def test_the_table_and_its_columns_are_there_before_any_sql(
    home: Path, output: object, at: str, columns: list[str]
) -> None:
    address = kept(home, output)
    with client(home) as browser:
        found = told(browser, f"{address}/columns")
        assert found["at"] == at
        assert [f"{one['plain']} {one['type']}" for one in found["columns"]] == columns
        answer = told(browser, f"{address}/query", params={"sql": "from t", "at": at})
        assert [text_of(name) for name in answer["columns"]] == [one["plain"] for one in found["columns"]]


def test_a_table_that_is_none_is_told_beside_those_there_are(home: Path) -> None:
    output = kept(home, _database())
    with client(home) as browser:
        found = told(browser, f"{output}/columns?at=nothing")
    assert found["tables"] == ["users", "orders"]
    assert found["problem"]
    assert found["columns"] == []


def test_all_rows_come_as_csv_and_none_is_a_formula(home: Path) -> None:
    texts = [
        "=1+1",
        "+1+1",
        "-1+1",
        "@x",
        " =1",
        "\ufeff=1",
        "\uff1d1",
        "\t1",
        "\u2060=1",
        "a;=1",
        "a\n\u00ad@b",
        "-5",
        "plain",
        'a "b", c',
        "ü",
    ]
    records = [{"n": at - 500, "text": texts[at % len(texts)], "list": [1]} for at in range(1000)]
    output = kept(home, "".join(json.dumps(one) + "\n" for one in records))
    with client(home) as browser:
        answer = browser.get(f"{output}/csv", params={"sql": "from t", "skip": "7"})
        by_number = browser.get(f"{output}/csv", params={"sql": 'select n as "=n" from t', "sort": "1", "down": "1"})
        refused = browser.get(f"{output}/csv", params={"sql": "select <b> from t"})
        path = browser.get(f"{output}/csv", params={"sql": "$[*]"})
    assert answer.headers["content-type"].startswith("text/csv")
    name = output.rpartition("/")[2]
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}-rows.csv"'
    names, *rows = csv.reader(io.StringIO(answer.text, newline=""))
    assert names == ["n", "text", "list"]
    assert [row[0] for row in rows] == [str(one["n"]) for one in records]
    shown = {text: row[1] for text, row in zip(texts, rows, strict=False)}
    assert [text for text in texts if shown[text] != text] == texts[:11]
    assert all(shown[text] == f"'{text}" for text in texts[:9])
    # Where semicolons separate cells, quotes inside a line say nothing.
    assert [shown[text] for text in texts[9:11]] == ["a;'=1", "a\n\u00ad'@b"]
    assert by_number.text.splitlines()[:2] == ['"\'=n"', "499"]
    assert refused.status_code == 400
    assert "<b>" not in refused.text
    assert path.status_code == 400


def test_csv_has_every_row_and_is_refused_where_it_is_too_large(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = kept(home, "".join(f"line {at}\n" for at in range(30_000)))
    with client(home) as browser:
        whole = browser.get(f"{output}/csv", params={"sql": "select text from t"})
        assert whole.text.splitlines() == ['"text"', *(f'"line {at}"' for at in range(30_000))]
        monkeypatch.setattr("holdall.web.output_data._CSV_BYTES", 100_000)
        refused = browser.get(f"{output}/csv", params={"sql": "select text from t"})
        clock = itertools.count(0.0, 59.0)  # of each look at it
        monkeypatch.setattr("holdall.web.output_data._now", lambda: next(clock))
        monkeypatch.setattr("holdall.web.output_data._CSV_BYTES", 1_000_000)
        late = browser.get(f"{output}/csv", params={"sql": "select text from t"})
        none = browser.get(f"{output}/csv", params={"sql": "select text from t where text = ''"})
    assert (refused.status_code, late.status_code) == (400, 400)
    assert "the CSV is larger than 100.0 kB" in refused.text
    assert "the CSV takes more than 60 s" in late.text
    assert none.text.splitlines() == ['"text"']


def test_a_path_answers_values_with_their_places(home: Path) -> None:
    text = json.dumps({"items": [{"name": "a"}, {"name": "b"}]})
    output = kept(home, text)
    with client(home) as browser:
        answer = told(browser, f"{output}/query?sql=$.items[*].name")
    assert [text[start:end] for start, end in answer["places"]] == ['"a"', '"b"']


# As the model saw it


@requirement("viewer:same-notice")
def test_the_notice_is_the_very_text_from_the_transcript_where_there_is_one(home: Path) -> None:
    async def agent(bag: Holdall) -> tuple[str, str]:
        taken = await bag.take(LINES, tool="crawl", call_id="c1")
        line = {"role": "tool", "call_id": "c1", "name": "crawl", "text": taken.content, "is_error": False}
        other = {"role": "tool", "call_id": "c2", "name": "crawl", "text": "another", "is_error": False}
        bag.append_transcript(b"".join(json.dumps(one).encode() + b"\n" for one in (other, line)))
        return taken.artifact.handle, taken.content  # pyright: ignore

    session, (handle, notice) = made(home, agent)
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{handle}/notice").text
    assert "The exact text that the model was given" in page
    assert _unescaped(page).count(notice) == 1


@requirement("viewer:same-notice")
def test_of_a_call_that_was_cancelled_it_is_not_said_that_a_model_got_its_text(home: Path) -> None:
    """Its client may be gone."""

    async def call() -> str:
        async with Holdall.open(home=str(home), session="s", settings=Settings(slow_after_seconds=600)) as bag:
            begun = asyncio.Event()

            async def crawl() -> str:
                begun.set()
                await asyncio.sleep(600)
                return ""

            running = asyncio.ensure_future(bag.run(crawl, tool="crawl"))
            await begun.wait()
            bag.jobs.keep_all()
            await bag.jobs.abort(why="the client was gone")
            await running
            (facts,) = await bag.outputs()
            return f"/s/{bag.session.id}/o/{facts.handle}/notice"

    address = asyncio.run(call())
    with client(home) as browser:
        page = browser.get(address).text
    assert "The call was cancelled: whether the model got it is not known." in page
    assert "The exact text" not in page


@requirement("viewer:same-notice")
@pytest.mark.parametrize("dialect", ["holdall", "refs", "clamp"])
def test_without_a_transcript_the_notice_is_the_one_that_was_noted_down(home: Path, dialect: Any) -> None:
    async def take() -> list[tuple[str, str]]:
        async with Holdall.open(home=str(home), session="s", settings=Settings(dialect=dialect)) as bag:
            taken = [await bag.take(output, tool="crawl", call_id="c1") for output in (LINES, "x" * 60_001)]
            return [(f"/s/{bag.session.id}/o/{one.artifact.handle}/notice", one.content) for one in taken]  # pyright: ignore

    notices = asyncio.run(take())
    with client(home) as browser:
        for address, notice in notices:
            page = browser.get(address).text
            assert "The exact text that the model was given for this call, as it was noted down then." in page
            assert _unescaped(page).count(notice) == 1


@requirement("viewer:same-notice")
@pytest.mark.anyio
async def test_what_the_model_was_told_of_a_slow_call_is_on_its_page(home: Path) -> None:
    go_on = asyncio.Event()

    async def slow() -> str:
        await go_on.wait()
        return LINES

    async with Holdall.open(home=str(home), session="s", settings=Settings(slow_after_seconds=0.01)) as bag:
        taken = await bag.run(slow, tool="crawl", call_id="c1")
        assert isinstance(taken, Running)
        page = f"/s/{bag.session.id}/o/{taken.handle}/notice"
        with client(home) as browser:
            running = _unescaped(browser.get(page).text)
            go_on.set()
            waited = (await bag.call("wait_for_tool_output", {"handle": taken.handle})).text
            ended = _unescaped(browser.get(page).text)
        noticed = bag.records.noticed(taken.handle)
    assert noticed is not None
    assert noticed.text in waited
    assert running.count(taken.content) == 1
    assert "The call is still running; its notice is made when it has ended." in running
    assert (ended.count(taken.content), ended.count(noticed.text)) == (1, 1)
    assert "When it had ended, the model was given this." in ended


@requirement("viewer:same-notice", "store:removed")
@pytest.mark.parametrize("gone", [0, 1])
def test_a_notice_of_changes_is_on_its_page_until_one_of_both_is_removed(home: Path, gone: int) -> None:
    async def agent(bag: Holdall) -> tuple[list[str], list[str]]:
        taken = [
            await bag.take(text, tool="crawl") for text in (LINES, LINES.replace("line 7 of", "other of", 1), LINES)
        ]
        same = await bag.take(LINES, tool="crawl")
        return [one.handle for one in (*taken, same)], [one.text for one in (*taken, same)]  # pyright: ignore

    session, (handles, notices) = made(home, agent)
    assert "the same bytes as" in notices[3]
    assert all("with 1 of" in one for one in notices[1:3])
    with client(home) as browser:
        pages = [_unescaped(browser.get(f"/s/{session}/o/{one}/notice").text) for one in handles]
        assert [page.count(notice) for page, notice in zip(pages, notices, strict=True)] == [1, 1, 1, 1]
    with contextlib.closing(DirectoryStore(str(home))) as store:
        found = store.find_session("s")
        assert found is not None
        store.remove(found, [store.resolve(found, handles[gone])])
        names = [note.content for note in store.notes(found)]
        texts = b"".join(store.recall(found, note.content, note.key) or b"" for note in store.notes(found))
    assert (b"- line 7" in texts, b"+ line 7" in texts) == ((False, True) if gone == 0 else (False, False)), names


@pytest.mark.parametrize("after", ["1152921504606846976", "-5", "1e999", "[" * 100_000])
def test_a_note_from_a_bundle_reads_no_more_than_fits_on_the_page(
    home: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def agent(bag: Holdall) -> str:
        facts = await bag.keep("x" * 3_000_000, tool="crawl")
        note = b'{"at":1,"dialect":"holdall","text":"a note","after":%s}\n' % after.encode()
        bag.store.remember(bag.session, *noticed_key(facts), sealed(note))
        return facts.handle

    session, handle = made(home, agent)
    read: list[int] = []
    reading = FileReader.read
    monkeypatch.setattr(FileReader, "read", lambda self, *a: (read.append(len(found := reading(self, *a))), found)[1])  # pyright: ignore
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{handle}/notice")
    assert page.status_code == 200
    if after[0] in "1-" and "e" not in after:  # else it is no note
        assert "as it was noted down then" in page.text
        assert max(read, default=0) <= 1_000_000


@requirement("viewer:same-notice")
def test_a_notice_that_was_not_recorded_is_not_made_up(home: Path) -> None:
    output = kept(home, LINES)
    with client(home) as browser:
        page = browser.get(f"{output}/notice").text
    assert "Not recorded: what a model was given for this call, if one was, is not in this store." in page
    assert "model-text" not in page


def test_what_took_the_notices_place_later_is_shown_after_it(home: Path) -> None:
    async def agent(bag: Holdall) -> Facts:
        line = {"role": "tool", "call_id": "c1", "name": "x", "is_error": False}
        lines = [line | {"text": "first words"}, {"again": True}, line | {"text": "later words"}]
        bag.append_transcript(b"".join(json.dumps(one).encode() + b"\n" for one in lines))
        return await bag.keep(LINES, call_id="c1")

    session, facts = made(home, agent)
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{facts.handle}/notice").text
    assert page.index("first words") < page.index("Later, in its place") < page.index("later words")


def test_an_output_that_was_shown_whole_has_no_notice_and_says_so(home: Path) -> None:
    async def take() -> str:
        settings = Settings(tools={"note": ToolPolicy(store="always")})
        async with Holdall.open(home=str(home), session="s", settings=settings) as bag:
            taken = await bag.take("short", tool="note")
            return f"/s/{bag.session.id}/o/{taken.artifact.handle}/notice"  # pyright: ignore

    address = asyncio.run(take())
    with client(home) as browser:
        assert "The model got this output whole" in browser.get(address).text


# What a model has quoted


def _story(home: Path) -> tuple[Told, str]:
    story = asyncio.run(investigation(home))
    return story, f"/s/{story.session}/o/{story.handles[0]}"


def test_a_quote_is_a_link_to_its_bytes_and_one_that_is_nowhere_is_marked(home: Path) -> None:
    _, output = _story(home)
    with client(home) as browser:
        page = browser.get(f"{output}/quotes").text
        data = browser.get(f"{output}/raw").content
    verified, unverified = page.split("<figure")[1:]
    link = re.search(r'href="([^"?]*)\?byte=(\d+)&amp;to=(\d+)"', verified)
    assert link is not None
    assert link[1] == output
    assert REAL_QUOTE.encode() in data[int(link[2]) : int(link[3])]
    assert int(link[3]) - int(link[2]) < 100
    assert REAL_QUOTE in verified
    assert ">verified<" in verified
    assert FALSE_QUOTE in unverified
    assert ">unverified: not in what the model read<" in unverified
    assert "href" not in unverified
    assert "which disk?" in page


def test_a_quote_that_differs_in_white_space_is_told_as_on_the_command_line(home: Path) -> None:
    reply = json.dumps({"quotes": ["FAILED:  disk 7 is\tgone"], "answer": "7", "found": True, "confidence": 0.9})

    async def asked() -> tuple[str, str]:
        model = ScriptedModel(lambda _request: reply, keeps_schema=True, window=400_000)
        async with Holdall.open(home=str(home), session="s", model=model) as bag:
            handle = (await bag.keep("all is well\n" * 400 + "FAILED: disk 7 is gone\n", tool="t")).handle
            await bag.extract(handle, "which disk?", mode="full-chunked")
            return bag.session.id, handle

    session, handle = asyncio.run(asked())
    with client(home) as browser:
        page, quotes = browser.get(f"/s/{session}").text, browser.get(f"/s/{session}/o/{handle}/quotes").text
    (row,) = re.findall(r'<li class="quote">(.*?)</li>', page, re.DOTALL)
    for told in (quotes, row):
        assert ">verified but for white space and escapes</span>" in told
    assert "loose" not in row


def test_what_a_model_changed_is_beside_what_the_output_has_and_the_answer_is_there(home: Path) -> None:
    false, real = "FAILED: disk 8 is gone for ever", "FAILED: disk 7 is gone for ever"
    reply = json.dumps({"quotes": [false], "answer": "It is <b>disk 8</b>.", "found": True, "confidence": 0.9})

    async def asked() -> tuple[str, str]:
        model = ScriptedModel(lambda _request: reply, keeps_schema=True, window=400_000)
        async with Holdall.open(home=str(home), session="s", model=model) as bag:
            handle = (await bag.keep("all is well\n" * 400 + real + "\n" + "all is well\n" * 400, tool="t")).handle
            await bag.extract(handle, "which disk?", mode="full-chunked")
            return bag.session.id, handle

    session, handle = asyncio.run(asked())
    with client(home) as browser:
        page, quotes = browser.get(f"/s/{session}").text, browser.get(f"/s/{session}/o/{handle}/quotes").text
        opens = re.search(r'hx-get="([^"]+/step\?extraction=[^"]+)"', page)
        assert opens is not None
        opened = browser.get(html.unescape(opens[1])).text
    assert "It is &lt;b&gt;disk 8&lt;/b&gt;." in opened
    assert "unverified: the model changed it; this is a similar place</span>\n<a href" in quotes
    assert f"The model wrote: <q>{false}</q>" in quotes
    (row,) = re.findall(r'<li class="quote">(.*?)</li>', page, re.DOTALL)
    assert "not verified" in row
    assert f'<q>{false}</q> <span class="muted">is what the model wrote; the output has</span> <a href' in row
    assert f"<q>{real}</q></a>" in row


@requirement("ledger:in-viewer")
def test_rows_that_the_model_has_seen_are_marked_and_others_are_not(home: Path) -> None:
    _, output = _story(home)
    with client(home) as browser:
        (match,) = told(browser, f"{output}/search?q=E1234")["matches"]
        rows = told(browser, f"{output}/rows?by=lines&from={match['line'] - 1}&count=3")["rows"]
        seen = told(browser, f"{output}/seen")
    assert [row.get("seen") for row in rows] == ["searched", "all", "searched"]
    assert NEEDLE.strip() in text_of(rows[1]["t"])
    assert 0 < seen["share"] < 0.05
    assert seen["shown"]


# Download


@pytest.mark.parametrize(
    ("asked", "span", "status"),
    [
        (None, (0, 5000), 200), ("bytes=0-9", (0, 10), 206), ("bytes=4990-", (4990, 5000), 206),
        ("bytes=-5", (4995, 5000), 206), ("bytes=10-99999", (10, 5000), 206), ("bytes=-99999", (0, 5000), 206),
        ("bytes=5-2", (0, 5000), 200), ("bytes=1-2,5-6", (0, 5000), 200), ("lines=1-2", (0, 5000), 200),
    ],
)  # fmt: skip
def test_a_download_is_the_bytes_or_the_range_of_them(
    home: Path, asked: str | None, span: tuple[int, int], status: int
) -> None:
    data = bytes(at % 256 for at in range(5000))
    output = kept(home, data)
    with client(home) as browser:
        answer = browser.get(f"{output}/raw", headers={"range": asked} if asked else {})
    assert (answer.status_code, answer.content) == (status, data[slice(*span)])
    assert answer.headers["content-length"] == str(span[1] - span[0])
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {span[0]}-{span[1] - 1}/5000"


def test_a_range_past_the_end_says_where_the_end_is(home: Path) -> None:
    output = kept(home, "x" * 50)
    with client(home) as browser:
        answer = browser.get(f"{output}/raw", headers={"range": "bytes=50-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */50")


def test_a_download_is_never_something_that_a_browser_would_show(home: Path) -> None:
    output = kept(home, "<!doctype html><html><script>alert(1)</script></html>", tool='"; evil.exe')
    with client(home) as browser:
        for answer in (browser.get(f"{output}/raw"), browser.head(f"{output}/raw")):
            handle = output.rpartition("/")[2]
            assert answer.headers["content-disposition"] == f'attachment; filename="{handle}.txt"'
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-length"] == "53"
        assert browser.head(f"{output}/raw").content == b""


def test_a_download_of_damaged_bytes_is_broken_off_and_the_log_says_why(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, facts = made(home, lambda bag: bag.keep(LINES, tool="t"))
    file = home / f"session-{session}" / facts.file
    data = bytearray(file.read_bytes())
    data[-8:] = b"XXXXXXXX"
    file.write_bytes(data)
    with caplog.at_level("ERROR", logger="holdall.web"), client(home) as browser:
        browser.get(f"/s/{session}/o/{facts.handle}/raw")
    (line,) = (one.getMessage() for one in caplog.records if one.levelname == "ERROR")
    assert "/raw failed: ConnectionAbortedError: " in line
    assert "damaged" in line


def test_of_an_archive_no_lines_and_tokens_are_told_of_its_packed_bytes(home: Path) -> None:
    output = kept(home, gzip.compress(LINES.encode()))
    with client(home) as browser:
        page, row = browser.get(output).text, browser.get(f"{output}/row").text
    facts = page[page.index("output-facts") : page.index("output-actions")]
    assert "gzip" in facts
    assert "line" not in facts
    assert "token" not in facts
    assert re.findall(r'data-label="(?:Lines|Tokens)" class="num">(.*?)</td>', row) == ["", ""]


@requirement("viewer:pages")
def test_what_is_packed_has_pages_of_its_own(home: Path) -> None:
    with zipfile.ZipFile(written := io.BytesIO(), "w") as archive:
        archive.writestr("logs/a.log", LINES)
        archive.writestr("#1", "another")
        archive.writestr('logs/"><script>.json', json.dumps([{"a": 1}]))
        archive.writestr("empty/", "")
        archive.writestr("ü!.txt", "!")
    session, outer = made(home, lambda bag: bag.keep(written.getvalue(), tool="fetch"))

    async def read(bag: Holdall) -> object:
        return await bag.call("context_read", {"handle": f"{outer.handle}!logs/a.log", "lines": "1:3"})

    made(home, read)
    output = f"/s/{session}/o/{outer.handle}"
    with client(home) as browser:
        assert f'hx-get="{output}/parts"' in browser.get(output).text
        parts = browser.get(f"{output}/parts").text
        assert "4 parts inside" in parts
        assert "<script>" not in parts
        first, other, second, odd = (html.unescape(one) for one in re.findall(r'href="([^"]+)"', parts))
        page = browser.get(first).text
        assert f'A part of <a href="{output}">{outer.handle}</a>, unpacked.' in page
        assert "5,000 lines" in page
        assert f"{outer.handle}</a>, unpacked: <code>ü!.txt</code></p>" in browser.get(odd).text
        assert "ü!.txt · Holdall</title>" in browser.get(odd).text
        rows = told(browser, f"{first}/rows", params={"from": "4999", "count": "1"})
        assert "line 4999 of many" in json.dumps(rows)
        assert told(browser, f"{first}/seen")["share"] > 0
        assert "1:3" in browser.get(f"{first}/retrievals").text
        assert "1:3" not in browser.get(f"{second}/retrievals").text
        for part in ("notice", "quotes", "compare", "facts"):
            assert browser.get(f"{first}/{part}").status_code == 200, part
        assert "A part has no notice of its own" in browser.get(f"{first}/notice").text
        answer = browser.get(f"{first}/raw")
        assert answer.text == LINES
        assert browser.get(f"{other}/raw").text == "another"  # though `!#1` is the first
        assert answer.headers["content-disposition"] == f'attachment; filename="{outer.handle}-a.log"'
        assert told(browser, f"{second}/tree")["children"][0]["kind"] == "array"
        assert browser.get(f"{output}!nothing").status_code == 400
        with tarfile.open(fileobj=(tar := io.BytesIO()), mode="w:gz") as files:
            for name in ("d/one.txt", "d/two.txt"):
                (about := tarfile.TarInfo(name)).size = len(name)
                files.addfile(about, io.BytesIO(name.encode()))
        with zipfile.ZipFile(around := io.BytesIO(), "w") as archive:
            archive.writestr("inner.zip", written.getvalue())
        for data, count in ((tar.getvalue(), 2), (around.getvalue(), 1)):
            links = re.findall(r'href="([^"]+)"', browser.get(f"{kept(home, data)}/parts").text)
            assert len(links) == count
        assert '!inner.zip/parts"' in browser.get(links[0]).text
        inner = re.findall(r'href="([^"]+)"', browser.get(f"{links[0]}/parts").text)
        assert browser.get(f"{inner[0]}/raw").text == LINES
        assert "!inner.zip</a>, unpacked" in browser.get(inner[0]).text, "what it is in, not the outermost"
        packed = kept(home, gzip.compress(LINES.encode()))
        (link,) = re.findall(r'href="([^"]+)"', browser.get(f"{packed}/parts").text)
        assert "5,000 lines" in browser.get(link).text


# Following, and leaving no trace


@requirement("viewer:tail")
def test_a_change_is_told_when_it_comes_and_the_end_too(home: Path) -> None:
    async def work() -> None:
        async with Holdall.open(home=str(home), session="s") as bag:
            writer = await bag.begin(tool="slow")
            address = f"/s/{bag.session.id}/o/{writer.handle}"
            writer.write(b"one\n")
            with client(home) as browser:
                first = await asyncio.to_thread(told, browser, f"{address}/changes?bytes=0")
                assert (first["total"]["bytes"], first["state"]) == (4, "running")
                asked = threading.Event()

                def wait() -> dict[str, Any]:
                    asked.set()
                    return told(browser, f"{address}/changes?bytes=4")

                waiting = asyncio.ensure_future(asyncio.to_thread(wait))
                await asyncio.to_thread(asked.wait, 10)
                writer.write(b"two\n")
                second = await asyncio.wait_for(waiting, 100)
                assert (second["total"], second["state"]) == ({"bytes": 8, "chars": 8, "lines": 2}, "running")
                ending = asyncio.ensure_future(asyncio.to_thread(told, browser, f"{address}/changes?bytes=8"))
                await asyncio.to_thread(writer.finish, "failed", error="it broke", exit_code=3)
                last = await asyncio.wait_for(ending, 100)
                assert (last["state"], last["error"], last["exit_code"]) == ("failed", "it broke", 3)

    asyncio.run(work())


def test_looking_at_everything_leaves_no_trace_in_the_store(home: Path) -> None:
    _, output = _story(home)
    before = _contents(home)
    with client(home) as browser:
        for part in (
            "", "/notice", "/quotes", "/raw", "/rows?from=1", "/rows?by=hex", "/place?line=3", "/search?q=ERROR", "/seen",
            "/changes?bytes=0", "/tree", "/count?at=0&end=9", "/way?byte=1", "/table", "/query?sql=from t limit 1", "/columns",
            "/csv?sql=from t",
        ):  # fmt: skip
            assert browser.get(f"{output}{part}").status_code == 200, part
    assert _contents(home) == before


def test_nothing_but_a_get_is_answered(home: Path) -> None:
    output = kept(home, LINES)
    with client(home) as browser:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert browser.request(method, f"{output}/query?sql=from t").status_code == 405


def _contents(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def _unescaped(page: str) -> str:
    return html.unescape(page)


def test_two_outputs_are_compared_from_the_earlier_to_the_later(home: Path) -> None:
    async def kept() -> tuple[str, list[str]]:
        async with Holdall.open(home=str(home), session="two words") as bag:
            texts = ["same\n" * 50 + "old <b>\n", "same\n" * 50 + "new\n", "else\n"]
            handles = [(await bag.keep(text, tool=tool)).handle for text, tool in zip(texts, "aab", strict=True)]
            return bag.session.id, handles

    session, (first, second, other) = asyncio.run(kept())
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{second}/compare").text
        swapped = browser.get(f"/s/{session}/o/{first}/compare?other={second}").text
        assert "nothing else" not in page
        assert f"from {second} to {other}" in browser.get(f"/s/{session}/o/{other}/compare?other={second}").text
        assert "is kept" in browser.get(f"/s/{session}/o/{second}/compare?other=zzzz").text
    for told in (page, swapped):
        assert f"1 of 51 lines changed, from {first} to {second}" in told
        assert "<code>old &lt;b&gt;</code>" in told
        assert f'/o/{first}?byte=250&amp;to=258"' in told
        assert f"holdall diff {first} {second} --session &#39;two words&#39;" in told


def test_of_very_many_outputs_the_newest_are_offered_and_the_others_are_counted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdall.web.output_page._OTHERS", 3)

    async def kept() -> tuple[str, list[str]]:
        async with Holdall.open(home=str(home), session="s") as bag:
            return bag.session.id, [(await bag.keep(f"{at}\n", tool=tool)).handle for at, tool in enumerate("abbbab")]

    session, (first, second, third, fourth, same, last) = asyncio.run(kept())
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{first}/compare").text
        chosen = browser.get(f"/s/{session}/o/{first}/compare?other={second}").text
    assert re.findall('<option value="([^"]+)"', page) == [same, last, fourth]
    assert "<option disabled>… 2 more: put &amp;other=HANDLE into the address</option>" in page
    assert re.findall('<option value="([^"]+)"', chosen) == [same, last, fourth, second]
    assert f'<option value="{second}" selected>' in chosen
    assert third not in page


def test_a_part_is_not_compared_with_what_it_is_in_unless_that_is_asked(home: Path) -> None:
    with zipfile.ZipFile(written := io.BytesIO(), "w") as archive:
        archive.writestr("logs/a.log", LINES)
    outer = kept(home, written.getvalue())
    handle = outer.rpartition("/")[2]
    with client(home) as browser:
        unasked = browser.get(f"{outer}!logs~2Fa.log/compare").text
        asked = html.unescape(browser.get(f"{outer}!logs~2Fa.log/compare?other={handle}").text)
    assert "choose an output" in unasked
    assert "holdall diff" not in unasked
    assert f"'{handle}!logs/a.log'" in asked, "as a shell takes it"


def test_how_long_an_output_is_kept_and_how_it_is_removed_is_said(home: Path) -> None:
    async def kept() -> tuple[str, str]:
        async with Holdall.open(home=str(home), session="s", settings=Settings(retention="2 hours")) as bag:
            return bag.session.id, (await bag.keep("x\n", tool="t")).handle

    session, handle = asyncio.run(kept())
    with client(home) as browser:
        page, whole = browser.get(f"/s/{session}/o/{handle}").text, browser.get(f"/s/{session}").text
    assert "<dt>kept until</dt><dd>20" in page
    assert f"holdall rm {handle} --session s" in page
    assert "Each is kept for 2 hours." in whole
    assert "holdall rm --session s" in whole


def test_of_an_output_that_was_removed_the_notice_is_said_to_be_gone_too(home: Path) -> None:
    async def kept() -> tuple[str, str]:
        async with Holdall.open(home=str(home), session="s") as bag:
            taken = await bag.take("x\n" * 40_000, tool="t")
            assert isinstance(taken, Kept)
            await bag.forget(taken.handle)
            return bag.session.id, taken.handle

    session, handle = asyncio.run(kept())
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{handle}/notice").text
    assert "The output is gone, and with it what a model was given for it, if one was." in page
    assert "Not recorded" not in page


def test_how_long_a_call_of_an_agent_took_is_beside_its_output(home: Path) -> None:
    """Its record begins when the call has ended."""

    async def kept() -> str:
        async with Holdall.open(home=str(home), session="s") as bag:
            facts = await bag.keep("x\n", tool="t")
            bag.journal.record("called", handle=facts.handle, tool="t", call_id="c", seconds=91.0, outcome="kept")
            bag.journal.record("called", handle=facts.handle, tool="read", call_id="d", seconds=2.0, outcome="answer")
            return bag.session.id

    session = asyncio.run(kept())
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    assert '<td data-label="Took" class="num">1 min 31 s</td>' in page


def test_what_a_person_kept_on_the_command_line_was_given_to_no_model(home: Path) -> None:
    async def kept() -> tuple[str, list[str]]:
        async with Holdall.open(home=str(home), session="s") as bag:
            bag.journal.reader = "person"
            texts = ("short\n", "x\n" * 40_000)
            handles = [(await bag.keep(text, tool="t")).handle for text in texts]
            for handle in handles:
                await bag.fetch.shown(handle)
            return bag.session.id, handles

    session, handles = asyncio.run(kept())
    with client(home) as browser:
        short, long = (browser.get(f"/s/{session}/o/{one}/notice").text for one in handles)
    assert "no model was given it" in short
    assert "got this output whole" not in short
    assert "A model would have been given this:" in long
    assert "that the model was given" not in long


def test_a_call_that_was_kept_took_the_same_on_every_page(home: Path) -> None:
    async def kept() -> tuple[str, str]:
        async with Holdall.open(home=str(home), session="s") as bag:
            facts = await bag.keep("x\n", tool="t")
            bag.journal.record("kept", handle=facts.handle, tool="t", seconds=2.6, bytes=2)
            return bag.session.id, facts.handle

    session, handle = asyncio.run(kept())
    with client(home) as browser:
        pages = [browser.get(f"/s/{session}{path}").text for path in ("", "/calls", f"/o/{handle}")]
    assert ['class="num">2.6 s<' in page for page in pages[:2]] == [True, True]
    assert "<dt>took</dt><dd>2.6 s</dd>" in pages[2]


@pytest.mark.anyio
async def test_what_a_command_writes_is_told_to_no_model(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        writer = await bag.jobs.begin(tool="make")
        with client(home) as browser:
            page = browser.get(f"/s/{bag.session.id}/o/{writer.handle}/notice").text
            writer.finish("ready")
            after = browser.get(f"/s/{bag.session.id}/o/{writer.handle}/notice").text
    assert "It is still being written, by a command or a program: no model was told of it." in page
    assert "It was written by a command or a program: no model was told of it." in after
    assert "the model" not in page + after


@pytest.mark.anyio
async def test_what_a_person_runs_in_the_background_is_told_to_no_model(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        bag.journal.reader = "person"
        writer = await bag.jobs.begin(tool="make")
        bag.journal.record("running", handle=writer.handle, tool="make")
        with client(home) as browser:
            page = browser.get(f"/s/{bag.session.id}/o/{writer.handle}/notice").text
            writer.finish("failed", exit_code=3)
            bag.journal.record("ended", handle=writer.handle, tool="make", state="failed")
            after = browser.get(f"/s/{bag.session.id}/o/{writer.handle}/notice").text
    assert "It is still being written, by a command or a program: no model was told of it." in page
    assert "It was kept on the command line, for a person: no model was given it." in after


@pytest.mark.anyio
async def test_the_page_of_an_output_says_that_its_call_failed(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        failed = await bag.take(ValueError("boom " * 20_000), tool="fetch")
        session = bag.session.id
    assert isinstance(failed, Kept)
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{failed.handle}").text
    assert '<span class="badge" data-state="failed">error</span></h1>' in page
