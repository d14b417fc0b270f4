"""What is packed in an output, for its notice: the members of an archive, or the outline of a compressed file.

Little is unpacked for it: what is counted is counted in that, and says "at least" where there is more.
"""

from dataclasses import replace
from itertools import islice

import stringzilla

from holdall.formats import registry
from holdall.formats.kinds import PACKED, SAMPLE, TAIL, Ends, is_tar
from holdall.formats.outline import Lead, Outline, Read, Room, Sample, cut, cut_bytes, fitted
from holdall.formats.packed import ARCHIVES, Listing, Member, members_of, name_in_gzip, spelled, stream_of
from holdall.text.escape import foreign
from holdall.text.numbers import plural
from holdall.values.errors import BadMember, MissingExtra
from holdall.values.outputs import Measure
from holdall.values.patterns import lazy_pattern

LOOKED = 8 * 1024 * 1024  # unpacked bytes that are looked at
_MOST_MEMBERS = {"zip": 6_000, "tar": 2_500}  # that are counted: what can be read in the time of a notice
_SHOWN = 8
_OPENED = 256 * 1024 * 1024  # bytes of a member that is offered to be read: as many are unpacked by default
_BEGINNING, _BEGINNING_HEX = "0:800", "0:128"  # bytes of a member: under 600 tokens, whatever it is
_UNREADABLE = lazy_pattern(
    r"(?i)\.(?:png|jpe?g|gif|webp|ico|pdf|zip|jar|whl|gz|tgz|bz2|xz|zst|7z|so|dylib|dll|exe|o|a|pyc|class|woff2?|ttf"
    r"|mp[34]|parquet|arrow|db|sqlite3?|bin|npy|pack|idx)\Z"
)
_LISTED = "select name, bytes from t order by bytes desc limit 20"


def packed_outline(sample: Sample, room: Room) -> Outline | None:
    read, form = sample.read, Ends(sample.head, sample.tail, whole=sample.whole, valid=False).magic
    if read is None or form not in PACKED:
        return None
    try:
        if form in ARCHIVES:
            listing = members_of(form, read, sample.size, _MOST_MEMBERS[form])
            return _archive(f"{form} archive", listing, room)
        return _stream(form, read, sample, room)
    except MissingExtra as missing:
        return Outline(f"{form} data", fitted([f"{form} data, not opened: {missing}"], room), sampled=False, errors=())
    except BadMember as problem:
        return Outline(f"{form} data", fitted([f"{form} data that cannot be opened: {problem}"], room), False, ())


# ── Archives ────────────────────────────────────────────────────────────────────────────────────────────────────


def _archive(label: str, listing: Listing, room: Room) -> Outline:
    least = "at least " if listing.problem else ""
    files, others = listing.files, len(listing.members) - len(listing.files)
    told = f"{least}{plural(len(files), 'file')}" + (f" ({others:,} folders, links and the like)" if others else "")
    told += f", {least}{sum(one.size for one in files):,} bytes unpacked, as it says itself"
    lines = [f"{told}; {listing.problem}" if listing.problem else told]
    by_size = sorted(files, key=lambda one: (-one.size, one.number))
    if len(files) > _SHOWN:
        lines.append("the largest of these:" if listing.problem else "the largest:")
    lines += [_member(listing, one) for one in by_size[:_SHOWN]]  # the last ones may find no room
    fit = (one for one in by_size if one.size and one.may_be_opened(_OPENED) and not _UNREADABLE.search(one.name))
    leads = [Lead("read", {"bytes": _BEGINNING}, f"!{spelled(listing, one)}") for one in islice(fit, 1)]
    if len(files) > _SHOWN or not leads:
        leads.append(Lead("query", {"sql": _LISTED}, "!"))
    return Outline(label, fitted(lines, room), bool(listing.problem), (), leads=tuple(leads))


def _member(listing: Listing, member: Member) -> str:
    name = foreign(member.name)
    number = "" if spelled(listing, member) == member.name else f"#{member.number} "
    closed = " (encrypted)" if "encrypted" in member.why else ""
    return f"{number}{name}  {plural(member.size, 'byte')}{closed}"


# ── Compressed files ────────────────────────────────────────────────────────────────────────────────────────────


def _stream(form: str, read: Read, sample: Sample, room: Room) -> Outline:
    stream = stream_of(form, read, sample.size, LOOKED + (1 << 20))
    parts: list[bytes] = []
    for piece in stream.pieces():
        parts.append(piece)
        if stream.given >= LOOKED:
            break
    else:
        data = b"".join(parts)
        if is_tar(data):
            problem = "the packed data end early" if stream.is_cut else ""
            return _compressed_tar(form, data, room, problem)
        return _content(form, data, _name(form, sample), room, is_cut=stream.is_cut)
    data = b"".join(parts)[:LOOKED]
    if is_tar(data):
        return _compressed_tar(form, data, room, f"only the first {LOOKED:,} unpacked bytes were looked at")
    kind = registry.kind_of(data[:SAMPLE], data[-TAIL:], whole=False, valid=_is_text(data[:SAMPLE]))
    lines = [
        f"{form}{_name(form, sample)}: at least {LOOKED:,} bytes unpacked · at least {_newlines(data):,} lines ({kind})"
    ]
    if not registry.format_of(kind).is_binary:
        lines += [
            f"L{number}  {cut_bytes(line, 120)}" for number, line in enumerate(data[:4096].split(b"\n")[:3], start=1)
        ]
    leads = (
        _beginning(kind),
        Lead("grep", {"pattern": "error", "ignore_case": True, "count": True}, "!"),
    )
    return Outline(f"{form} of {kind}", fitted(lines, room), sampled=True, errors=(), leads=leads)


def _compressed_tar(form: str, data: bytes, room: Room, problem: str) -> Outline:
    listing = members_of("tar", lambda start, end: data[max(0, start) : end], len(data), _MOST_MEMBERS["tar"])
    return _archive(f"tar archive in {form}", replace(listing, problem=problem or listing.problem), room)


def _content(form: str, data: bytes, name: str, room: Room, *, is_cut: bool) -> Outline:
    """All of it is at hand: it is outlined as it would be without its packing."""
    valid = _is_text(data)
    kind = registry.kind_of(data[:SAMPLE], data[-TAIL:], whole=len(data) <= SAMPLE, valid=valid)
    lines = _newlines(data) + (not data.endswith(b"\n") and bool(data))
    cut_off = "; the packed data end early, the rest is missing" if is_cut else ""
    told = f"{form}{name}: {plural(len(data), 'byte')} unpacked · {plural(lines, 'line')} ({kind}){cut_off}"
    beginning = _beginning(kind)
    if kind in PACKED or not data:
        return Outline(f"{form} of {kind}", fitted([told], room), sampled=False, errors=(), leads=(beginning,))
    measure = Measure(bytes=len(data), lines=lines, kind=kind, utf8=valid)
    inner = registry.outline(lambda start, end: data[max(0, start) : end], measure, room=room.after([told]))
    leads = [replace(one, member="!" + one.member) for one in inner.leads if not one.member][:2]
    return Outline(
        f"{form} of {inner.label}", fitted([told, *inner.lines], room), inner.sampled, (), leads=(*leads, beginning)
    )


def _beginning(kind: str) -> Lead:
    return Lead("read", {"bytes": _BEGINNING_HEX if registry.format_of(kind).is_binary else _BEGINNING}, "!")


def _name(form: str, sample: Sample) -> str:
    name = name_in_gzip(sample.head[:4096]) if form == "gzip" else ""
    return f' of "{cut(foreign(name), 60)}"' if name else ""


def _newlines(data: bytes) -> int:
    return stringzilla.count(data, b"\n")


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        return problem.reason == "unexpected end of data" and problem.start > len(data) - 4
    return True
