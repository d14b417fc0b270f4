"""Claims of tables: rows, columns by name, their types, ranges, values, and what is odd in them."""

import csv
import io
import re
from collections import Counter

from tests.truth.claims import FIGURE, NUMBER, FalseClaim, Output, agrees, claim, is_so

_TABLES = "csv|tsv|table"
_QUOTED = r'"(?:[^"]|"")*"'


def _rows(output: Output) -> list[list[str]]:
    """Aligned cells are parted by two blanks or more here; what has one in it is not made."""
    text = output.text.removeprefix("\ufeff")
    if output.label == "table":
        return [re.split(r" {2,}", line.strip()) for line in output.lines if line.strip()]
    first = text.split("\n", 1)[0]
    sign = max(",\t;|", key=first.count)
    if at := _open_line(output):
        before, rest = [*csv.reader(output.lines[: at - 1])], [line.split(sign) for line in output.lines[at - 1 :]]
        if sum(len(row) == 3 for row in rest[1:]) > len(rest) / 2:
            return before + rest
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=sign) if row]


@claim(_TABLES, rf"(?P<rows>{NUMBER}) (?P<noun>row|line)s? × (?P<columns>{NUMBER}) columns?.*")
def a_table_has_as_many_rows(found: re.Match[str], output: Output) -> None:
    rows = output.once(_rows)
    agrees(found["columns"], max(map(len, rows)), "columns")
    if re.match(r":\d|\d+\)|[^,]+:$", rows[0][0]):
        is_so("no header" in found[0], True, "it has no header")
    if found["noun"] == "row":
        agrees(found["rows"], len(rows) - ("no header" not in found[0]), "rows")
    else:
        agrees(found["rows"], len(output.lines), "lines")


def _open_line(output: Output) -> int:
    """Of the outputs that have one quote in all."""
    return output.text[: output.text.index('"')].count("\n") + 1 if output.text.count('"') == 1 else 0


@claim(_TABLES, rf"a quote opens in L(?P<n>{NUMBER}) and is never closed: (?P<how>.*)")
def a_quote_is_open(found: re.Match[str], output: Output) -> None:
    agrees(found["n"], _open_line(output), "the line in which it opens")
    cells = output.once(_rows)[-1]
    is_so("one cell" in found["how"], any("\n" in cell for cell in cells), "all after it is in one cell")


@claim(_TABLES, rf"(?P<rows>{FIGURE}) rows? with more or fewer than (?P<usual>{NUMBER}) columns?")
def rows_of_other_lengths(found: re.Match[str], output: Output) -> None:
    rows = output.once(_rows)
    agrees(found["usual"], len(rows[0]), "columns of the first row")
    agrees(found["rows"], sum(len(row) != len(rows[0]) for row in rows), "rows of another length", exact=False)


@claim(_TABLES, rf"{NUMBER} columns .*")
def several_columns(found: re.Match[str], output: Output) -> None:
    """Their names are those that the header has."""
    del found, output


@claim(_TABLES, rf"… and (?P<number>{NUMBER}) more: (?P<names>.*)")
def the_last_columns(found: re.Match[str], output: Output) -> None:
    """The names that the header ends with; where they are cut off, the last one may be a part."""
    header = output.once(_rows)[0]
    number = int(found["number"].replace(",", ""))
    if found["names"].startswith(("column0", '"column0')) or '"' in found["names"]:
        return  # it has no header, or names that are written in quotes
    named = found["names"].removesuffix("…").split(", ")
    is_so(True, [*map(str.strip, header[-number:])][: len(named) - 1] == named[:-1], "the last columns are these")
    is_so(found["names"].endswith("…"), len(named) < number or header[-1].strip() != named[-1], "all are named")


@claim(_TABLES, rf"(?P<name>{_QUOTED}|[^:\"]+): (?P<what>.*?)(?: · (?P<empty>{FIGURE}) empty)?")
def a_column_of_a_table(found: re.Match[str], output: Output) -> None:
    header, *rows = output.once(_rows)
    name = found["name"][1:-1].replace('""', '"') if found["name"].startswith('"') else found["name"]
    if name not in header:
        number = re.fullmatch(r"column0*(\d+)", name)
        if number is None:
            raise FalseClaim(f"no column is called {name!r}: {header}")
        place, rows = int(number[1] or 0), [header, *rows] if len(rows[0]) == len(header) else rows
    else:
        place = header.index(name)
    values = [row[place] if place < len(row) else "" for row in rows]
    filled = list(filter(None, values))
    agrees(found["empty"] or "0", len(values) - len(filled), "empty", exact=False)
    _check_values(found["what"], filled)


def _check_values(what: str, filled: list[str]) -> None:
    if span := re.fullmatch(r"(?:int|float)(?:, always)? (at least )?(-?[\d.e+-]+)(?:…(-?[\d.e+-]+))?", what):
        numbers = list(map(float, filled))
        low, high = f"{min(numbers):.12g}", f"{max(numbers):.12g}"
        said = (span[2], span[3] or span[2])
        if span[1] is not None:
            is_so(float(said[0]) >= min(numbers) and float(said[1]) <= max(numbers), True, f"{said} in {low} to {high}")
        else:
            is_so(said, (low, high), "from and to")
    elif span := re.fullmatch(r"(?:date|time) (at least )?(.+)…(.+)", what):
        if span[1] is None:
            is_so((span[2], span[3]), (min(filled), max(filled)), "from and to")
        else:
            is_so(min(filled) <= span[2] <= span[3] <= max(filled), True, "from and to")
    elif nearly := re.match(rf"str, (?:int|float) but for ({FIGURE}) values?: (.*)", what):
        odd = [value for value in filled if not re.fullmatch(r" *-?\d*\.?\d+(?:e[+-]?\d+)? *", value)]
        agrees(nearly[1], len(odd), "odd values", exact=False)
        _check_counts(nearly[2], Counter(odd))
    elif "all distinct" in what:
        is_so(len(set(filled)), len(filled), "distinct")
    elif distinct := re.search(rf"({FIGURE}) distinct", what):
        agrees(distinct[1], len(set(filled)), "distinct", exact=False)
    elif always := re.fullmatch(rf"(?:bool )?always ({_QUOTED})", what):
        is_so({always[1]}, {f'"{value.strip()}"' for value in filled}, "always")
    else:
        _check_counts(what, Counter(filled))


def _check_counts(what: str, truth: Counter[str]) -> None:
    for value, times in re.findall(rf'"([^"…]*)" ×({NUMBER})', what):
        agrees(times, sum(many for one, many in truth.items() if one.strip() == value), f"times {value!r}")
