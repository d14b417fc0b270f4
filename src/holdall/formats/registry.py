"""Every kind of output, declared once: how it is recognised, outlined and read as a table, its media type and ending.

To add a kind, add one `Format` to FORMATS; a recogniser goes into `kinds`, an outline into a module of its own or of
its family. Kinds are asked in this order, and the first that says yes has it: so the narrow ones come first.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import replace

from holdall.formats import kinds
from holdall.formats.outline import LineAt, Outline, Read, Room, Sample, take
from holdall.text.escape import foreign
from holdall.values.errors import UsageError
from holdall.values.outputs import Measure
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

_JSON = lazy_pattern(rb"\s{0,1000}(?:\{\s{0,1000}\"|\[\s{0,1000}[\[{\"]|\[\s{0,1000}-?\d+\s{0,100},)")
_HEADS = 64 * 1024
_TABLES = ("csv", "tsv", "table")
_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_TAKE_MARK = (*_TABLES, "json")  # kinds whose readers pass over it themselves
_Maker = Callable[[Sample, Room], Outline | None]
_ROOM = Room(1400)


@record
class Format:
    """One kind of output.

    `outlines` are named as module:function and imported when an output is outlined: a session that keeps no such output
    does not pay for them. They are tried in order; without one, `_plain_makers` looks at what the output begins with.
    """

    kind: str
    recognise: Callable[[kinds.Ends], bool]
    outlines: tuple[str, ...] = ()
    media_type: str = "text/plain"
    ending: str = "txt"  # of a file that it is saved as
    table: str = ""  # how SQL reads it: "ndjson", "json", "csv", "tsv" or "table"; else as lines of text
    has_tree: bool = False  # whether it is JSON throughout
    is_binary: bool = False  # it is not text
    is_opened: bool = False  # what is in it is told and read, and not its bytes

    @property
    def has_lines(self) -> bool:
        """Whether SQL may read it as a table or as lines."""
        return bool(self.table) and not self.is_binary


def _packed(
    kind: str, media_type: str, ending: str, outline: str = "packed_outline:packed_outline", table: str = ""
) -> Format:
    outlines = (outline, "binary:binary_outline")
    return Format(
        kind, lambda ends: ends.magic == kind, outlines, media_type, ending, table, is_binary=True, is_opened=True
    )


def _image(kind: str) -> Format:
    def is_one(ends: kinds.Ends) -> bool:
        return ends.magic == kind and kinds.is_binary(ends)

    return Format(kind, is_one, ("binary:binary_outline",), f"image/{kind}", kind, is_binary=True)


FORMATS = (
    _packed("gzip", "application/gzip", "gz"),
    _packed("zstd", "application/zstd", "zst"),
    _packed("bzip2", "application/x-bzip2", "bz2"),
    _packed("xz", "application/x-xz", "xz"),
    _packed("utf-16", "text/plain; charset=utf-16", "txt"),
    _packed("zip", "application/zip", "zip"),
    _packed("tar", "application/x-tar", "tar"),
    _packed("parquet", "application/vnd.apache.parquet", "parquet", "columnar:parquet_outline", "parquet"),
    _packed("arrow", "application/vnd.apache.arrow.file", "arrow", "arrow:arrow_outline", "arrow"),
    _packed("sqlite", "application/vnd.sqlite3", "sqlite", "columnar:sqlite_outline", "sqlite"),
    _packed("pdf", "application/pdf", "pdf", "pdf:pdf_outline"),
    *map(_image, ("png", "jpeg", "gif", "webp")),
    Format("binary", kinds.is_binary, ("binary:binary_outline",), "application/octet-stream", "bin", is_binary=True),
    Format("text", kinds.is_blank),
    Format(
        "ndjson",
        kinds.is_ndjson,
        ("json_outline:ndjson_outline", "json_outline:json_outline"),
        "application/x-ndjson",
        "ndjson",
        "ndjson",
        has_tree=True,
    ),
    Format("json", kinds.is_json, ("json_outline:json_outline",), "application/json", "json", "json", has_tree=True),
    Format("html", kinds.is_html, ("markup:html_outline",), "text/html"),
    Format("xml", kinds.is_xml, ("markup:xml_outline",), "application/xml", "xml"),
    Format("diff", kinds.is_diff, ("diff:diff_outline",), "text/x-diff", "diff"),
    Format("git log", kinds.is_git_log, ("logs:git_log_outline",), ending="log"),
    Format("access log", kinds.is_access_log, ("logs:access_log_outline",), ending="log"),
    Format("metrics", kinds.is_metrics, ("dumps:metrics_outline",), "text/plain", "prom"),
    Format("sql", kinds.is_sql, ("dumps:sql_outline",), "application/sql", "sql"),
    Format("script", kinds.is_script, ("dumps:script_outline",), "text/javascript", "js"),
    Format("toml", kinds.is_toml, ("keyed:toml_outline",), "application/toml", "toml"),
    Format("csv", kinds.is_csv, ("table:table_outline",), "text/csv", "csv", "csv"),
    Format("tsv", kinds.is_tsv, ("table:table_outline",), "text/tab-separated-values", "tsv", "tsv"),
    Format("table", kinds.is_table, ("table:aligned_outline",), ending="txt", table="table"),
    Format("log", kinds.is_log, ending="log"),
    Format("yaml", kinds.is_yaml, ("keyed:yaml_outline",), "application/yaml", "yaml"),
    Format("markdown", kinds.is_markdown, ("reports:report_outline", "markup:markdown_outline"), "text/markdown", "md"),
)
_BY_KIND = {format.kind: format for format in FORMATS}
KINDS = tuple(_BY_KIND)
TEXT = _BY_KIND["text"]


def kind_of(head: bytes, tail: bytes, *, whole: bool, valid: bool) -> str:
    """`head` and `tail` may overlap; `whole` says that `head` is all there is; `valid` that all of it is UTF-8."""
    ends = kinds.Ends(head, tail, whole=whole, valid=valid)
    return next((format.kind for format in FORMATS if format.recognise(ends)), TEXT.kind)


def checked_kind(said: str) -> str:
    """`said`, if an output that is text can be read as that. Raises UsageError for others."""
    known = list(dict.fromkeys(format.kind for format in FORMATS if not format.is_binary))
    if said and said not in known:
        raise UsageError(f"kind is one of {', '.join(known)}; not '{foreign(said)}'.")
    return said


def format_of(kind: str) -> Format:
    """What belongs to a kind; one that only a later version knows is read as text."""
    return _BY_KIND.get(kind, TEXT)


def outline(
    read: Read,
    measure: Measure,
    *,
    tool: str = "",
    room: Room = _ROOM,
    line_at: LineAt | None = None,
    forced: bool = False,
) -> Outline:
    """What is in an output and what is rare in it, in about as much as there is `room` for.

    `read(start, end)` gives exact bytes, `line_at` the line that holds a byte. Little more than one MiB of a large
    output is looked at, whatever its size, and all of an output up to eight. `tool` may tell what cannot be seen.
    `forced`: it is of its kind because its caller says so.
    """
    if measure.kind in _TAKE_MARK or read(0, min(len(_MARK), measure.bytes)) != _MARK:
        return _outlined(read, measure, tool, room, line_at, forced=forced)
    # Of what is behind the mark, by places of the whole: its first line begins as others do. A second one is text.
    size = len(_MARK)
    behind = replace(measure, bytes=measure.bytes - size)
    found = _outlined(
        lambda start, end: read(start + size, end + size),
        behind,
        tool,
        room,
        (lambda at: line_at(at + size)) if line_at else None,
    )
    errors = tuple((at + size, text) for at, text in found.errors)
    ranges = tuple((start + size, end + size, what) for start, end, what in found.ranges)
    return replace(found, errors=errors, ranges=ranges)


def _outlined(
    read: Read, measure: Measure, tool: str, room: Room, line_at: LineAt | None, *, forced: bool = False
) -> Outline:
    sample = take(read, measure.bytes, measure.lines, line_at, measure.longest_line)
    named = format_of(measure.kind).outlines
    makers = list(map(_maker, named)) if named else _plain_makers(sample, measure, tool)
    if forced and measure.kind in _TABLES:
        makers = [functools.partial(_maker("table:table_outline"), kind=measure.kind, forced=True)]
    for make in makers:
        found = make(sample, room)
        if found is not None:
            return found
    from holdall.formats.logs import text_outline  # noqa: PLC0415 - as the others, when it is needed

    return text_outline(sample, room, kind="text" if named else measure.kind)


@functools.cache
def _maker(name: str) -> Callable[..., Outline | None]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"holdall.formats.{module}"), function)


def _plain_makers(sample: Sample, measure: Measure, tool: str) -> list[_Maker]:
    """For text of no particular kind, and for logs."""
    makers: list[_Maker] = []
    head = sample.head[:_HEADS]
    if _JSON.match(head):
        makers.append(_maker("json_outline:json_outline"))
    if kinds.may_be_xml(head):
        makers.append(_maker("markup:xml_outline"))
    # A log may speak of what passed and failed without being the report of it.
    makers.append(functools.partial(_maker("reports:report_outline"), only_known=measure.kind == "log"))
    if "diff" in tool.lower():
        makers.append(_maker("diff:diff_outline"))
    return makers
