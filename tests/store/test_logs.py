"""Logs by their bytes, without a store: the same lines, however they are cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.store import logs, records
from holdall.store.logs import joined, read_lines, whole_lines
from holdall.store.protocol import BadLine, LogLines
from holdall.store.records import LONGEST_LINE, sealed

LONGEST = 64  # here
TOO_LONG = f"it is longer than {LONGEST} bytes, which no line is"
lines_of_a_log = st.sampled_from([b"", b"x", b"{}", b'{"a":1}', *(b"{%b}" % (b"x" * size) for size in (61, 62, 200))])


def reference(lines: list[bytes], first: int) -> LogLines:
    """All at once: what `lines` have from line `first` on, in a log whose lines do not prove themselves."""
    at, good, bad = 0, b"", list[BadLine]()
    for number, line in enumerate(lines):
        if number >= first and line:
            if len(line) >= LONGEST:
                bad.append(BadLine(number + 1, at, TOO_LONG))
            elif line == b"x":
                bad.append(BadLine(number + 1, at, "it was not written to its end"))
            else:
                good += line + b"\n"
        at += len(line) + 1
    return LogLines(good, at, tuple(bad))


@given(st.lists(lines_of_a_log), lines_of_a_log, st.integers(1, LONGEST), st.data())
def test_a_log_is_read_from_any_line_in_pieces_of_any_size(
    lines: list[bytes], rest: bytes, piece: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(lines)))
    whole = b"".join(line + b"\n" for line in lines) + rest
    at = sum(len(line) + 1 for line in lines[:first])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "READ", piece)
        patch.setattr(records, "LONGEST_LINE", LONGEST)
        found = joined(read_lines(lambda length, start: whole[start : start + length], at, 1), at)
    assert found == reference(lines, first)


def test_a_last_line_that_proves_itself_was_whole_until_its_end_was_damaged() -> None:
    line = sealed(b'{"a":1}\n')
    for rest, bad in (
        (line[:-1], ()),
        (line[:-2], ()),
        (line[:-1] + b"?", (BadLine(3, 2 * len(line), "the end of the line is damaged"),)),
    ):
        whole = line * 2 + rest
        for first in (0, 1, 2):
            at = first * len(line)
            found = joined(read_lines(lambda length, start: whole[start : start + length], at, 2), at)  # noqa: B023
            assert found == LogLines(b'{"a":1}\n' * (2 - first), 2 * len(line), bad)


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_line_of_64_mib_is_read_and_a_longer_one_is_not(beyond: int) -> None:
    end, parts = LONGEST_LINE + beyond, {False: b"x" * logs.READ, True: b"x" * (logs.READ - 1) + b"\n"}

    def pread(length: int, start: int) -> bytes:
        length = min(length, end - start)
        return parts[start + length == end][-length:] if length else b""

    (found,) = whole_lines(pread, 0)
    assert (found.start, found.end, found.data is None) == (0, (64 << 20) + beyond, bool(beyond))
