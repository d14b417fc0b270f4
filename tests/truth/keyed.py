"""Claims of YAML, TOML, metrics, dumps of databases and minified scripts, computed by their own parsers and by plain loops."""

import importlib
import re
import tomllib
from collections import Counter
from typing import Any

from tests.truth.claims import FIGURE, NUMBER, FalseClaim, Output, agrees, claim, small
from tests.truth.json_shapes import at_path, check_shape

_PARSER: Any = importlib.import_module("yaml")  # it has no types


def _root(output: Output) -> Any:
    if output.label == "toml":
        return tomllib.loads(output.text)
    documents: list[Any] = [one for one in _PARSER.safe_load_all(output.text) if one is not None]
    return documents if len(documents) > 1 else documents[0]


@claim("yaml|toml", r"(?:(?P<path>[^\s{]\S*): )?(?P<shape>[\[{].*)")
def the_shape_of_keys_and_values(found: re.Match[str], output: Output) -> None:
    path = found["path"] or ""
    path = "$" + ("" if path[:1] in ("", "[") else ".") + path
    check_shape(found["shape"], at_path(path, output.once(_root)), path)


@claim("yaml", rf"(?P<n>{FIGURE}) documents")
def there_are_as_many_documents(found: re.Match[str], output: Output) -> None:
    agrees(found["n"], len(output.once(_root)), "documents", exact=len(output.lines) < 4_000)


@claim("yaml|toml", r"shape from its beginning")
def only_the_beginning_was_read(found: re.Match[str], output: Output) -> None:
    if len(output.lines) < 4_000 and small(output):
        raise FalseClaim("it is short enough to be read to its end")


# Metrics.


def _metrics(output: Output) -> tuple[Counter[str], Counter[str]]:
    """Samples by metric, and metrics by type; a histogram is what its type says."""
    types = dict(line.split()[2:4] for line in output.lines if line.startswith("# TYPE "))
    samples: Counter[str] = Counter()
    for line in output.lines:
        if line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            stem = re.sub(r"_(?:bucket|sum|count|created)$", "", name)
            samples[stem if name not in types and types.get(stem) in ("histogram", "summary") else name] += 1
    return samples, Counter(types.values())


@claim("metrics", rf"(?P<metrics>{FIGURE}) metrics?, (?P<samples>{FIGURE}) samples?(?:: (?P<types>.*))?")
def there_are_as_many_metrics(found: re.Match[str], output: Output) -> None:
    samples, types = output.once(_metrics)
    agrees(found["metrics"], len(samples), "metrics", exact=small(output))
    agrees(found["samples"], samples.total(), "samples", exact=small(output))
    for figure, kind in re.findall(rf"({NUMBER}) (\w+?)s?(?:, |$)", (found["types"] or "").removeprefix("at least ")):
        agrees(figure if small(output) else f"at least {figure}", types[kind], kind, exact=small(output))


@claim("metrics", rf"(?P<n>{FIGURE}) × (?P<name>[\w:]+) · (?P<line>.*)")
def a_metric_has_as_many_samples(found: re.Match[str], output: Output) -> None:
    agrees(found["n"], output.once(_metrics)[0][found["name"]], found["name"], exact=small(output))
    if not any(line.startswith(found["line"].removesuffix("…")) for line in output.lines):
        raise FalseClaim("there is no such sample")


@claim("metrics", r"also (?P<names>.*)")
def there_are_other_metrics(found: re.Match[str], output: Output) -> None:
    for name in found["names"].removesuffix("…").split(", ")[:-1]:
        if name not in output.once(_metrics)[0]:
            raise FalseClaim(f"there is no {name}")


# Dumps.


def _tables(output: Output) -> dict[str, tuple[int, int]]:
    """Rows of COPY and statements of INSERT, by table."""
    tables: dict[str, tuple[int, int]] = {}
    copied = ""
    for line in output.lines:
        if copied and line != "\\.":
            rows, statements = tables[copied]
            tables[copied] = rows + 1, statements
        elif copied:
            copied = ""
        elif made := re.match(rf"CREATE (?:\w+ )*TABLE (?:IF NOT EXISTS )?{_TABLE}", line):
            tables.setdefault(_bare(made[1]), (0, 0))
        elif filled := re.match(rf"INSERT INTO {_TABLE}", line):
            rows, statements = tables.get(_bare(filled[1]), (0, 0))
            tables[_bare(filled[1])] = rows, statements + 1
        elif begun := re.match(rf"COPY {_TABLE} .*FROM stdin;", line):
            copied = _bare(begun[1])
            tables.setdefault(copied, (0, 0))
    return tables


_TABLE = r"""((?:[\w.]|"[^"]*"|'[^']*')+)"""


def _bare(name: str) -> str:
    return re.sub("[\"']", "", name)


@claim(
    "sql dump",
    rf"(?P<tables>{FIGURE}) tables?(?:, (?P<rows>{FIGURE}) rows?)?(?:, (?P<filled>{FIGURE}) INSERT statements?)?",
)
def there_are_as_many_tables(found: re.Match[str], output: Output) -> None:
    tables = output.once(_tables)
    agrees(found["tables"], len(tables), "tables", exact=small(output))
    agrees(found["rows"] or "0", sum(rows for rows, _ in tables.values()), "rows", exact=small(output))
    agrees(found["filled"] or "0", sum(filled for _, filled in tables.values()), "statements", exact=small(output))


@claim(
    "sql dump",
    rf"(?P<name>[\w. ]+)\([^)]*\)(?:: (?:(?P<rows>{FIGURE}) rows?)?(?:, )?(?:(?P<filled>{FIGURE}) INSERT statements?)?)?",
)
def a_table_of_a_dump(found: re.Match[str], output: Output) -> None:
    rows, filled = output.once(_tables)[found["name"]]
    agrees(found["rows"] or "0", rows, "rows", exact=small(output))
    agrees(found["filled"] or "0", filled, "statements", exact=small(output))


@claim("sql dump", rf"… (?P<n>{FIGURE}) more tables?")
def more_tables(found: re.Match[str], output: Output) -> None:
    if int(found["n"].removeprefix("at least ").replace(",", "")) >= len(output.once(_tables)):
        raise FalseClaim("there are fewer tables")


# Scripts.


@claim("minified .*", rf"(?P<counts>.* × .*); longest line (?P<longest>{FIGURE}) bytes")
def the_parts_of_a_script(found: re.Match[str], output: Output) -> None:
    for figure, sign in re.findall(rf"({FIGURE}) × (\S+?)(?:, |$)", found["counts"]):
        agrees(figure, output.text.count(sign), sign, exact=small(output))
    agrees(found["longest"], max(map(len, output.data.split(b"\n"))), "longest line", exact=small(output))


@claim("minified .*", r"(?:it says|source map|addresses in it): (?P<text>.*)")
def the_words_of_a_script(found: re.Match[str], output: Output) -> None:
    text = " ".join(output.text.split())
    for part in found["text"].split(", "):
        if part.removesuffix("…") not in text:
            raise FalseClaim(f"{part!r} is not in it")
