"""How a table is laid out: what parts its columns, whether its first row names them, their names and types.

Found once, from a sample of the output, for the notice, for SQL and for the viewer: a name that is shown is the name
that SQL knows, and a column is text in all of them or a number in all of them. Nothing here reads more than a `Sample`
holds, and of a table with very many cells only a part of it is taken apart.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import islice, pairwise, zip_longest

from holdall.formats.outline import Sample, flat, split, spread
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# ── What parts the columns ──────────────────────────────────────────────────────────────────────────────────

SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}
_LINE = lazy_pattern("[^\n]*+\n|[^\n]++")
_RECORDS = 200  # that are looked at to tell what parts them
_MOST_WIDE = 64  # characters of a name, and …
_MOST_WORDS = 5  # … words
_NO_NAME = lazy_pattern(r"[^\w\s]{2}")  # what begins with a rule or a comment's signs
_LIKE = 0.9  # of the records have as many columns as the first; …
_REGULAR, _ALL_LIKE = 5, 0.98  # … without names above them, so many records and nearly all of them


def separator_of(text: str, *, whole: bool = True, forced: bool = False) -> str | None:
    """The sign that parts the same number of columns (two or more) in nearly every record, or None.

    `whole`: the text does not end in the middle of a record. `forced`: it is a table for sure, so the likeliest sign.
    """
    first = text.lstrip("\n").partition("\n")[0]
    first = text[:4096] if '"' in first else first  # names may have line ends in them
    best: tuple[float, int, str] | None = None
    for sign in SEPARATORS:
        if sign not in first:
            continue
        records = records_of(text, sign, most=_RECORDS + 1)
        if len(records) <= _RECORDS and not whole and len(records) > 1:
            records.pop()
        if not records or (len(records) < 2 and not forced):
            continue
        header = records[0]
        alike = _hits(records, len(header)) / len(records)
        # Above an index there is no name; lines that are further in have no index.
        names = header[1:] if not header[0].strip() and _are_filled(records[1:]) else header
        if not forced and not all(map(_may_be_a_name, names)) and not _is_regular(records, alike):
            continue
        if len(header) > 1 and (forced or alike >= _LIKE):
            best = max(best or (0.0, 0, ""), (alike, len(header), sign))
    return best[2] if best else ("," if forced else None)


def _is_regular(records: list[list[str]], alike: float) -> bool:
    """Whether these are rows for sure, though no names are above them: prose has commas, too."""
    if len(records) < _REGULAR or len(records[0]) <= 2 or alike < _ALL_LIKE:
        return False
    cells = [cell for record in records for cell in record]
    return sum(len(cell) <= _MOST_WIDE for cell in cells) >= _LIKE * len(cells)


def _are_filled(records: list[list[str]]) -> bool:
    """Whether there are several, and nearly all have something in their first cell."""
    return len(records) >= _REGULAR and sum(bool(record[0].strip()) for record in records) >= _LIKE * len(records)


def _may_be_a_name(cell: str) -> bool:
    name = cell.strip()
    return 0 < len(name) <= _MOST_WIDE and len(name.split()) <= _MOST_WORDS and not _NO_NAME.match(name)


def records_of(text: str, sign: str, most: int | None = None, *, all_or_none: bool = False) -> list[list[str]]:
    """The records with their cells, blank lines left out; a quoted cell may go on over several lines.

    A cell of more than 128 KiB and a lone carriage return end them; with `all_or_none` there are none then.
    """
    found: list[list[str]] = []
    reader = filter(None, csv.reader(_lines(text), delimiter=sign))
    try:
        found.extend(islice(reader, most))
    except csv.Error:
        return [] if all_or_none else found
    return found


def _lines(text: str) -> list[str]:
    """With their ends: what is in quotes keeps them."""
    return _LINE.findall(text) if '"' in text else text.split("\n")


# ── Columns by position, as terminals show tables ───────────────────────────────────────────────────────────

_ALIGNED_LINES = 400  # that are looked at
_RULE = lazy_pattern(r"[-=+| ]++")
_TWO_STROKES = lazy_pattern(r"[-=]{2}")
_HEADER_WORD = lazy_pattern(r"(?=[^A-Za-z%#]{0,20}[A-Za-z%#])[\w%#(](?:[\w%#./()+:-]{0,40}[\w%#./()+-])?")
_WORD = lazy_pattern(r"\S+")
_RIVER = lazy_pattern(r"\S {2,}\S")  # in a name: two columns that no river parts
_LOUD = lazy_pattern(r"[A-Z0-9%#./()_+ -]++")
_TWO_CAPITALS = lazy_pattern(r"[A-Z]{2}")


@record
class Positions:
    """`starts` are those of the columns, in characters, the first 0; `first` is the line after the names."""

    starts: tuple[int, ...]
    first: int = 1
    by_words: bool = False  # no cell but the last has a space in it, and none is empty: words tell as much

    def cells(self, line: str) -> list[str]:
        """The cells of a line. One that does not keep to the columns is parted by its words, where that is as many."""
        starts, count = self.starts, len(self.starts)
        if not self._keeps_to_columns(line):
            words = line.split(None, count - 1) if self.by_words else []
            if len(words) == count:
                return [word.strip() for word in words]
            starts = self._between_words(line)
        return [line[start:end].strip() for start, end in zip(starts, (*starts[1:], None), strict=True)]

    def fits(self, line: str) -> bool:
        return self._keeps_to_columns(line) or (self.by_words and len(line.split()) >= len(self.starts))

    def _between_words(self, line: str) -> tuple[int, ...]:
        """Where its columns start, none inside a word: one that begins where a column does is longer than that, all
        others, such as numbers, reach into the column before theirs.
        """
        found = [0]
        for left, start in pairwise(self.starts):
            place, begin = start, line.rfind(" ", 0, start) + 1
            if max(begin, found[-1]) < start < len(line) and line[start] != " ":
                end = line.find(" ", start)
                place = begin if begin > left else len(line) if end < 0 else end
            found.append(max(found[-1], place))
        return tuple(found)

    def _keeps_to_columns(self, line: str) -> bool:
        last = self.starts[-1]
        line = line[:last].ljust(last)
        return [line[start - 1] for start in self.starts[1:]].count(" ") == len(self.starts) - 1


def positions_of(text: str, *, whole: bool = True) -> Positions | None:
    """Where the columns of `ps`, `df`, `docker ps` or `kubectl get` start; None if the text is no such table.

    A column ends where every line has a blank: so its cells may be aligned to the left or to the right.
    """
    lines = [line.rstrip("\r") for line in text.split("\n", _ALIGNED_LINES + 1)[: _ALIGNED_LINES + 1]]
    if len(lines) > _ALIGNED_LINES or not whole:
        lines.pop()
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < 3 or "\t" in lines[0] or not lines[0].strip():
        return None
    if not all(map(_HEADER_WORD.fullmatch, lines[0].split())):
        return None
    header, body, first = lines[0], lines[1:], 1
    if _RULE.fullmatch(body[0]) and _TWO_STROKES.search(body[0]):
        body, first = body[1:], 2
    rows = [line for line in body if line.strip()]
    if len(rows) < 2 or len(rows) * 10 < len(body) * 9:
        return None
    starts = _starts(header, rows)
    names = [header[start:end].strip() for start, end in zip_longest(starts, starts[1:])]
    if _has_joined(names, starts, rows):  # long values have pushed others out of their columns
        places = [found.start() for found in _WORD.finditer(header)]
        if all(len(row.split(None, len(places) - 1)) == len(places) for row in rows):
            starts = (0, *places[1:])
            names = header.split()
    if len(starts) < 2:
        return None
    words = [name.split() for name in names]
    if not all(words[1:]) or len({name.lower() for name in names}) < len(names):
        return None
    is_loud = bool(_LOUD.fullmatch(header) and _TWO_CAPITALS.search(header))
    if len(starts) < 3 and not is_loud and first == 1:
        return None  # `Name:   value`, or two words above each other
    by_words = all(len(row.split(None, len(starts) - 1)) == len(starts) for row in rows)
    found = Positions(starts, first, by_words)
    return found if sum(map(found.fits, rows)) >= _LIKE * len(rows) else None


def _has_joined(names: list[str], starts: tuple[int, ...], rows: list[str]) -> bool:
    """Whether a name is that of two columns: there is room between its words, or each row has as many words there."""
    if any(map(_RIVER.search, names)):
        return True
    cells = [Positions(starts).cells(row) for row in rows]
    return any(
        " " in name and all(len(row[number].split()) == len(name.split()) for row in cells)
        for number, name in enumerate(names[:-1])
    )


def _starts(header: str, rows: list[str]) -> tuple[int, ...]:
    """Where columns start: after each run of places that are blank in the header and in nearly every row."""
    last_word = len(header.rstrip()) - len(header.rsplit(maxsplit=1)[-1])
    strays, most = [0] * (last_word + 1), len(rows) // 20
    for row in rows:
        for place, sign in enumerate(row[: last_word + 1]):
            if sign != " ":
                strays[place] += 1
    river = [sign == " " and strays[place] <= most for place, sign in enumerate(header[: last_word + 1])]
    starts = [place for place in range(1, last_word + 1) if river[place - 1] and not river[place]]
    return _with_names(header, rows, starts)


def _with_names(header: str, rows: list[str], starts: list[int]) -> tuple[int, ...]:
    """With 0, without those that have no name, and with two words as one name where nothing is below the second.

    The first column may have none, as in `free`, where there is something below.
    """
    kept = [0]
    for start, end in zip_longest(starts, starts[1:]):
        is_filled = bool(header[kept[-1] : start].strip()) or (
            len(kept) == 1 and any(row[:start].strip() for row in rows)
        )
        is_second_word = header[start - 2 : start - 1].strip() and not any(row[start:end].strip() for row in rows)
        if is_filled and header[start:end].strip() and not is_second_word:
            kept.append(start)
    return tuple(kept)


# ── Types ───────────────────────────────────────────────────────────────────────────────────────────────────

TEXT = "VARCHAR"
_WHOLE = r"-?(?:0|[1-9]\d{0,17}+)"
_LONG = r"-?(?:0|[1-9]\d{0,36}+)"
_REAL = r"-?(?:(?:0|[1-9]\d{0,17}+)(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d{1,2}+)?+"
_DAY = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = _DAY + r"[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6}+)?+"
# Each is one that the ones after it take in, as far as there are such. A code with leading zeros is none of them.
PATTERNS = {
    "BIGINT": _WHOLE,
    "HUGEINT": _LONG,
    "DOUBLE": _REAL,
    "BOOLEAN": "true|false|True|False|TRUE|FALSE",
    "DATE": _DAY,
    "TIMESTAMP": _TIME,
    "TIMESTAMPTZ": _TIME + r"(?:Z|[+-]\d\d(?::?\d\d)?+)",
}
_TYPE = lazy_pattern("|".join(f"(?P<{name}>{pattern})" for name, pattern in PATTERNS.items()), re.ASCII)
_ALL_OF = {name: lazy_pattern(rf"(?: *+(?:{pattern}) *+\n)*+", re.ASCII) for name, pattern in PATTERNS.items()}
_BEGINS = frozenset("-.0123456789tTfF")
NUMBERS = frozenset({"BIGINT", "HUGEINT", "DOUBLE"})
_NEARLY = 0.9  # of the values, and …
_NEARLY_OF = 10  # … as many at least, before a column of text is called nearly one of numbers


def type_of(value: str) -> str:
    """The narrowest type of one value."""
    text = value.strip(" ")
    found = _TYPE.fullmatch(text) if text[:1] in _BEGINS else None
    name = found.lastgroup if found else None
    return name if name and (text == value or name in NUMBERS) else TEXT


def _joined(one: str, other: str) -> str:
    if one == other or not other:
        return one
    numbers = ["BIGINT", "HUGEINT", "DOUBLE"]
    if {one, other} == {"HUGEINT", "DOUBLE"}:
        return TEXT  # a float has no place for so many digits
    if one in numbers and other in numbers:
        return max(one, other, key=numbers.index)
    return TEXT


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_NAME = 100


def column_names(header: Sequence[str] | None, width: int) -> list[str]:
    """As SQL knows them: on one line, none empty, no two alike but for case. Without a header, column0 and so on."""
    digits = len(str(max(0, width - 1)))
    taken: set[str] = set()
    names: list[str] = []
    last: Counter[str] = Counter()  # the number of each name that occurs again
    for number in range(width):
        given = flat(header[number]).strip()[:_LONGEST_NAME] if header and number < len(header) else ""
        given = given or f"column{number:0{digits}}"
        name = given
        while name.casefold() in taken:
            last[given.casefold()] += 1
            name = f"{given}_{last[given.casefold()]}"
        taken.add(name.casefold())
        names.append(name)
    return names


# ── A header, or the first row ──────────────────────────────────────────────────────────────────────────────

_CODE = lazy_pattern(r"[\d.,:/+ -]*\d[\d.,:/+ %-]*[%€$]?", re.ASCII)
_PLACE = lazy_pattern(r"\S+@\S+\.\w+|\w+://\S+|/\S*/\S*|[0-9a-fA-F]{8,}|[0-9a-f]{8}-[0-9a-f-]{27}")
_LONGEST_LOOK = 300
_SIGN = lazy_pattern(r"[^\w\s-]")
_LEAST_ALIKE = 3  # rows
_DIGITS = lazy_pattern(r"\d+")
_HASH = lazy_pattern(r"(?<![^\W_])(?=[a-f]*\d)[0-9a-f]{32,64}(?![^\W_])", re.ASCII)
_NAME = lazy_pattern(r"[^\W\d_]|\d/\d")  # a letter, or a day above a column of numbers
_NONE = frozenset({"na", "n/a", "nan", "null", "none", "nil", "inf", "-inf"})
_BODY, _LEAST_BODY = 200, 20  # rows that are compared with the first one, and of a wide table so many at least
_COMPARED = 4000  # cells of them
_WIDE = 60  # columns by which a header is told
_YEARS = 3
_YEAR = lazy_pattern(r"(?:19|20)\d\d", re.ASCII)


def has_header(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is none of the others: its cells are of another kind than those below them."""
    body = body[: _compared(len(first))]
    if not body or not all(cell.strip() for cell in first[1:-1]):
        return bool(body) and all(map(_may_be_a_name, filter(str.strip, first))) and _names_more(first)
    years = [int(cell) for cell in first if cell.strip().isdecimal() and len(cell.strip()) == 4]
    if len(years) >= _YEARS and sorted(set(years)) == years:
        return True
    unlike = alike = named = values = 0
    for number, cell in spread(list(enumerate(first)), _WIDE):
        below = Counter(_look(row[number]) for row in body if number < len(row) and row[number].strip())
        look, times = below.most_common(1)[0] if below else ("", 0)
        if look and look != "text" and times >= _NEARLY * below.total():
            same = _look(cell) == look
            other = not same and bool(_NAME.search(cell)) and cell.lower() not in _NONE
            alike, unlike = alike + same, unlike + other
            values += same and not _NAME.search(cell) and not _YEAR.fullmatch(cell.strip())
            named += other and look != "place" and "#" not in look  # `/usr` is a path like those below it
    if values and not named:  # a number above numbers: few columns have one for a name
        return False
    if unlike:
        return unlike * 2 >= alike
    return (
        not alike
        and _names_more(first)
        and not _has_signs_of(first, body)
        and not any(
            cell in {row[number] for row in body if number < len(row)} for number, cell in enumerate(first) if cell
        )
    )


def _has_signs_of(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has the sign that nearly all cells below it have first: `:10 M` or `1) x` is no name."""
    shared = other = 0
    for number, cell in spread(list(enumerate(first)), _WIDE):
        below = Counter(_sign(row[number]) for row in body if number < len(row) and row[number].strip())
        sign, times = below.most_common(1)[0] if below else ("", 0)
        if sign and times >= max(_LEAST_ALIKE, _NEARLY * below.total()):
            shared, other = shared + (_sign(cell) == sign), other + (_sign(cell) != sign)
    return shared > other


def _sign(cell: str) -> str:
    found = _SIGN.search(cell[:_LONGEST_LOOK])
    return found[0] if found else ""


def _compared(width: int) -> int:
    """How many rows are compared with the first."""
    return max(_LEAST_BODY, min(_BODY, _COMPARED // max(1, width)))


def _names_more(first: Sequence[str]) -> bool:
    return all(_look(cell) == "text" for cell in first if cell.strip())


def _look(cell: str) -> str:
    """What a value looks like: its type, or digits with signs, a place, a word with a number; else text."""
    text = cell.strip()
    if len(text) > _LONGEST_LOOK:  # what is below takes the square of its length
        return "text"
    found = type_of(text)
    if found != TEXT:
        return "number" if found in NUMBERS else found
    if _CODE.fullmatch(text):
        return "code"
    if _PLACE.fullmatch(text):
        return "place"
    if _HASH.search(text):
        return "hash"
    if _DIGITS.search(text) and " " not in text:
        return _DIGITS.sub("#", text)
    return "text"


# ── The table ───────────────────────────────────────────────────────────────────────────────────────────────

_WIDEST = 10_000  # a line with more separators is no row of a table that anybody could ask
_HEAD = 64 * 1024  # bytes by which the separator is told
_CELLS = 160_000  # up to so many, all are taken apart where every row is a line with as many cells, …
_SOME = 60_000  # … up to so many in any case, and of more so many
_VERIFIED = 2 * 1024 * 1024  # up to so many bytes the types of some rows are compared with all others
_CELL_END = "\x1f"
_LONGEST_WHOLE = 18  # digits of a BIGINT
_ODD = 500  # rows that are unlike the others, past which not every row is looked at
_EXTRA = 100  # columns that a row may have beside those of the header


@record
class Column:
    """`type` is that of SQL. A column of text may hold `nearly` only values of another type; `odd` are the others, with
    how often each occurs, and `odd_count` is their number."""

    name: str
    type: str
    nearly: str = ""
    odd: tuple[tuple[str, int], ...] = ()
    odd_count: int = 0


Values = Counter[str] | list[str]
"""How often each value occurs; of whole numbers just all of them."""


@record
class Table:
    """`separator` is empty where the columns are told by `positions`. `exact`: every row was looked at, so the types
    and `rows` are those of all of it; else of the `values`, which are spread over it. `all_rows` is then the number of
    all rows, if it is known."""

    separator: str
    header: bool
    columns: tuple[Column, ...]
    exact: bool
    rows: int  # that were looked at
    ragged: int  # of those, how many have another number of cells
    values: tuple[Values, ...]  # of each column
    seen_all: bool  # the values are all there are
    positions: Positions | None = None
    all_rows: int | None = None
    open_line: int = 0  # in which a quote opens that is never closed
    mended: bytes = b""  # all of it with that quote as part of its cell, where the rows go on behind it

    @property
    def told_quote(self) -> str:
        how = "read as part of its cell" if self.mended else "all after it is one cell"
        return f"a quote opens in L{self.open_line:,} and is never closed: {how}" if self.open_line else ""

    def shape(self) -> dict[str, object]:
        """For the process that runs SQL."""
        columns = [[column.name, column.type] for column in self.columns]
        return {"columns": columns, "header": self.header, "checked": self.exact, "nearly": self.nearly}

    @property
    def nearly(self) -> list[str]:
        """Columns of text in which nearly all values are numbers."""
        return [column.name for column in self.columns if column.nearly]


def table_of(sample: Sample, *, kind: str = "csv", forced: bool = False) -> Table | None:
    """None if it is none. `forced`: it is to be read as one."""
    head, is_all = _text(sample.head[:_HEAD]), sample.whole and len(sample.head) <= _HEAD
    if kind == "table":
        positions = positions_of(head, whole=is_all)
        return _aligned(sample, positions) if positions else None
    sign = "\t" if kind == "tsv" and forced else separator_of(head, whole=is_all, forced=forced)
    if sign is None or _first_line(sample.head).count(sign.encode()) > _WIDEST:
        return None
    line, mended = _open_quote(sample.head, sign) if sample.whole else (0, b"")
    if mended:
        sample = replace(sample, pieces=((0, mended),), size=len(mended))
    table = _parted(sample, sign)
    return replace(table, open_line=line, mended=mended) if table and line else table


def _parted(sample: Sample, sign: str) -> Table | None:
    values = _lined_up(sample.head, sign) if sample.whole else None
    if values is not None:
        first, *rows = zip(*(one[: _compared(len(values)) + 1] for one in values), strict=True)
        header = has_header(first, rows)
        return _made(sign, first if header else None, [one[1:] for one in values] if header else values)
    records, is_whole = _sampled_records(sample, sign)
    if not records:
        return None
    width, header = len(records[0]), has_header(records[0], records[1:])
    body, ragged = _squared(records[header:], width, wider=is_whole)
    names = records[0] if header else None
    table = _made(sign, names, list(zip(*body, strict=True)) or [()] * width, exact=is_whole, ragged=ragged)
    if is_whole or not sample.whole:
        return table
    if sample.size <= _VERIFIED:
        try:
            return _verified(sample, table, width)
        except csv.Error:  # where a record ends cannot be told
            return table
    lines = _lines_of(sample.head, width, sign)
    return table if lines is None else replace(table, all_rows=lines - header)


def _open_quote(data: bytes, sign: str) -> tuple[int, bytes]:
    """The line in which a quote opens that is never closed, or 0. Where nearly all lines after it are rows, it is no
    cell that was cut: then also all of it, with that quote as a part of its cell."""
    if data.count(b'"') % 2 == 0:
        return 0, b""
    at = len(data)
    while (end := data.rfind(b'"', 0, at)) >= 0:
        at = len(data[: end + 1].rstrip(b'"')) if data[end - 1 : end] == b'"' else end
        if (end + 1 - at) % 2:
            break  # two in a row are one that is quoted
    parted = sign.encode()
    if at and data[at - 1 : at] not in (parted, b"\n"):
        return 0, b""
    before = records_of(_text(data[:at]) + _CELL_END, sign, all_or_none=True)
    if not before or before[-1][-1] != _CELL_END:
        return 0, b""
    line, width = data.count(b"\n", 0, at) + 1, len(before[0])
    cell, _, rest = data[at + 1 :].partition(b"\n")
    rows = [row for row in rest.split(b"\n") if row.strip()]
    if not rows or sum(row.count(parted) == width - 1 for row in rows) < _LIKE * len(rows):
        return line, b""
    own = cell.partition(parted)[0].rstrip(b"\r")
    quoted = b'"""' + own.replace(b'"', b'""') + b'"'
    return line, data[:at] + quoted + data[at + 1 + len(own) :]


def _first_line(data: bytes) -> bytes:
    end = data.find(b"\n")
    return data if end < 0 else data[:end]


def _lined_up(data: bytes, sign: str) -> list[list[str]] | None:
    """All cells by column, where that is quick: there are not too many, and each row has as many as the first."""
    most = _CELLS // (data[: data.find(b"\n")].count(sign.encode()) + 1)
    if data.count(b"\n") > 2 * most or data.count(b'"') > _CELLS:
        return None
    text = _text(data)
    width = text[: text.find("\n")].count(sign) + 1
    if _lines_of(data, width, sign) is not None and "\r" not in text:  # without quotes it is quicker still
        cells = text.removesuffix("\n").replace("\n", sign).split(sign)
        return [cells[number::width] for number in range(width)] if len(cells) <= _CELLS else None
    if text.count("\r") != text.count("\r\n") or _CELL_END in text:
        return None
    rows = list(_rows(text.split("\n"), sign))
    if None in rows or len(rows := list(filter(None, rows))) > most:
        return None
    width = rows[0].count(_CELL_END) + 1 if rows else 0
    if {row.count(_CELL_END) for row in rows} != {width - 1}:
        return None
    cells = _CELL_END.join(rows).split(_CELL_END)
    return [cells[number::width] for number in range(width)]


def _rows(lines: list[str], sign: str) -> Iterator[str | None]:
    """Each row with another sign between its cells. None where quotes do not end as they should."""
    begun: list[str] = []  # lines of a row with a cell that goes on
    is_open = False
    for line in lines:
        if '"' not in line and not is_open:
            yield line.replace(sign, _CELL_END).rstrip("\r")
            continue
        begun.append(line + "\n")
        is_open ^= bool(line.count('"') % 2)
        if not is_open:
            reader = csv.reader(begun, delimiter=sign)
            try:
                yield _CELL_END.join(next(reader, ())) or None  # one empty cell in quotes is a row, and no blank line
            except csv.Error:
                yield None
            if reader.line_num < len(begun):
                yield None
            begun = []
    if begun:
        yield None


def _lines_of(data: bytes, width: int, sign: str) -> int | None:
    """How many rows there are, where every one is a line and has as many cells; None if they are not like that."""
    if b'"' in data:
        return None
    signs = data.translate(None, bytes(set(range(256)) - {ord(sign), 10})) + (b"" if data.endswith(b"\n") else b"\n")
    row = sign.encode() * (width - 1) + b"\n"
    lines = len(signs) // len(row)
    return lines if signs == row * lines else None


def _sampled_records(sample: Sample, sign: str) -> tuple[list[list[str]], bool]:
    """The first record and others, spread evenly where they are too many; and whether these are all."""
    first = sample.head[: 64 * 1024].split(b"\n", 1)[0]
    wide = max(1, first.count(sign.encode()) + 1)
    most = max(50, _SOME // wide)
    if sample.whole and sample.lines <= most * 2:
        records = records_of(_text(sample.head), sign, most + 1, all_or_none=True)
        if len(records) <= most:
            return records, True
    pieces = _pieces(sample, min(1.0, most / max(1, sample.lines)))
    share = max(20, most // max(1, len(pieces)))
    found = records_of(_text(pieces[0][1]), sign, share + 1)
    if len(found) > share or len(pieces) > 1:
        found = found[:-1]  # it may be cut
    width = len(found[0]) if found else 0
    for start, data in pieces[1:]:
        found += _window(data, sign, width, share, is_last=start + len(data) == sample.size)
    return found, False


def _pieces(sample: Sample, keep: float) -> list[tuple[int, bytes]]:
    if not sample.whole:
        return list(sample.pieces)
    data, parts = sample.head, 12
    length = max(4096, int(len(data) * keep / parts) + 1)
    starts = [(len(data) - length) * number // (parts - 1) for number in range(parts)]
    return [(start, data[start : start + length]) for start in starts if start >= 0] or [(0, data)]


def _window(data: bytes, sign: str, width: int, most: int, *, is_last: bool) -> list[list[str]]:
    """The records of a window, which may begin inside of a cell in quotes: the reading that fits more of them."""
    text = _text(data[data.find(b"\n") + 1 :])
    best = records_of(text, sign, most + 1)
    if '"' in text and (hits := _hits(best, width)) * 10 < len(best) * 9:
        other = records_of('"' + text, sign, most + 2)[1:]
        best = other if _hits(other, width) > hits else best
    best = best if is_last and len(best) <= most else best[:-1]  # it may be cut
    return [cells for cells in best if len(cells) == width]  # others may only be cut


def _hits(records: list[list[str]], width: int) -> int:
    return list(map(len, records)).count(width)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def _squared(body: list[list[str]], width: int, *, wider: bool) -> tuple[list[list[str]], int]:
    """Rows of one width, and how many had another. `wider`: further columns are kept, where rows have them."""
    ragged = len(body) - _hits(body, width)
    if ragged:
        widest = max(width, min(max(map(len, body)), width + _EXTRA)) if wider else width
        body = [row if len(row) == widest else (row + [""] * (widest - len(row)))[:widest] for row in body]
    return body, ragged


def _made(
    sign: str,
    header: Sequence[str] | None,
    values: Sequence[Sequence[str]],
    *,
    exact: bool = True,
    ragged: int = 0,
    positions: Positions | None = None,
) -> Table:
    names = column_names(header, len(values))
    made = list(map(_column, names, values))
    columns, kept = tuple(one for one, _ in made), tuple(one for _, one in made)
    return Table(sign, header is not None, columns, exact, len(values[0]), ragged, kept, exact, positions)


def _column(name: str, values: Sequence[str]) -> tuple[Column, Values]:
    if _are_counts(values):  # to count them is dearer than to look at all at once
        return Column(name, "BIGINT"), list(values)
    counted = Counter(values)
    return _counted_column(name, counted), counted


def _are_counts(values: Sequence[str]) -> bool:
    """Whether all that is there are whole numbers without a sign."""
    digits = "".join(values)
    if not (digits.isdecimal() and digits.isascii()) or max(map(len, values)) > _LONGEST_WHOLE:
        return False
    text = "\n\n".join(["", *values, ""])
    return text.count("\n0") == text.count("\n0\n")  # no code with leading zeros


def _counted_column(name: str, counted: Counter[str]) -> Column:
    distinct = counted.copy()
    del distinct[""]
    if not distinct:
        return Column(name, TEXT)
    usual = type_of(next(iter(distinct)))
    if usual in NUMBERS and _ALL_OF[usual].fullmatch("\n".join([*distinct, ""])):  # the quick way
        return Column(name, usual)
    types: Counter[str] = Counter()
    kinds = {value: type_of(value) for value in distinct}
    for value, kind in kinds.items():
        types[kind] += distinct[value]
    joined = ""
    for kind in types:
        joined = _joined(kind, joined)
    if joined == "DATE" and not all(map(_is_day, distinct)):
        joined = TEXT
    if joined != TEXT:
        return Column(name, joined)
    numbers = [kind for kind in types if kind in NUMBERS]
    total, hits = distinct.total(), sum(types[kind] for kind in numbers)
    if hits < total * _NEARLY or hits < _NEARLY_OF:
        return Column(name, TEXT)
    nearly = "DOUBLE" if "DOUBLE" in numbers else "BIGINT"
    odd = Counter({value: distinct[value] for value, kind in kinds.items() if kind not in NUMBERS})
    return Column(name, TEXT, nearly, tuple(odd.most_common(3)), total - hits)


def _is_day(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _verified(sample: Sample, table: Table, width: int) -> Table:
    """The same with every row looked at: rows of the usual form all at once, the others one by one. Where those are
    too many, the table stays one of a sample."""
    data, sign = sample.head, re.escape(table.separator)
    cell = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^{sign}"\n]*+)'
    cells = [cell if one.type == TEXT else rf"(?:{PATTERNS[one.type]})?+" for one in table.columns[:width]]
    usual = re.compile(rf"(?:{sign.join(cells)}\r?\n)*+".encode(), re.ASCII)
    at = _end_of_record(data, 3 if data.startswith(b"\xef\xbb\xbf") else 0, table.separator)[1] if table.header else 0
    rows = ragged = tries = 0
    widest = width
    odd: list[Counter[str]] = [Counter() for _ in range(width)]
    while at < len(data):
        end = usual.match(data, at).end()  # type: ignore[union-attr]
        rows += _records_in(data[at:end])
        at = end
        if at >= len(data):
            break
        tries += 1
        cells_here, at = _end_of_record(data, at, table.separator)
        if tries > _ODD or len(cells_here) > width + _EXTRA:
            return table
        if not cells_here:
            continue
        rows += 1
        ragged += len(cells_here) != width
        widest = max(widest, len(cells_here))
        for column, value, strays in zip(table.columns, cells_here, odd, strict=False):
            if value and column.type != TEXT and _joined(type_of(value), column.type) != column.type:
                strays[value] += 1
    columns = [
        _with_odd(column, strays) if strays else column for column, strays in zip(table.columns, odd, strict=False)
    ]
    columns += [Column(name, TEXT) for name in column_names([one.name for one in columns], widest)[width:]]
    values = (*table.values[:width], *(Counter[str]() for _ in range(widest - width)))
    return Table(table.separator, table.header, tuple(columns), True, rows, ragged, values, False)


def _with_odd(column: Column, strays: Counter[str]) -> Column:
    """A column with values of another type is one of text, or of longer numbers."""
    kinds = {type_of(value) for value in strays}
    if column.type in NUMBERS and kinds <= NUMBERS:
        joined = column.type
        for kind in kinds:
            joined = _joined(kind, joined)
        return Column(column.name, joined)
    nearly = column.type if column.type in NUMBERS else ""
    odd = Counter({value: times for value, times in strays.items() if type_of(value) not in NUMBERS})
    return Column(column.name, TEXT, nearly, tuple(odd.most_common(3)) if nearly else (), odd.total() * bool(nearly))


def _end_of_record(data: bytes, start: int, sign: str) -> tuple[list[str], int]:
    """The cells of the record that starts there, and where the next one does."""
    size = 4096
    while True:
        text = data[start : start + size].decode("utf-8", "surrogateescape")
        lines = _LINE.findall(text)
        reader = csv.reader(lines, delimiter=sign)
        cells = next(reader, list[str]())
        used = "".join(lines[: reader.line_num]).encode("utf-8", "surrogateescape")
        if used.endswith(b"\n") or start + size >= len(data) or size > 1 << 20:
            return cells, start + max(1, len(used))
        size *= 8


def _records_in(data: bytes) -> int:
    if b'"' not in data:
        return data.count(b"\n")
    return sum(part.count(b"\n") for part in data.split(b'"')[::2])


def _aligned(sample: Sample, positions: Positions) -> Table:
    lines, width = split(sample, every=True), len(positions.starts)
    header = positions.cells(_text(lines.texts[0]).rstrip("\r"))
    texts = [text for text in lines.texts[positions.first :] if text.strip()]
    is_whole = lines.exact and len(lines.texts) == sample.lines and len(texts) * width <= _CELLS
    rows = [_text(text).rstrip("\r") for text in (texts if is_whole else spread(texts, _SOME // width))]
    cells = list(zip(*map(positions.cells, rows), strict=True)) or [()] * width
    made = _made("", header, cells, exact=is_whole, positions=positions)
    return replace(made, ragged=sum(not positions.fits(row) for row in rows))
