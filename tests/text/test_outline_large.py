"""Outlines of what is too large to be looked at whole: what is exact all the same, and what is marked."""

import functools
import json
import random
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.formats.json_values import cost, go_on, prefix, skim
from holdall.formats.outline import spread
from holdall.formats.shapes import places
from holdall.text.json.reader import count_members
from tests.requirements import requirement
from tests.text.outline_tools import outlined, text_of


def _record(n: int) -> dict[str, object]:
    return {"id": n, "name": f"item {n}", "status": ("open", "paid", "void")[n % 3], "tags": ["a"] * (n % 4)}


@functools.cache
def document() -> dict[str, object]:
    return {
        "swagger": "2.0",
        "paths": {f"/api/{n}": {"get": _record(n), "post": _record(n)} for n in range(9000)},
        "definitions": {f"Thing{n}": {"type": "object", "properties": {"a": _record(n)}} for n in range(4321)},
        "info": {"title": "A title", "version": "v1"},
    }


@pytest.mark.parametrize("indent", [1, 2, 4, "\t"])
def test_members_on_lines_of_their_own_are_all_counted_wherever_they_stand(indent: int | str) -> None:
    skimmed = skim(json.dumps(document(), indent=indent).encode())
    assert skimmed is not None
    value, counts = skimmed
    assert {key: counts[id(value[key])] for key in ("paths", "definitions")} == {"paths": 9000, "definitions": 4321}
    assert (value["swagger"], value["info"]) == (document()["swagger"], document()["info"])


def test_members_are_counted_where_not_all_values_are_looked_at() -> None:
    found = outlined(json.dumps(document(), indent=1))
    assert 'swagger: "2.0", paths: {9,000 keys like "/api/' in found.lines[0]
    assert "definitions: {4,321 keys like " in found.lines[0]
    assert 'info: {title: "A title", version: "v1"}' in found.lines[0]
    assert any(line.startswith("$.paths.*: {get: {id, name, status, tags}, post: {") for line in found.lines)


def test_records_on_lines_of_their_own_are_counted_too() -> None:
    rows = ",\n".join(json.dumps(_record(n)) for n in range(60_000))
    assert outlined(f"[\n{rows}\n]").lines[0].startswith("[60,000 × {id: int at least 0…")


@given(st.recursive(st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4), max_leaves=30), st.sampled_from([1, 2, 3]))  # fmt: skip
def test_what_is_skimmed_of_a_small_document_is_all_of_it(value: object, indent: int) -> None:
    """Where nothing is left out it is the same value; arrays of numbers are the one thing that cannot be skimmed."""
    text = json.dumps({"only": value, "last": ""}, indent=indent)
    skimmed = skim(text.encode("utf-8"))
    assert skimmed is not None
    found, counts = skimmed
    assert not counts
    assert found == json.loads(text.encode("utf-8").decode("latin-1"), strict=False)


@given(
    st.lists(st.recursive(st.none() | st.text(st.sampled_from('",[]{}\\ a'), max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)), min_size=1, max_size=6),
    st.sampled_from(["", ",1]", "}", ' "x"]']),
)  # fmt: skip
def test_members_of_a_container_are_counted_without_parsing_them(values: list[object], after: str) -> None:
    assert count_members((json.dumps(values)[1:] + after).encode()) == len(values)
    members = {str(n): value for n, value in enumerate(values)}
    assert count_members((json.dumps(members, separators=(",", ":"))[1:] + after).encode()) == len(values)
    assert count_members(json.dumps(values)[1:-1].encode()) is None


@given(
    st.lists(st.dictionaries(st.text(max_size=4), st.integers(), max_size=3), min_size=1, max_size=30),
    st.integers(1, 400),
)
def test_a_beginning_goes_on_to_the_whole(rows: list[dict[str, int]], length: int) -> None:
    text = json.dumps({"rows": rows, "last": [1, 2]})
    begun = prefix(text[:length])
    if begun is None or not begun.open_at:
        return
    go_on(begun, text)
    assert begun.open_at == []
    assert begun.value == json.loads(text)


def test_what_it_costs_to_parse_grows_with_what_is_in_it() -> None:
    words, records, lists = (
        json.dumps(["some words that go on and on " * 40] * 800).encode(),
        json.dumps([_record(n) for n in range(12_000)]).encode(),
        b"[" + b"[]," * 300_000 + b"[]]",
    )
    assert cost(words) / len(words) < cost(records) / len(records) < cost(lists) / len(lists)
    assert cost(records * 4) == pytest.approx(4 * cost(records), rel=0.3)


def test_nested_records_are_not_taken_for_those_around_them() -> None:
    leaves = [{"code": n, "name": "x"} for n in range(30)]
    inner = [{"code": n, "children": leaves} for n in range(300)]
    provinces = json.dumps([{"code": n, "children": inner} for n in range(12)])
    assert outlined(provinces).lines[0].startswith("[12 × ")


def test_an_error_outside_of_the_sample_is_found_in_a_long_line_too() -> None:
    data = "lorem ipsum " * 900_000
    data = f"{data[:5_200_000]} fatal: the disk is full {data[5_200_000:]}"
    (error,) = outlined(data).errors
    assert "fatal: the disk is full" in error[1]
    assert abs(error[0] - 5_200_000) < 200


def test_values_that_repeat_are_not_seen_in_part_by_a_sample() -> None:
    rows = [{"city": ("Oslo", "Bern", "Riga", "Lima")[n % 4], "n": n} for n in range(40_000)]
    text = text_of("".join(json.dumps(row) + "\n" for row in rows))
    assert all(city in text for city in ("Oslo", "Bern", "Riga", "Lima"))
    assert {n % 5 for n in spread(range(100_000), 60)} == {0, 1, 2, 3, 4}


@requirement("notice:figures-true")
@pytest.mark.parametrize("form", ["medium", "fuller", "cut"])
def test_of_a_long_history_every_commit_is_counted(form: str) -> None:
    rng, dates, authors = random.Random(7), list[datetime](), Counter[str]()
    parts: list[str] = []
    for number in range(14_000):
        zone = timezone(timedelta(hours=rng.choice([-7, 0, 13])))
        date = datetime(2020 + number % 5, 1 + number % 12, 1 + number % 28, number % 24, tzinfo=zone)
        author = rng.choice(["Ann Lee", "Bob", "Ćiril", f"Nr {number % 900}"])
        dates.append(date)
        authors[author] += 1
        written = f"{date:%a %b} {date.day} {date:%H:%M:%S %Y %z}"
        signed = f"Author: {author} <a@b.c>\nDate:   {written}"
        if form == "fuller":
            signed = (
                f"Author:     {author} <a@b.c>\nAuthorDate: {written}\nCommit:     X <x@y.z>\nCommitDate: {written}"
            )
        parts.append(
            f"commit {rng.getrandbits(160):040x}\n{signed}\n\n    {'change of words ' * 5}\n\n    Date: none\n"
        )
    text = "\n".join(parts)
    if form == "cut":
        text = text[: text.rindex("Author: ")]
    told = outlined(text).lines[0]
    first, last = (f"{pick(dates):%Y-%m-%d}" for pick in (min, max))
    [(name, times), *_] = authors.most_common()
    expected = f"14,000 commits · {first} → {last} · {len(authors)} authors: {name} {times:,}, "
    assert told.startswith(expected) == (form != "cut"), told
    assert ("at least " in told) == (form == "cut"), told


def test_which_rows_are_alike_is_the_same_in_every_process() -> None:
    """Hashes of words are not, and with them a log had one shape more or less."""
    known: dict[str, int] = {}
    rows = [places(["user", name, "in"], known) for name in ("<name>", "ann")]
    assert rows == [
        [-6366451506062060854, 6175065136077595779, 8939429908322884573],
        [6815810807354160847, 6175065136077595779, -4703298955428756741],
    ]
