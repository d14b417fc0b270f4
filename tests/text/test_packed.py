"""What is packed in bytes: streams and members, compared with the standard library; and archives made to do harm."""

import bz2
import gzip
import io
import lzma
import random
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from holdall.formats import packed
from holdall.formats.packed import (
    MOST_MEMBERS,
    Listing,
    Stream,
    bytes_of,
    checked,
    member_named,
    members_of,
    spelled,
    stream_of,
)
from holdall.formats.registry import kind_of
from holdall.store.bundle.stream import zstd  # that of the language, or of the package
from holdall.values.errors import BadMember, MissingExtra
from tests.packed import LOG, entry, reading, tarred, zipped
from tests.requirements import requirement

MOST = 64 * 1024 * 1024
RANDOM = random.Random(7).randbytes(300_000)
COMPRESS = {"gzip": gzip.compress, "zstd": zstd.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def kind(data: bytes) -> str:
    return kind_of(data[: 64 * 1024], data[-1024:], whole=False, valid=False)


def unpacked(form: str, data: bytes, most: int = MOST) -> tuple[bytes, bool, int]:
    """All of it, whether its end is missing, and how many bytes are behind it."""
    stream = stream_of(form, reading(data), len(data), most)
    return b"".join(stream.pieces()), stream.is_cut, stream.rest


def listed(form: str, data: bytes, most: int = MOST_MEMBERS) -> Listing:
    return members_of(form, reading(data), len(data), most)


def content(form: str, data: bytes, name: str, most: int = MOST) -> tuple[bytes, bool]:
    member, rest = member_named(listed(form, data), name)
    assert rest is None
    stream, (start, end) = bytes_of(form, reading(data), member, most)
    assert 0 <= start < end
    found = b"".join(checked(stream, member))
    return found, stream.is_cut


# Streams


@requirement("packed:members", "measure:kind-packed")
@pytest.mark.parametrize("form", COMPRESS)
def test_a_stream_unpacks_to_what_was_packed(form: str) -> None:
    data = LOG.encode() + RANDOM
    made = COMPRESS[form](data)
    assert kind(made) == form
    assert unpacked(form, made) == (data, False, 0)


@requirement("packed:members")
@pytest.mark.skipif(shutil.which("zstd") is None or shutil.which("gzip") is None, reason="needs both commands")
def test_what_the_commands_make_unpacks(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(LOG)
    for form, command in (("gzip", "gzip"), ("zstd", "zstd")):
        made = subprocess.run([command, "-c", str(tmp_path / "a")], capture_output=True, check=True).stdout
        assert unpacked(form, made) == (LOG.encode(), False, 0)


@requirement("packed:damaged")
@pytest.mark.parametrize("form", COMPRESS)
def test_joined_streams_are_one_and_what_is_behind_them_is_counted(form: str) -> None:
    one, other = COMPRESS[form](b"one\n" * 9), COMPRESS[form](RANDOM)
    assert unpacked(form, one + other) == (b"one\n" * 9 + RANDOM, False, 0)
    assert unpacked(form, one + bytes(700) + other)[0] == b"one\n" * 9 + RANDOM
    assert unpacked(form, one + b"not packed at all") == (b"one\n" * 9, False, 17)
    assert unpacked(form, one + b"x") == (b"one\n" * 9, False, 1)


@requirement("packed:damaged")
@pytest.mark.parametrize("form", COMPRESS)
@pytest.mark.parametrize("cut", [1, 9, 5_000])
def test_a_stream_that_ends_early_says_so(form: str, cut: int) -> None:
    made = COMPRESS[form](RANDOM)
    found, is_cut, _ = unpacked(form, made[:-cut])
    assert is_cut
    assert RANDOM.startswith(found)


@requirement("packed:damaged")
def test_a_stream_with_a_wrong_checksum_is_refused() -> None:
    made = bytearray(gzip.compress(RANDOM))
    made[-6] ^= 1
    with pytest.raises(BadMember, match="damaged"):
        unpacked("gzip", bytes(made))


@requirement("packed:bombs")
@pytest.mark.parametrize("form", COMPRESS)
def test_a_bomb_is_not_unpacked(form: str) -> None:
    made = COMPRESS[form](bytes(12_000_000))
    with pytest.raises(BadMember, match="200 times"):
        unpacked(form, made)
    assert unpacked(form, COMPRESS[form](bytes(1_000_000)))[0] == bytes(1_000_000)  # it does no harm


@requirement("packed:bombs")
def test_a_stream_over_the_most_bytes_is_not_unpacked() -> None:
    with pytest.raises(BadMember, match="unpack_max_bytes"):
        unpacked("gzip", gzip.compress(RANDOM), most=250_000)


@requirement("packed:damaged")
def test_how_much_was_unpacked_before_the_damage_is_at_least_that_much() -> None:
    text = b"".join(b"%d INFO request took %d ms\n" % (at, at * 7919 % 300) for at in range(20_000))
    made = bytearray(gzip.compress(text))
    made[len(made) // 2] ^= 255
    with pytest.raises(BadMember, match=r"^it is damaged \(Error"):  # in one piece: nobody knows how much of it
        unpacked("gzip", bytes(made))
    pieces = [bytes(made[at : at + 1000]) for at in range(0, len(made), 1000)]
    with pytest.raises(BadMember) as refused:
        list(Stream("gzip", pieces, 1 << 30).pieces())
    said = re.match(r"it is damaged after at least ([\d,]+) unpacked bytes \(Error", str(refused.value))
    assert said
    assert 100_000 < int(said[1].replace(",", "")) <= len(text)


@requirement("packed:bombs")
def test_what_asks_for_much_memory_is_refused() -> None:
    large = lzma.compress(RANDOM, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}])
    with pytest.raises(BadMember, match="damaged"):
        unpacked("xz", large)
    window = zstd.compress(RANDOM, options={zstd.CompressionParameter.window_log: 30})
    frame = bytearray(window)
    if not frame[4] & 0x20:  # not a single segment: the next byte has the window
        frame[5] = (30 - 10) << 3
        with pytest.raises(BadMember, match="damaged"):
            unpacked("zstd", bytes(frame))


@requirement("packed:extra")
def test_without_the_package_for_zstd_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(packed.importlib, "import_module", gone)
    with pytest.raises(MissingExtra, match=r"holdall\[packed\]"):
        unpacked("zstd", b"\x28\xb5\x2f\xfd")


# zip


ZIP = zipped({"a.txt": "hello\n" * 900, "d/": "", "d/ü.log": LOG, "empty": "", "r": RANDOM})


@requirement("packed:members")
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\nexit\n"])
def test_a_zip_has_the_members_that_zipfile_finds(method: int, before: bytes) -> None:
    made = before + zipped({"a.txt": "hello\n" * 900, "d/ü.log": LOG, "empty": "", "r": RANDOM}, method)
    assert before or kind(made) == "zip"
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        infos = archive.infolist()
        found = listed("zip", made).members
        assert [(one.name, one.size, one.packed, one.crc) for one in found] == [
            (info.filename, info.file_size, info.compress_size, info.CRC) for info in infos
        ]
        assert all(content("zip", made, info.filename) == (archive.read(info), False) for info in infos)


@requirement("packed:members")
def test_a_name_in_a_zip_is_utf_8_where_it_can_be() -> None:
    """Info-ZIP in the plain locale does not say so; what is no UTF-8 is the code page of DOS."""
    said = zipped({"dir/ä&b.txt": "hello\n", "plain": ""})
    unsaid = bytearray(said)
    for sign, flags in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = unsaid.index(sign) + flags
        unsaid[at : at + 2] = bytes(2)
    old = bytes(unsaid).replace("ä".encode(), b"\x84o")
    for made, name in ((said, "dir/ä&b.txt"), (bytes(unsaid), "dir/ä&b.txt"), (old, "dir/äo&b.txt")):
        assert [one.name for one in listed("zip", made).members] == [name, "plain"]
        assert content("zip", made, name) == (b"hello\n", False)


@requirement("packed:members")
def test_a_zip_that_was_written_as_a_stream_with_numbers_of_64_bits_is_read() -> None:
    made = io.BytesIO()
    stream = io.BufferedWriter(made)
    stream.seekable = lambda: False  # type: ignore[method-assign]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a.log", "w", force_zip64=True) as member:
            member.write(LOG.encode())
        archive.comment = b"PK\5\6 is not the end" * 9
    stream.flush()
    assert content("zip", made.getvalue(), "a.log") == (LOG.encode(), False)


@requirement("packed:damaged")
def test_of_a_zip_without_its_directory_what_is_there_is_given() -> None:
    cut = ZIP[: ZIP.index(b"PK\1\2") - 200_000]
    found = listed("zip", cut)
    assert [one.name for one in found.members] == ["a.txt", "d/", "d/ü.log", "empty", "r"]
    assert found.problem
    assert content("zip", cut, "d/ü.log") == (LOG.encode(), False)
    part, is_cut = content("zip", cut, "r")
    assert is_cut
    assert RANDOM.startswith(part)


@requirement("packed:damaged")
def test_an_encrypted_member_is_refused() -> None:
    made = bytearray(ZIP)
    made[made.index(b"PK\1\2") + 8] |= 1
    with pytest.raises(BadMember, match="encrypted"):
        content("zip", bytes(made), "a.txt")


@requirement("packed:damaged")
@pytest.mark.parametrize(("field", "value"), [(24, 5), (24, 6_000), (16, 77), (20, 3), (10, 99)])
def test_a_member_that_is_not_what_the_directory_says_is_refused(field: int, value: int) -> None:
    made = bytearray(ZIP)
    at = made.index(b"PK\1\2") + field
    made[at : at + (2 if field == 10 else 4)] = value.to_bytes(2 if field == 10 else 4, "little")
    if field == 20:  # of its packed bytes only three: what is missing is said
        assert content("zip", bytes(made), "a.txt")[1]
    else:
        with pytest.raises(BadMember):
            content("zip", bytes(made), "a.txt")


@requirement("packed:damaged")
def test_a_member_that_is_named_otherwise_in_the_directory_is_refused() -> None:
    with pytest.raises(BadMember, match="differently"):
        content("zip", ZIP.replace(b"a.txt", b"b.txt", 1), "a.txt")


@requirement("packed:bombs")
def test_a_member_that_is_a_bomb_is_refused_by_its_ratio_and_by_its_size() -> None:
    made = zipped({"zeros": bytes(12_000_000)})
    with pytest.raises(BadMember, match="200 times"):
        content("zip", made, "zeros")
    with pytest.raises(BadMember, match="unpack_max_bytes"):
        content("zip", made, "zeros", most=1_000_000)


def million() -> bytes:
    """A directory of a million members, all of them the same one."""
    one = zipped({"a": "x"}, zipfile.ZIP_STORED)
    at, end = one.index(b"PK\1\2"), one.index(b"PK\5\6")
    body, record = one[:at], one[at:end]
    length = len(record) * 1_000_000
    tail = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1_000_000, 1_000_000, length, at)
    tail += struct.pack("<4sLQL", b"PK\6\7", 0, at + length, 1)
    tail += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return body + record * 1_000_000 + tail


@requirement("packed:bombs")
def test_of_a_million_members_the_first_are_listed_and_the_others_said_to_be_there() -> None:
    found = listed("zip", million())
    assert len(found.members) == MOST_MEMBERS
    assert found.problem == "only the first 100,000 are listed"


# tar


TAR = {
    "a.txt": b"hello\n" * 900,
    "d": entry(tarfile.DIRTYPE),
    "d/" + "n" * 150: LOG.encode(),
    "empty": b"",
    "r": RANDOM,
}


@requirement("packed:members", "measure:kind-packed")
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_tar_has_the_members_that_tarfile_finds(form: int) -> None:
    made = tarred(TAR, form)
    assert kind(made) == "tar"
    found = listed("tar", made)
    assert not found.problem
    assert [one.name for one in found.members] == list(TAR)
    for name, data in TAR.items():
        if isinstance(data, bytes):
            assert content("tar", made, name) == (data, False)


@requirement("packed:members")
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_plain_headers_are_read_as_the_library_reads_them(form: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(form)
    made = tarred({
        f"d{at}/" if at % 7 == 0 else f"a/ü {at}.log": entry(tarfile.DIRTYPE) if at % 7 == 0
        else entry(tarfile.SYMTYPE, f"a/{at}") if at % 11 == 0 else RANDOM[: chance.randrange(3000)] for at in range(90)
    }, form)  # fmt: skip
    for _ in range(200):
        data = bytearray(made[: chance.choice([len(made), chance.randrange(512, len(made))])])
        data[chance.randrange(len(data))] ^= chance.choice([0, 1, 128])
        quickly = packed._plain_tar_members(reading(bytes(data)), 1000)  # pyright: ignore[reportPrivateUsage]
        if quickly is not None:
            with monkeypatch.context() as patch:
                patch.setattr(packed, "_plain_tar_members", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
                assert listed("tar", bytes(data)) == quickly
    assert packed._plain_tar_members(reading(made), 1000) is not None or form == tarfile.PAX_FORMAT  # pyright: ignore[reportPrivateUsage]


@requirement("packed:members")
@pytest.mark.skipif(shutil.which("tar") is None, reason="needs the command tar")
def test_a_sparse_file_that_claims_to_be_stored_is_not_unpacked() -> None:
    size = 20_000_000

    def number(value: int) -> bytes:
        return b"%011o\0" % value

    data = size // 100  # is said to be there, in a file of 2 KB
    header = bytearray(512)
    header[:9], header[100:108], header[124:136], header[156:157] = b"zeros.bin", b"0000644\0", number(512), b"S"
    header[257:265], header[386:410], header[483:495] = b"ustar  \0", number(size - data) + number(data), number(size)
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(BadMember, match="it is sparse: 20,000,000 bytes, of which 512 are stored"):
        content("tar", bytes(header) + bytes(1536), "zeros.bin")


def test_what_tar_makes_with_a_sparse_file_is_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/sparse", "wb") as file:
            file.truncate(3_000_000)
            file.seek(1_000_000)
            file.write(b"in the middle")
        whole = Path(f"{folder}/sparse").read_bytes()
        made = subprocess.run(["tar", "-C", folder, "-cS", "sparse"], capture_output=True, check=True).stdout
        assert len(made) < 1_000_000
        assert content("tar", made, "sparse") == (whole, False)
        with open(f"{folder}/sparse", "r+b") as file:
            file.truncate(1 << 40)
        made = subprocess.run(["tar", "-C", folder, "-cS", "sparse"], capture_output=True, check=True).stdout
    with pytest.raises(BadMember, match="unpack_max_bytes"):
        content("tar", made, "sparse")
    with pytest.raises(BadMember, match="sparse"):
        content("tar", made, "sparse", most=1 << 41)


@requirement("packed:hostile-names")
def test_links_devices_and_names_that_lead_elsewhere_are_only_names() -> None:
    made = tarred({
        "/etc/passwd": b"mine\n", "../../up": b"also mine\n", "link": entry(tarfile.SYMTYPE, "/etc/passwd"),
        "hard": entry(tarfile.LNKTYPE, "../../up"), "disk": entry(tarfile.BLKTYPE), "pipe": entry(tarfile.FIFOTYPE),
    })  # fmt: skip
    assert content("tar", made, "/etc/passwd") == (b"mine\n", False)
    assert content("tar", made, "../../up") == (b"also mine\n", False)
    for name, why in (
        ("link", "a link to /etc/passwd"),
        ("hard", "a hard link to"),
        ("disk", "device"),
        ("pipe", "pipe"),
    ):
        with pytest.raises(BadMember, match=why):
            content("tar", made, name)


@requirement("packed:damaged")
@pytest.mark.parametrize("left", [1_000, 5_600, 6_000, 6_200, 100_000])
def test_of_a_tar_that_ends_early_what_is_there_is_given(left: int) -> None:
    made = tarred({"a": b"a" * 5_000, "b": RANDOM})[:left]
    found = listed("tar", made)
    assert found.problem
    last = found.members[-1]
    part, is_cut = content("tar", made, last.name)
    assert is_cut == (len(part) < last.size)
    assert {"a": b"a" * 5_000, "b": RANDOM}[last.name].startswith(part)


@requirement("packed:damaged", "packed:deadline")
def test_headers_made_to_go_round_in_circles_end() -> None:
    def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
        block = bytearray(name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size + b"00000000000\0")
        block += b" " * 8 + kind + bytes(100) + b"ustar\x0000"
        block += bytes(512 - len(block))
        block[148:156] = b"%06o\0 " % sum(block)
        return bytes(block)

    negative = b"\xff" * 10 + (-1024).to_bytes(2, "big", signed=True)
    found = listed("tar", header(b"a", b"00000000000\0") + header(b"b", negative) + bytes(1024))
    assert [one.name for one in found.members] == ["a"]
    assert found.problem
    # An extended header of which each byte begins another record: quadratic for the library.
    records = b"2 " * 500_000
    found = listed("tar", header(b"a", b"00000000000\0") + header(b"x", b"%011o\0" % len(records), b"x") + records)
    assert "too large" in found.problem
    with pytest.raises(BadMember):
        listed("tar", header(b"b", negative))


@requirement("packed:bombs")
def test_an_extended_header_of_digits_is_refused_before_anybody_looks_through_it() -> None:
    """Some versions of `tarfile` take seconds for one of 32 KB, holding the interpreter's lock."""
    value = b"x=" + b"1" * 30_000 + b"\n"
    record = b"%d %s" % (len(value) + 6, value)
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    extended = header.tobuf(tarfile.USTAR_FORMAT) + record.ljust(-(-len(record) // 512) * 512, b"\0")
    data = (extended + tarfile.TarInfo("a").tobuf()) * 40 + bytes(1024)
    with pytest.raises(BadMember, match="an extended header that is too long"):
        members_of("tar", lambda start, end: data[start:end], len(data), 100)


@requirement("packed:bombs")
@pytest.mark.parametrize("kind", [b"L", b"K", b"x"])
def test_extended_headers_one_behind_the_other_are_refused(kind: bytes) -> None:
    """The library reads each of them inside of the one before."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = kind, 512
    record = b"12 path=abc\n".ljust(512, b"\0") if kind == b"x" else b"n" * 511 + b"\0"
    first = tarfile.TarInfo("a").tobuf()
    data = first + (header.tobuf(tarfile.USTAR_FORMAT) + record) * 400 + bytes(1024)
    listing = members_of("tar", lambda start, end: data[start:end], len(data), 100)
    assert [one.name for one in listing.members] == ["a"]
    assert "more extended headers than are read" in listing.problem


def test_names_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_MOST_OF_NAMES", 1000)
    for form, data in (
        ("zip", zipped({f"{n:090}": b"x" for n in range(20)})),
        ("tar", tarred({f"{n:0190}": b"x" for n in range(20)})),
    ):
        listing = members_of(form, reading(data), len(data), 100)
        assert 4 < len(listing.members) < 12
        assert "only the first" in listing.problem


def test_a_name_with_marks_is_looked_up_once() -> None:
    data = zipped({"a!b": b"1", "a": b"2", "#1!x": b"3"})
    listing = members_of("zip", reading(data), len(data), 100)
    found = {
        wanted: (one.name, rest)
        for wanted in ("a!b", "a!c", "a", "a!b!c!!", "#1!x", "#1", "#1!y")
        for one, rest in [member_named(listing, wanted)]
    }
    assert found == {
        "a!b": ("a!b", None), "a!c": ("a", "c"), "a": ("a", None), "a!b!c!!": ("a!b", "c!!"), "#1!x": ("#1!x", None),
        "#1": ("a!b", None), "#1!y": ("a!b", "y"),
    }  # fmt: skip


def test_a_tar_with_very_many_global_headers_is_refused() -> None:
    """Each member would get a copy of them all."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", pax_headers={f"key{n}": "x" for n in range(200)}) as tar:
        for name in "ab":
            tar.addfile(tarfile.TarInfo(name))
    data = written.getvalue()
    with pytest.raises(BadMember, match="more global headers than are read"):
        members_of("tar", lambda start, end: data[start:end], len(data), 100)


def test_of_very_many_members_of_a_tar_the_first_are_listed() -> None:
    found = listed("tar", tarred({str(number): b"" for number in range(60)}), most=50)
    assert len(found.members) == 50
    assert found.problem


# Names


@requirement("packed:names")
def test_a_member_is_named_by_its_name_or_its_number() -> None:
    # zipfile warns where a name is given twice.
    names = ("twice", "once", "other", "odd name\n", "#1", "a.zip", "a.zip!b", "ä" * 70)
    found = listed("zip", zipped({name: name for name in names}).replace(b"other", b"twice"))
    assert [spelled(found, one) for one in found.members] == ["#1", "once", "#3", "#4", "#5", "a.zip", "#7", "#8"]
    for wanted, number, rest in (
        ("once", 2, None), ("#3", 3, None), ("#4!b", 4, "b"), ("odd name\n", 4, None), ("a.zip!b", 7, None),
        ("a.zip!c!d", 6, "c!d"), ("a.zip!", 6, ""), ("#7!", 7, ""),
    ):  # fmt: skip
        member, left = member_named(found, wanted)
        assert (member.number, left) == (number, rest)
    for wanted, why in (
        ("twice", "2 members are called twice: name one by its number .#1, #3."), ("nowhere", "8 members"),
        ("#9", "no member #9"), ("#" + "9" * 4000, "no member"), ("x" * 900, "no member"), ("!", "no member"),
    ):  # fmt: skip
        with pytest.raises(BadMember, match=why) as refused:
            member_named(found, wanted)
        assert len(str(refused.value)) < 200
        assert "\n" not in str(refused.value)


@requirement("packed:damaged")
@pytest.mark.parametrize("form", ["zip", "tar", *COMPRESS])
def test_whatever_is_wrong_with_packed_bytes_there_is_an_answer(form: str) -> None:
    """Bits flipped at random: what comes out was packed, is said to be cut off, or is refused."""
    data = {"a.txt": b"hello\n" * 90, "b": RANDOM[:3000]}
    made = zipped(data) if form == "zip" else tarred(data) if form == "tar" else COMPRESS[form](RANDOM[:3000])
    chance = random.Random(form)
    for _ in range(120):
        broken = bytearray(made)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        broken = broken[: chance.choice([len(broken), chance.randrange(len(broken))])]
        try:
            if form in COMPRESS:
                unpacked(form, bytes(broken))
                continue
            for one in listed(form, bytes(broken)).members:
                stream, _ = bytes_of(form, reading(bytes(broken)), one, MOST)
                found = b"".join(checked(stream, one))
                assert form == "tar" or stream.is_cut or one.name not in data or found == data[one.name]
        except BadMember:
            pass
