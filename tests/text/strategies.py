"""Bytes as outputs really have them: mostly text, with broken and foreign sequences where it hurts."""

import itertools

from hypothesis import strategies as st

SEQUENCES = [
    b"a", b"Z", b" ", b"\n", b"\r\n", b"\t", b"\x00", b"\x7f",
    "é".encode(), "漢".encode(), "😀".encode(), "e\u0301".encode(), b"\xef\xbb\xbf",
    b"\x80", b"\xbf", b"\xff", b"\xfe", b"\xc0\xaf", b"\xc2", b"\xe2", b"\xe2\x82", b"\xe0\x80", b"\xed\xa0\x80",
    b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xf0\x8f", b"\xf4\x90", b"\xf5",
]  # fmt: skip

messy_bytes = st.one_of(
    st.lists(st.sampled_from(SEQUENCES), max_size=30).map(b"".join),
    st.binary(max_size=60),
    st.text(max_size=30).map(lambda text: text.encode("utf-8")),
)


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these places, wherever they fall."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


cut_places = st.lists(st.integers(min_value=0, max_value=10_000), max_size=12)


def char_starts(data: bytes) -> list[int]:
    """Where each character of the decoded text starts, found the slow way: one character at a time."""
    starts: list[int] = []
    at = 0
    while at < len(data):
        starts.append(at)
        for length in range(1, 5):
            try:
                data[at : at + length].decode("utf-8")
            except UnicodeDecodeError as problem:
                if length == 4 or at + length >= len(data):
                    at += problem.end
                    break
            else:
                at += length
                break
    return starts
