"""Questions about structured data: JSON, JSON lines, tables, YAML, metrics, SQL, HTML and a packed tree.

Every function reads the raw bytes in a plain way of its own and never asks Holdall.
"""

import csv
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Iterator
from typing import Any

from bench.answers.further.asked import Asked, Vacuous, about, found, most, once, pick, spans, text, top


def _distribution(data: bytes, name: str) -> tuple[int, int]:
    """From where to where a distribution is described in `pip inspect`."""
    (start,) = (match.start() for match in found(rf'^ {{8}}"name": "{re.escape(name)}"', data))
    end = data.find(b'\n      "metadata": {', start)
    return start, end if end > 0 else len(data)


@about("pip_inspect", "look-up", "json-path")
def required_python(data: bytes) -> Asked:
    entries: list[Any] = [entry["metadata"] for entry in json.loads(data)["installed"]]
    chosen = pick([entry for entry in entries if "requires_python" in entry])
    start, end = _distribution(data, chosen["name"])
    (line,) = (match for match in found(r'^ {8}"requires_python": .*?(?=,?$)', data) if start < match.start() < end)
    question = f"Which Python versions does the distribution {chosen['name']} require?"
    return Asked(question, chosen["requires_python"], [line.span()])


@about("pip_inspect", "aggregate", "count")
def requested(data: bytes) -> Asked:
    number = sum(entry["requested"] for entry in json.loads(data)["installed"])
    question = "How many of the installed distributions were requested by the user?"
    return Asked(question, str(number), spans(found('^ {6}"requested": true', data)))


@about("pip_inspect", "other words", "json-path")
def processor(data: bytes) -> Asked:
    gold: str = json.loads(data)["environment"]["platform_machine"]
    question = "On which processor architecture was this inventory of packages taken?"
    return Asked(question, gold, spans(found('"platform_machine": "[^"]+"', data)[-1:]))


def _packages(node: Any) -> Iterator[tuple[str, Any]]:
    for name, entry in node.get("dependencies", {}).items():
        if "version" in entry:
            yield name, entry
        yield from _packages(entry)


@about("npm_ls", "look-up", "json-path")
def npm_version(data: bytes) -> Asked:
    versions = list(_packages(json.loads(data)))
    name = pick(once([name for name, _ in versions]))
    lines = found(rf'^ *"{re.escape(name)}": \{{\s+"version": "([^"]+)"', data)
    gold = dict(versions)[name]["version"]
    if [text(line) for line in lines] != [gold]:
        raise Vacuous(name)
    return Asked(f'Which version of the package "{name}" is installed?', gold, spans(lines))


@about("npm_ls", "aggregate", "count")
def npm_licences(data: bytes) -> Asked:
    licence = most(
        entry["license"] for _, entry in _packages(json.loads(data)) if isinstance(entry.get("license"), str)
    )
    lines = found(rf'^ *"license": "{re.escape(licence)}"', data)
    number = sum(entry.get("license") == licence for _, entry in _packages(json.loads(data)))
    return Asked(f"How many package entries have the license {licence}?", str(number), spans(lines))


@about("npm_ls", "steps", "aggregate")
def npm_declared(data: bytes) -> Asked:
    direct: dict[str, Any] = json.loads(data)["dependencies"]["npm"]["dependencies"]
    number = max(len(entry.get("_dependencies", {})) for entry in direct.values())
    question = (
        "Of the packages that npm depends on directly, how many dependencies (_dependencies) has the one with the most?"
    )
    blocks = found(r'^ {10}"_dependencies": \{[^}]*\}', data)
    return Asked(question, str(number), spans(blocks))


def _records(data: bytes) -> list[tuple[int, int, Any]]:
    """JSON lines with their place."""
    records: list[tuple[int, int, Any]] = []
    start = 0
    for line in data.splitlines(keepends=True):
        records.append((start, start + len(line.rstrip(b"\n")), json.loads(line)))
        start += len(line)
    return records


@about("structlog_ndjson", "look-up", "needle")
def rejected_for(data: bytes) -> Asked:
    start, end, record = pick([entry for entry in _records(data) if entry[2]["event"] == "rejected"])
    return Asked(f"For what reason was {record['file']} rejected?", record["reason"], [(start, end)])


@about("structlog_ndjson", "range", "earliest")
def first_rejected(data: bytes) -> Asked:
    start, end, record = next(entry for entry in _records(data) if entry[2]["event"] == "rejected")
    return Asked("At what time was the first file rejected?", record["timestamp"], [(start, end)])


@about("structlog_ndjson", "steps", "aggregate")
def most_nodes(data: bytes) -> Asked:
    parsed = [entry for entry in _records(data) if entry[2]["event"] == "parsed"]
    folder = pick(sorted({entry[2]["file"].split("/")[0] for entry in parsed if entry[2]["file"].count("/") == 1}))
    inside = [entry for entry in parsed if entry[2]["file"].startswith(f"{folder}/")]
    gold = top({record["file"]: int(record["nodes"]) for _, _, record in inside})
    question = f"Which of the files parsed below {folder}/ has the largest number of nodes?"
    return Asked(question, gold, [(start, end) for start, end, _ in inside])


@about("ruff_json", "look-up", "json-path")
def ruff_message(data: bytes) -> Asked:
    findings = json.loads(data)
    code = pick(once([finding["code"] for finding in findings]))
    (gold,) = (finding["message"] for finding in findings if finding["code"] == code)
    (start,) = (match.start() for match in found(rf'"code": "{code}"', data))
    line = next(match for match in found('^    "message": .*?(?=,$)', data) if match.start() > start)
    return Asked(f"What is the message of the only finding with the code {code}?", gold, [line.span()])


@about("ruff_json", "aggregate", "aggregate")
def ruff_code(data: bytes) -> Asked:
    gold = most(finding["code"] for finding in json.loads(data))
    return Asked("Which rule code is reported most often?", gold, spans(found('^    "code": "[^"]+"', data)))


@about("ruff_json", "other words", "count")
def ruff_repairable(data: bytes) -> Asked:
    fixes = [finding["fix"] for finding in json.loads(data)]
    number = sum(fix is not None and fix["applicability"] == "safe" for fix in fixes)
    question = "How many of the complaints could be repaired automatically without any risk?"
    return Asked(question, str(number), spans(found('^ +"applicability": "safe"', data)))


_INSTALLED = r"^ii  (?P<name>\S+?)(?::\S+)? +(?P<version>\S+) +(?P<machine>\S+) +(?P<about>.*)$"


@about("dpkg_list", "look-up", "needle")
def dpkg_version(data: bytes) -> Asked:
    lines = {text(line, "name"): line for line in found(_INSTALLED, data)}
    name = pick(once([text(line, "name") for line in found(_INSTALLED, data)]))
    return Asked(f"Which version of {name} is installed?", text(lines[name], "version"), [lines[name].span()])


@about("dpkg_list", "look-up", "needle")
def dpkg_described(data: bytes) -> Asked:
    lines = {text(line, "about"): line for line in found(_INSTALLED, data)}
    described = pick(once([text(line, "about") for line in found(_INSTALLED, data)]), 0.8)
    question = f'Which package has the description "{described}"?'
    return Asked(question, text(lines[described], "name"), [lines[described].span()])


@about("dpkg_list", "aggregate", "count")
def dpkg_all(data: bytes) -> Asked:
    lines = [line for line in found(_INSTALLED, data) if line["machine"] == b"all"]
    return Asked("How many installed packages have the architecture all?", str(len(lines)), spans(lines))


def _characters(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode())))


@about("unicode_csv", "look-up", "needle")
def code_point(data: bytes) -> Asked:
    row = pick([row for row in _characters(data) if row["category"] == "Sm"])
    line = found(rf'^{re.escape(row["code"])},"?{re.escape(row["name"])}\b.*?$', data)
    return Asked(f'Which code has the character "{row["name"]}"?', row["code"], spans(line))


@about("unicode_csv", "aggregate", "count")
def currencies(data: bytes) -> Asked:
    number = sum(row["category"] == "Sc" for row in _characters(data))
    return Asked("How many characters have the category Sc?", str(number), spans(found(r"^U.*,Sc,\w*,\w*,.*$", data)))


@about("unicode_csv", "range", "latest")
def last_titlecase(data: bytes) -> Asked:
    row = [row for row in _characters(data) if row["category"] == "Lt"][-1]
    line = found(rf"^{re.escape(row['code'])},.*$", data)
    return Asked("What is the name of the last character with the category Lt?", row["name"], spans(line))


_LISTED = r"^ *\d+ +\d+ (?P<mode>\S+) +\d+ +\S+ +\S+ +(?P<size>\d+) +\w+ +\d+ +[\d:]+ (?P<path>.*)$"


@about("find_ls", "look-up", "needle")
def listed_size(data: bytes) -> Asked:
    lines = [line for line in found(_LISTED, data) if line["mode"][:1] == b"-" and line["path"].endswith(b".py")]
    line = pick(sorted(lines, key=lambda line: line["path"]))
    return Asked(f"How many bytes has {text(line, 'path')}?", text(line, "size"), [line.span()])


@about("find_ls", "aggregate", "aggregate")
def listed_largest(data: bytes) -> Asked:
    lines = [line for line in found(_LISTED, data) if line["mode"][:1] == b"-"]
    gold = top({text(line, "path"): int(line["size"]) for line in lines})
    return Asked("Which is the largest file by its size in bytes?", gold, spans(lines))


@about("find_ls", "other words", "count")
def listed_folders(data: bytes) -> Asked:
    lines = [line for line in found(_LISTED, data) if line["mode"][:1] == b"d"]
    question = "How many folders does the listing have, the one at its top included?"
    return Asked(question, str(len(lines)), spans(lines))


def _settings(data: bytes) -> list[tuple[str, int, int]]:
    """The entries at the top of a YAML mapping, and where each begins and ends."""
    heads = found(r"^([A-Z]\w+):$", data)
    ends = [*(head.start() for head in heads[1:]), len(data)]
    return [(text(head), head.start(), end) for head, end in zip(heads, ends, strict=True)]


@about("ansible_yaml", "look-up", "needle")
def setting_default(data: bytes) -> Asked:
    plain = re.compile(rb"^  default: (\w{3,})$", re.MULTILINE)
    lines = {name: line for name, start, end in _settings(data) if (line := plain.search(data, start, end))}
    words = [name for name, line in lines.items() if line[1].lower() not in (b"true", b"false", b"null", b"yes")]
    name = pick(words)
    return Asked(f"What is the default of the setting {name}?", text(lines[name]), [lines[name].span()])


@about("ansible_yaml", "aggregate", "count")
def settings_integer(data: bytes) -> Asked:
    lines = found(r"^  type: ['\"]?(?:int|integer)['\"]?$", data)
    return Asked("How many settings have the type int or integer?", str(len(lines)), spans(lines))


@about("ansible_yaml", "other words", "needle")
def setting_parallel(data: bytes) -> Asked:
    (block,) = ((start, end) for name, start, end in _settings(data) if name == "DEFAULT_FORKS")
    first = data.index(b"\n", data.index(b"description:", *block))
    question = "Which setting limits on how many machines work is done in parallel?"
    return Asked(question, "DEFAULT_FORKS", [(block[0], first)])


@about("prometheus_text", "look-up", "needle")
def metric_value(data: bytes) -> Asked:
    line = pick(found(r'^source_tokens_total\{kind="COMMENT",package="([^"]+)"\} (\S+)$', data))
    question = f"How many tokens of the kind COMMENT were counted in the package {text(line)}?"
    return Asked(question, text(line, 2), [line.span()])


@about("prometheus_text", "steps", "aggregate")
def metric_average(data: bytes) -> Asked:
    sums = found(r'^source_lines_sum\{package="([^"]+)"\} (\S+)$', data)
    counts = found(r'^source_lines_count\{package="([^"]+)"\} (\S+)$', data)
    number = {text(line): float(line[2]) for line in counts}
    gold = top({text(line): float(line[2]) / number[text(line)] for line in sums if number[text(line)]})
    return Asked("Which package has the most lines per source on average?", gold, spans([*sums, *counts]))


@about("prometheus_text", "other words", "needle")
def metric_memory(data: bytes) -> Asked:
    (line,) = found(r"^process_resident_memory_bytes (\S+)$", data)
    return Asked("How much physical RAM does the exporting program hold?", text(line), [line.span()])


def _database(data: bytes) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.executescript(data.decode())
    return database


@about("sqlite_dump", "look-up", "needle")
def dumped_version(data: bytes) -> Asked:
    name, version = pick(_database(data).execute("SELECT name, version FROM distribution ORDER BY id").fetchall(), 0.3)
    line = found(rf"^INSERT INTO distribution VALUES\(\d+,'{re.escape(name)}','{re.escape(version)}'", data)
    return Asked(f"Which version of the distribution {name} is recorded?", version, spans(line))


@about("sqlite_dump", "aggregate", "aggregate")
def dumped_largest(data: bytes) -> Asked:
    sizes: dict[str, int] = dict(_database(data).execute("SELECT path, size FROM file WHERE size NOT NULL").fetchall())
    return Asked("Which recorded file has the largest size?", top(sizes), spans(found("^INSERT INTO file .*$", data)))


@about("sqlite_dump", "steps", "count")
def dumped_files(data: bytes) -> Asked:
    files = "SELECT distribution, count(*) AS number FROM file GROUP BY 1"
    query = f"SELECT id, name, number FROM distribution JOIN ({files}) ON distribution = id ORDER BY number, id"
    key, name, number = pick(_database(data).execute(query).fetchall(), 0.5)
    head = found(rf"^INSERT INTO distribution VALUES\({key},'[^']+'", data)
    files = found(rf"^INSERT INTO file VALUES\(\d+,{key},.*$", data)
    question = f"How many files are recorded for the distribution {name}?"
    return Asked(question, str(number), spans([*head, *files]))


@about("zip_tree", "look-up", "needle")
def packed_size(data: bytes) -> Asked:
    entries = [entry for entry in zipfile.ZipFile(io.BytesIO(data)).infolist() if entry.file_size > 1000]
    entry = pick(entries)
    return Asked(f"How many bytes has {entry.filename} when it is unpacked?", str(entry.file_size), [])


@about("zip_tree", "look-up", "needle")
def packed_version(data: bytes) -> Asked:
    archive = zipfile.ZipFile(io.BytesIO(data))
    (name,) = (name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/PKG-INFO"))
    (line,) = found(r"^Requires-Python: (.*?)\r?$", archive.read(name))
    return Asked("Which Requires-Python does the PKG-INFO at the top of the packed tree state?", text(line), [])


@about("zip_tree", "range", "latest")
def packed_last(data: bytes) -> Asked:
    entry = zipfile.ZipFile(io.BytesIO(data)).infolist()[-1]
    return Asked("Which is the last entry of the archive?", entry.filename, [])


@about("pydoc_html", "look-up", "needle")
def page_constant(data: bytes) -> Asked:
    line = found(r"<strong>(PyCF_\w+)</strong> = (\d+)", data)[-1]
    return Asked(f"What is the value of {text(line)}?", text(line, 2), [line.span()])


@about("pydoc_html", "look-up", "needle")
def page_parent(data: bytes) -> Asked:
    heads = found(r'class <strong>(\w+)</strong></a>\(<a href="[^"]*">(?:ast\.)?(\w+)</a>\)', data)
    name = pick(once([text(head) for head in heads]))
    (head,) = (head for head in heads if text(head) == name)
    return Asked(f"From which class is {name} derived?", text(head, 2), [head.span()])


@about("pydoc_html", "range", "latest")
def page_last(data: bytes) -> Asked:
    start = data.index(b">Functions<")
    heads = found(r'<dt><a name="-(\w+)"><strong>\w+</strong></a>', data)
    after = [head for head in heads if head.start() > start]
    return Asked("Which is the last of the functions that the page describes?", text(after[-1]), [after[-1].span()])
