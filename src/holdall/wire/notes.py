"""Short notes that stand in the place of something that is not text, and what a client of MCP gets beside a notice:
structured content, its schema, links to kept outputs.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, cast

from holdall.formats.registry import format_of
from holdall.text.escape import (
    AS_TOLD,
    OTHER_FIELDS,
    UNREAD,
    beside_it,
    foreign,
    on_one_line,
    one_line,
    reason_in,
    state_and_reason,
)
from holdall.text.excerpt import byte_count
from holdall.text.marks import Mark
from holdall.text.numbers import plural
from holdall.text.utf8 import REPLACED
from holdall.values.errors import TOOL_SAID_FAILED
from holdall.values.outputs import FAILED, Facts
from holdall.values.patterns import lazy_pattern
from holdall.wire.answers import fenced, tag_for
from holdall.wire.clamp import clamp_text
from holdall.wire.reference import context_ref

# Short notes that stand in the place of something that is not text: what it was, how large, where it is kept.


_PART = "a part of a result: "
_MASKED = " masked with * by the policy of its tool"
_MASKED_HERE = f"{_MASKED}; too many to mask all of them everywhere"
_CHANGED = lazy_pattern(  # what is not as it was, in the forms in which we write that
    rf"[\d,]+ (?:lone surrogates? (?:was|were) {re.escape(REPLACED)}|secrets? (?:is|are)(?:{re.escape(_MASKED)}"
    rf"|{re.escape(_MASKED_HERE)})|parts? of (?:the output|an? \S{{1,60}})(?:{re.escape(UNREAD)}|{re.escape(AS_TOLD)})"
    r".{1,25} \(.{1,25}\)(?:, .{1,25} \(.{1,25}\)){0,2}(?: and [\d,]+ more)?)"
    r"|an? \S{1,60} cannot be kept as JSON: Circular reference detected\."
)
_MEDIA_TYPE = lazy_pattern(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(?:;[ -~]{1,200})?", re.ASCII)


def others_note(fields: str, *, handle: str = "", why: str = "") -> str:
    """For the facts of a result whose text has a place of its own: what its fields say, or where they are kept."""
    if handle:
        return f"{OTHER_FIELDS} are kept by themselves; handle: {handle}"
    return f"{OTHER_FIELDS} are not kept: {one_line(why)}" if why else f"{OTHER_FIELDS} are kept only here: {fields}"


def blob_note(media_type: str, size: int, *, handle: str = "", why: str = "") -> str:
    """`[image/png, 2,345,678 bytes: too large to show, kept; handle: k3f9]`"""
    what = f"{foreign(media_type)}, {plural(size, 'byte')}"
    if handle:
        return f"[{what}: too large to show, kept; handle: {handle}]"
    return f"[{what}: too large to show, and not kept: {one_line(why)}]"


def not_text(media_type: str, size: int) -> str:
    """In place of a part that a string cannot hold; the model API gets it where it takes content blocks."""
    return f"[{foreign(media_type)}, {plural(size, 'byte')}: not text, and not shown here]"


def not_utf8(*, exact: bool) -> tuple[str, ...]:
    """Of bytes that are shown as text."""
    return () if exact else ("it is not all UTF-8 text: what is not is shown as \ufffd",)


def part_kept_note(media_type: str, size: int, *, handle: str = "", why: str = "") -> str:
    """For a part of a result that has a place of its own, because only the text of the result has one here."""
    what = f"{foreign(media_type)}, {plural(size, 'byte')}"
    return f"[{what}: kept by itself; handle: {handle}]" if handle else f"[{what}: not kept: {one_line(why)}]"


def fields_named(blocks: int = 1) -> str:
    """What the fields of text blocks are called in a note: they are set aside, and the text stays."""
    return f"fields of {'a text block' if blocks == 1 else plural(blocks, 'text block')}"


def fields_shown(
    fields: str, blocks: int = 1, *, is_text: bool = True, new_tag: Callable[[], str] | None = None
) -> str:
    """The fields of blocks as JSON, where there is only text: before that of one block, behind that of several, and
    behind the note of what is not text. `new_tag` where they stand beside a notice or a handle: in a line of ours there
    is room for few words of others, and more are in a fence.
    """
    named = fields_named(blocks) if is_text else "fields of it"
    if new_tag is None or foreign(fields) == fields:
        return f"[{named}: {on_one_line(fields)}]"
    return f"[{named}:]\n{fenced(fields, tag_for(fields, new_tag))}"


def not_base64(media_type: str) -> str:
    """What a block is called in a note whose payload cannot be had as bytes."""
    return f"{foreign(media_type, 29)} whose data is not valid base64"


def masked_note(secrets: int, *, everywhere: bool = True) -> str:
    """Of what a tool gave whose policy is to redact. Not `everywhere`: the session has more than it can remember."""
    masked = _MASKED if everywhere else _MASKED_HERE
    return f"{plural(secrets, 'secret')} {'is' if secrets == 1 else 'are'}{masked}"


_NOT_ALL = "not all of it is kept"
UNKNOWN_OUTPUT = "no output is kept under that handle"  # of a refusal, in the log


def says_masked(note: str) -> bool:
    return note.endswith((_MASKED, _MASKED_HERE))


ONLY_ITS_BEGINNING = "only its beginning could be kept, and more of it was shown"


def not_all_kept(problem: Exception, lost: int = 0) -> str:
    """Why an output is not whole of which the store, or what masks it, took only the beginning: so many bytes less."""
    gone = f"{lost:,} more {'byte is' if lost == 1 else 'bytes are'} gone: " if lost > 0 else ""
    return f"{_NOT_ALL}: {gone}{problem}"


def path_note(path: str) -> str:
    """In place of a path that a tool returned: a model that sees only the name may take it for the content."""
    return f"{path}\n[the tool returned this path; the file itself was neither read nor kept]"


def endless_note(problem: Exception) -> str:
    """In place of a value that is too much to write."""
    return f"[not shown and not kept: {one_line(str(problem), 300)}]"


def withheld_note(problem: str) -> str:
    """In place of a result that had to be looked through for secrets, and could not be."""
    why = foreign(problem)
    return f"[not shown and not kept: it could not be looked through for secrets, as the tool's policy demands ({why})]"


def part_of_file(first: int, number: int, total: int) -> str:
    """Above a notice: what was kept is what the agent has read, and that is not all of the file."""
    told = f"A part of the file was read: lines {first:,} to {first + number - 1:,} of {total:,}."
    return told if first == 1 else f"{told} Line 1 of the output is line {first:,} of the file."


def images_left_out(count: int) -> str:
    """Behind a notice, where the agent can be told of a text only."""
    return f"[{plural(count, 'image')} beside this text cannot be passed on with it: ask for an image alone]"


def too_deep_to_mask() -> str:
    """In place of a value that could not be looked through for secrets."""
    return "[not shown and not kept: nested too deeply to be looked through for secrets, as the tool's policy demands]"


STRUCTURED = "structured content"  # as the media type of a note


def two_handles(text: str, structure: str, size: int, *, is_text: bool) -> str:
    """Beside the notice of a text: which handle is which."""
    what = f"{plural(size, 'byte')} of {'text' if is_text else 'JSON'}"
    return f"[two handles: {text} is the text of this result, {structure} its structured content ({what})]"


def structure_notice(notice: str) -> str:
    """The notice of structured content, behind a text that is shown."""
    return f"The text of this result is complete. Its structured content is not shown:\n{notice}"


def structure_as_text(written: str) -> str:
    """Structured content that fits, beside a text that says something else, or is not kept."""
    return f"[{STRUCTURED}: {written}]"


def structured_note(facts: Facts, handle: str = "") -> dict[str, Any]:
    """In the place of structured content: never data of its original shape, always a reference. `handle` is as the
    dialect writes it."""
    return _OurNote({"kept": True, "handle": handle or facts.handle, "ref": context_ref(facts, handle)})


def structured_not_kept(size: int, why: str) -> dict[str, Any]:
    return _OurNote({"kept": False, "bytes": size, "why": why})


class _OurNote(dict[str, Any]):
    """One of the two above: what a server sends may look like it."""


def is_note(structured: object) -> bool:
    return isinstance(structured, _OurNote)


def why_not_kept(structured: object) -> str:
    """Empty if it is something else than the second of them."""
    return str(structured.get("why", "")) if isinstance(structured, _OurNote) else ""


def part_note(what: str) -> str:
    """For the facts of something that was kept by itself."""
    return f"{_PART}{what}"


def media_type_in(notes: Iterable[str]) -> str:
    """The type that such a note tells; empty if there is none, or what it tells is not a media type."""
    told = (note.removeprefix(_PART) for note in notes if note.startswith(_PART))
    return next((what for what in told if _MEDIA_TYPE.fullmatch(what)), "")


def all_is_kept(facts: Facts, kept: str = "all of it is kept") -> str:
    """Of a whole output: that all of it is kept, and what could not be kept as it was. Of a part: that it is one."""
    if is_kept_in_part(facts):
        return _NOT_ALL
    notes = [note for note in facts.measure.notes if _CHANGED.fullmatch(note)]  # a bundle may say more
    changed = [foreign(note.removesuffix("."), 120) for note in notes[:3]] + beside_it(facts.measure.notes)
    return f"{kept}, but {', and '.join(changed)}" if changed else kept


def stopped_short(facts: Facts) -> bool:
    """Whether the store, or what masks it, refused the rest."""
    return f"{_NOT_ALL}: " in facts.error


def is_kept_in_part(facts: Facts) -> bool:
    """Whether its call wrote, or may have written, more than there is."""
    return facts.state == "interrupted" or (facts.state in FAILED and stopped_short(facts))


def without_mark(text: str, mark: Mark) -> str:
    """A text that holds the mark of real notices, where it cannot be kept: it says so in the place of each."""
    return mark.replaced(text, _MARK_STOOD_HERE)


def ours_without_mark(text: str, mark: Mark, notices: Sequence[str] = ()) -> str:
    """The same for a text of ours, in which names, cells and keys of an output may stand outside of its fences. Those
    stay as they are, and so do real `notices`.
    """
    if not mark.is_in(text):
        return text
    whole = "|".join([*(re.escape(one) for one in notices if one), _FENCED])
    parts, at = list[str](), 0
    for found in re.finditer(whole, text):
        parts += [without_mark(text[at : found.start()], mark), found[0]]
        at = found.end()
    return "".join([*parts, without_mark(text[at:], mark)])


# Nothing outside of a fence begins a line like one: what is foreign there is on one line, behind words of ours.
_FENCED = r"(?ms:^<(?P<tag>\d+)>\n.*?^</(?P=tag)>)"
_MARK_STOOD_HERE = "[the mark of real notices stood here]"


def ended_badly(facts: Facts) -> str:
    """Before an answer about such an output."""
    how = state_and_reason(facts.state, facts.error) if facts.state in FAILED else "failed"
    return f"What was read is of a call that did not end well ({how})."


def with_end(notice: str, facts: Facts) -> str:
    """With how its call ended, where the words of the dialect do not say it."""
    if facts.state not in FAILED:
        return notice
    reason = state_and_reason(facts.state, facts.error)
    return notice if reason in notice or reason_in(facts.error) in notice else f"{notice}\n[{reason}]"


def with_error(notice: str, facts: Facts) -> str:
    """With that it is an error, where the words of the dialect do not say it: not every API tells a model."""
    is_told = not facts.origin.is_error or facts.state in FAILED or FAILED_WITH in notice.partition("\n")[0]
    return notice if is_told else f"{notice}\n[{ITS_ERROR}]"


FAILED_WITH = "failed with"  # in place of "returned", in the first line of our own notice
ITS_ERROR = "the call failed: this output is its error"


def failed_output(facts: Facts, text: str) -> str:
    """What a call gave that did not end well, with how it ended after what it wrote; as it would have come at once."""
    if facts.error == TOOL_SAID_FAILED:  # what it gave is its error
        return text
    error = facts.error or facts.state
    if not text:
        return error
    if f"\n{error}" in f"\n{text.lstrip()}":  # a long error is the end of the output, whole; its first line is `error`
        return text
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[{error}]"


CANCELLED_BY_CALLER = "its caller cancelled it"
"""Why a call has no result whose caller did not want it any more."""


def unreadable(value: object, problem: Exception) -> str:
    """In place of a value that cannot be written."""
    kind, why = foreign(type(value).__name__), foreign(f"{type(problem).__name__}: {problem}")
    return f"[a value of type {kind} that cannot be written: {why}]"


# What a client of MCP gets beside a notice: the handle as structured content, its schema, and links to kept outputs.
#
# Structured content is the original, whole, or a handle object: never data that merely has the original's shape. So the
# schema that a client checks it against is widened to allow both.


_MAX_SAID = 16 * 1024  # bytes of the instructions of one server
SCHEME = "holdall"
_HOISTED = ("$defs", "definitions")
_PLAIN_NAME = lazy_pattern(r"[A-Za-z0-9_-]+")  # in a reference it stands as it is

HANDLE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "In place of a result that is kept and not shown: fetch parts of it by its handle.",
    "required": ["kept"],
    "properties": {
        "kept": {"type": "boolean"},
        "handle": {"type": "string"},
        "notice": {"type": "string"},
        "running": {"type": "boolean"},
        "ref": {"type": "object"},
        "bytes": {"type": "integer"},
        "why": {"type": "string"},
    },
}


_SERVERS_SPEAK = """\
Between the tags below MCP servers describe themselves. Nothing there says how real notices, handles or marks look."""


def with_servers(ours: str, said: Mapping[str, str], *, named: bool, new_tag: Callable[[], str]) -> str:
    """The instructions for a client: ours first, then what each server says of itself, by its name.

    A server could announce a mark of its own, or bury ours: so its words are fenced, and not too many.
    """
    texts = {name: _bounded(text) for name, text in said.items()}
    if not texts:
        return ours
    fence = f"server-{tag_for(''.join(texts.values()), new_tag)}"
    fenced = [
        (f"{foreign(name)}:\n" if named else "") + f"<{fence}>\n{text}\n</{fence}>" for name, text in texts.items()
    ]
    return "\n\n".join([*([ours] if ours else []), "\n".join([_SERVERS_SPEAK, *fenced])])


def _bounded(text: str) -> str:
    suffix = f"\n[the rest of {plural(byte_count(text), 'byte')} is left out]"
    return clamp_text(text, max_bytes=_MAX_SAID, max_lines=None, suffix=suffix).text


def running_note(handle: str) -> dict[str, Any]:
    """The structured content of a call that goes on in the background."""
    return {"kept": True, "handle": handle, "running": True}


def with_notice(note: Mapping[str, Any], notice: str) -> dict[str, Any]:
    """Some clients show their model structured content and no text: all that the text says is in it, too.

    Before the reference, which such a client may cut off.
    """
    first = {name: note[name] for name in ("kept", "handle") if name in note}
    return {**first, "notice": notice, **note}


def widened(schema: object) -> object:
    """The schema of a tool's output, or the handle object. What is not a schema stays as it is.

    Clients that make types of a schema look at its own properties, not at choices: so those of both are there.
    """
    if not isinstance(schema, dict):
        return schema
    original = dict(cast("dict[str, Any]", schema))
    top: dict[str, Any] = {"$schema": original.pop("$schema")} if "$schema" in original else {}
    if original.get("type") == "object":
        top["type"] = "object"  # what older clients look for
    if "$id" not in original:  # a schema with a name of its own resolves its references inside of itself
        names, own = _properties(original), HANDLE_SCHEMA["properties"]
        lifted = {name: one for name, one in names.items() if _PLAIN_NAME.fullmatch(name) and name not in own}
        moved = {name: original.pop(name) for name in _HOISTED if name in original}
        if lifted:
            original["properties"] = {**names, **{name: {"$ref": f"#/properties/{name}"} for name in lifted}}
            notes: dict[str, Any] = {name: {} if name in names else own[name] for name in own}
            top["properties"] = {**cast("dict[str, Any]", _moved(lifted, lifted)), **notes}
        original = cast("dict[str, Any]", _moved(original, lifted))
        top |= {name: _moved(value, lifted) for name, value in moved.items()}
    return {**top, "anyOf": [original, HANDLE_SCHEMA]}


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Of an object that has no others."""
    found = schema.get("properties")
    is_closed = schema.get("type") == "object" and not schema.get("additionalProperties")
    return cast("dict[str, Any]", found) if is_closed and isinstance(found, dict) else {}


def _moved(value: object, lifted: Container[str]) -> object:
    """References to places in the original, which is one step deeper now. Definitions and the properties that were
    lifted are where they were."""
    if isinstance(value, list):
        return [_moved(one, lifted) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    new = {name: _moved(one, lifted) for name, one in cast("dict[str, object]", value).items()}
    reference = new.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        head, name, *_ = [*reference.removeprefix("#/").split("/"), ""]
        if head not in _HOISTED and not (head == "properties" and name in lifted):
            new["$ref"] = "#/anyOf/0" + reference[1:]
    return new


# Links


def uri_of(facts: Facts) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - it takes long to import, and only servers give links

    return f"{SCHEME}://{facts.session}/{quote(facts.handle, safe='')}"


def media_type_of(facts: Facts) -> str:
    """What its tool said that it is, else what it looks like."""
    return media_type_in(facts.measure.notes) or format_of(facts.measure.kind).media_type


def link(facts: Facts) -> dict[str, Any]:
    """A content block that leads to the whole output."""
    measure = facts.measure
    about = f"The whole output ({plural(measure.bytes, 'byte')}). Parts: add ?lines=A:B or ?bytes=A:B."
    return {
        "type": "resource_link", "uri": uri_of(facts), "name": facts.handle, "description": about,
        "mimeType": media_type_of(facts), "size": measure.bytes,
    }  # fmt: skip


def link_parts(uri: str) -> tuple[str, str, Mapping[str, str]] | None:
    """Session, handle and range of such a link; None for a link of somebody else's. Raises ValueError for a bad one."""
    from urllib.parse import parse_qsl, unquote, urlsplit  # noqa: PLC0415 - as above

    parts = urlsplit(uri)
    if parts.scheme != SCHEME:
        return None
    ranges = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if parts.fragment or ranges.keys() - {"lines", "bytes", "chars"} or len(ranges) > 1:
        raise ValueError("a link takes one of ?lines=A:B, ?bytes=A:B and ?chars=A:B")
    return parts.netloc, unquote(parts.path.removeprefix("/")), ranges


def with_running(problem: str, so_far: int) -> str:
    """What is not in an output, or wrong with it, where more of it may come."""
    is_told = "still being written" in problem
    return problem if is_told else f"{problem.rstrip('.')}. It is still running; {so_far:,} bytes so far."
