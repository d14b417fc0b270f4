"""Text that programs write for programs: metrics of Prometheus, dumps of databases, minified scripts.

Each is told by its parts with their counts, one real line of the largest, and what else there is. Counts are of all of
the output where all of it was read, else "at least".
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import stringzilla

from holdall.formats.kinds import is_metric_line, is_sql_line
from holdall.formats.leads import literal
from holdall.formats.outline import Lead, Outline, Room, Sample, cut, fitted, scattered
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

_LINE = 160  # characters of a real line


def _about(sample: Sample) -> str:
    return "" if sample.whole else "at least "


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# Metrics: how many there are of each type, and the largest of them with their labels and one sample.


_NAME = lazy_pattern(rb"\n([A-Za-z_:][\w:]{0,200})(?=[ {])")
_LABEL = lazy_pattern(rb"([A-Za-z_]\w{0,80})=\"")
_TYPE = lazy_pattern(rb"\n# TYPE ([\w:]{1,200}) (\w{1,20})")
_PARTS = (b"_bucket", b"_sum", b"_count", b"_created")  # of one histogram or summary
_SHOWN = 12  # metrics
_NAMES_SHOWN = 24


def metrics_outline(sample: Sample, room: Room) -> Outline | None:
    types: dict[bytes, str] = {}
    names: Counter[bytes] = Counter()
    for data in _from_line_starts(sample):
        types |= {name: _text(kind) for name, kind in _TYPE.findall(data)}
        names.update(_NAME.findall(data))
    lines = scattered(sample)
    if not names or sum(map(is_metric_line, lines)) * 2 < len(lines):
        return None
    families: Counter[bytes] = Counter()
    for name, times in names.items():
        families[_family(name, types)] += times
    about = _about(sample)
    kinds = ", ".join(plural(times, kind) for kind, times in Counter(types.values()).most_common(5))
    sizes = f"{about}{plural(len(families), 'metric')}, {about}{plural(names.total(), 'sample')}"
    told = [f"{sizes}{': ' if kinds else ''}{about if kinds else ''}{kinds}"]
    ordered = [name for name, _ in families.most_common()]
    for name in ordered[: 3 if room.is_small else _SHOWN]:
        line = _first_sample(sample, name)
        told.append(f"{about}{families[name]:,} × {cut(_text(name), 100)} · {cut(_text(line), _LINE)}")
    kept = list(fitted(told, room.less(0.75)))
    rest = ordered[len(kept) - 1 :][:_NAMES_SHOWN]
    if rest:
        kept.append(room.after(kept).cut(f"also {', '.join(cut(_text(name), 60) for name in rest)}", 60))
    return Outline(
        "metrics", tuple(kept), not sample.whole, (), leads=tuple(_metric_leads(sample, ordered[:3])), ends=False
    )


def _from_line_starts(sample: Sample) -> Iterator[bytes]:
    """What was read, each piece from the end of a line on."""
    for start, data in sample.pieces:
        yield data[max(0, data.find(b"\n")) :] if start else b"\n" + data


def _family(name: bytes, types: dict[bytes, str]) -> bytes:
    """The metric that a sample belongs to: a histogram has several samples of its own."""
    if name in types:
        return name
    stems = (name.removesuffix(part) for part in _PARTS if name.endswith(part))
    return next((stem for stem in stems if types.get(stem) in ("histogram", "summary", "gaugehistogram")), name)


def _first_sample(sample: Sample, name: bytes) -> bytes:
    for data in _from_line_starts(sample):
        for sign in (b"{", b" ", b"_bucket{", b"_sum"):
            at = stringzilla.find(data, b"\n" + name + sign)
            if at >= 0:
                return data[at + 1 : at + 400].split(b"\n", 1)[0]
    return b""


def _metric_leads(sample: Sample, names: list[bytes]) -> Iterator[Lead]:
    for name in names:
        labels = _LABEL.findall(_first_sample(sample, name))
        label = next((each for each in labels if each not in (b"le", b"quantile")), b"")
        if label:
            yield Lead("grep", {"pattern": rf'^{_text(name)}\w*\{{.*\b{_text(label)}="([^"]*)"', "group": True})
            break
    for name in names[-1:]:
        yield Lead("grep", {"pattern": f"^{_text(name)}", "limit": 5})


# A dump of a database: its tables with their columns, and how many rows or statements each has.


_WORD = rb"(?:\"[^\"\n]{1,120}\"|`[^`\n]{1,120}`|\[[^\]\n]{1,120}\]|'[^'\n]{1,120}'|[\w$\x80-\xff-]{1,120})"
_TABLE = _WORD + rb"(?:\." + _WORD + rb"){0,2}"
_CREATE = lazy_pattern(
    rb"\nCREATE (?:\w{1,12} ){0,3}?TABLE (?:IF NOT EXISTS )?(" + _TABLE + rb")(?:\s{1,8}USING \w{1,40})?"
    rb"(?:\s{0,8}\(([^;]{0,6000}))?",
    re.IGNORECASE,
)
_INSERT = lazy_pattern(rb"\n(?:INSERT|REPLACE) (?:OR \w{1,10} )?INTO (" + _TABLE + rb")", re.IGNORECASE)
_COPY = lazy_pattern(rb"\nCOPY (" + _TABLE + rb") ?\(([^)\n]{0,4000})\) FROM stdin;[^\n]*\n")
_COLUMN = lazy_pattern(rb"\s{0,40}(?:\"([^\"]{1,64})\"|`([^`]{1,64})`|\[([^\]]{1,64})\]|(\w{1,64}))(?:\s|$)")
_NO_COLUMN = frozenset(
    (b"PRIMARY", b"KEY", b"UNIQUE", b"CONSTRAINT", b"FOREIGN", b"INDEX", b"CHECK", b"FULLTEXT", b"SPATIAL", b"EXCLUDE")
)
_BRACKETS = lazy_pattern(rb"[(),]")
_QUOTES = b"`\"[]'"
_OF_SQLITE = "sqlite_"  # how the names of its own tables begin
_MOST_TABLES = 400
_COLUMNS = 8
_FEW_TABLES = 8


@record(frozen=False)
class _Table:
    columns: list[str]
    rows: int = 0
    statements: int = 0
    exact: bool = True


def sql_outline(sample: Sample, room: Room) -> Outline | None:
    tables: dict[str, _Table] = {}
    for data in _from_line_starts(sample):
        for match in islice(_CREATE.finditer(data), _MOST_TABLES):
            table = tables.setdefault(_name(match[1]), _Table([]))
            table.columns = table.columns or _columns(match[2] or b"")
        for name, times in Counter(_INSERT.findall(data)).items():
            tables.setdefault(_name(name), _Table([])).statements += times
        _copies(data, tables)
    lines = scattered(sample)
    if not tables or sum(map(is_sql_line, lines)) * 2 < len(lines):
        return None
    about = _about(sample)
    statements = sum(table.statements for table in tables.values())
    tables = {name: table for name, table in tables.items() if not name.startswith(_OF_SQLITE)} or tables
    rows = sum(table.rows for table in tables.values())
    parts = [plural(len(tables), "table")]
    parts += [plural(rows, "row")] if rows else []
    parts += [plural(statements, "INSERT statement")] if statements else []
    exact = sample.whole and len(tables) < _MOST_TABLES and all(table.exact for table in tables.values())
    told = [", ".join(("" if exact else "at least ") + part for part in parts)]
    ordered = sorted(tables.items(), key=lambda each: -each[1].rows - each[1].statements)
    told += [_table_line(name, table, about) for name, table in ordered]
    kept = list(fitted(told, room.after(["… at least 1,234 more tables"])))
    left = len(told) - len(kept)
    kept += [f"… {about}{plural(left, 'more table')}"] if left else []
    leads = tuple(_sql_leads(ordered, is_made=any(map(_CREATE.search, _from_line_starts(sample)))))
    return Outline("sql dump", tuple(kept), not exact, (), leads=leads, ends=False)


def _copies(data: bytes, tables: dict[str, _Table]) -> None:
    """The rows between `COPY … FROM stdin;` and `\\.`."""
    for match in islice(_COPY.finditer(data), _MOST_TABLES):
        table = tables.setdefault(_name(match[1]), _Table([]))
        table.columns = table.columns or [_text(each.strip(b' "')) for each in match[2].split(b",")]
        end = stringzilla.find(data, b"\n\\.", match.end() - 1)
        table.exact &= end >= 0
        # The end of the line before the first row, and of each row but the last; where it is cut off, of each.
        first, stop = (match.end() - 1, end) if end >= 0 else (match.end(), len(data))
        table.rows += data.count(b"\n", first, stop)


def _name(name: bytes) -> str:
    return _text(bytes(sign for sign in name if sign not in _QUOTES))


def _columns(body: bytes) -> list[str]:
    """The first word of each part of the list, up to the bracket that ends it."""
    depth = start = 0
    parts: list[bytes] = []
    for match in _BRACKETS.finditer(body):
        sign = match[0]
        if depth == 0 and sign in (b",", b")"):
            parts.append(body[start : match.start()])
            start = match.end()
            if sign == b")":
                break
        depth += (sign == b"(") - (sign == b")")
    names = [match[match.lastindex or 0] for match in map(_COLUMN.match, parts) if match]
    return [_text(name) for name in names if name.upper() not in _NO_COLUMN]


def _table_line(name: str, table: _Table, about: str) -> str:
    columns = ", ".join(table.columns[:_COLUMNS])
    more = f", … +{len(table.columns) - _COLUMNS}" if len(table.columns) > _COLUMNS else ""
    mark = about or ("" if table.exact else "at least ")
    sizes = [f"{mark}{plural(table.rows, 'row')}"] if table.rows else []
    sizes += [f"{mark}{plural(table.statements, 'INSERT statement')}"] if table.statements else []
    return cut(f"{name}({columns}{more}){': ' if sizes else ''}{', '.join(sizes)}", 200)


def _sql_leads(ordered: list[tuple[str, _Table]], *, is_made: bool) -> Iterator[Lead]:
    if is_made and len(ordered) > _FEW_TABLES:  # fewer are told
        pattern = r"^CREATE (?:\w+ )*TABLE (?:IF NOT EXISTS )?(\S+)"
        yield Lead("grep", {"pattern": pattern, "ignore_case": True, "group": True})
    for name, table in ordered[:1]:
        sign = "INTO " if table.statements else "COPY " if table.rows else "TABLE (?:IF NOT EXISTS )?"
        short = literal(name.rpartition(".")[2])
        yield Lead("grep", {"pattern": rf"\b{sign}\S*{short}\b", "ignore_case": True, "after": 2, "limit": 2})


# A minified script: what it says of itself, how many functions it has, and the addresses in it.


_BANNER = lazy_pattern(rb"/\*!?[*\s]{0,40}([^*]{4,400})")
_ADDRESS = lazy_pattern(rb"https?://[^\s\"'`)\\<>]{4,120}")
_SOURCE_MAP = lazy_pattern(rb"sourceMappingURL=([^\s*]{1,200})")
_ADDRESSES_IN = 1024 * 1024


def script_outline(sample: Sample, room: Room) -> Outline:
    about = _about(sample)
    is_style = sample.head.count(b"function", 0, 65536) + sample.head.count(b"=>", 0, 65536) == 0
    signs = (b"{", b"@media", b"url(") if is_style else (b"function", b"=>", b"fetch(", b"require(", b"import(")
    counts = [f"{about}{times:,} × {sign.decode()}" for sign in signs if (times := sample.count(sign))]
    longest = max(map(len, sample.head.split(b"\n")), default=0)
    told = [f"{', '.join(counts)}; longest line {about}{longest:,} bytes"]
    banner = _BANNER.search(sample.head, 0, 4096)
    if banner:
        told.append(f"it says: {cut(' '.join(_text(banner[1]).split()), _LINE)}")
    mapped = _SOURCE_MAP.search(sample.tail[-1000:])
    if mapped:
        told.append(f"source map: {cut(_text(mapped[1]), 100)}")
    addresses = Counter(_ADDRESS.findall(sample.head, 0, _ADDRESSES_IN))
    if addresses:
        told.append(f"addresses in it: {', '.join(cut(_text(one), 60) for one, _ in addresses.most_common(4))}")
    leads = [Lead("grep", {"pattern": r"https?://([\w.-]+)", "group": True})] if addresses else []
    leads.append(
        Lead("grep", {"pattern": r"url\(([^)]{1,80})\)" if is_style else r"function (\w{3,40})\(", "group": True})
    )
    label = "minified CSS" if is_style else "minified script"
    fit = tuple(
        lead for lead in leads if re.search(str(lead.arguments["pattern"]).encode(), sample.head[:_ADDRESSES_IN])
    )
    return Outline(label, fitted(told, room), not sample.whole, (), leads=fit, ends=False)
