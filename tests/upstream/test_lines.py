"""Lines of a server, whatever the chunks in which they come; and when it may be started again."""

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.mcp.client import codec
from holdall.mcp.client.keeper import Backoff
from holdall.mcp.client.server_process import LimitExceeded, Lines
from holdall.text.json.find import Hit, Scan


def lines(longest: int = 10_000, noise_limit: int = 10_000) -> Lines:
    return Lines(longest=longest, noise_limit=noise_limit)


_MESSAGE = st.binary(max_size=40).map(lambda rest: b"{" + rest.replace(b"\n", b"") + b"}")
_NOISE = st.binary(max_size=40).map(lambda rest: b"noise " + rest.replace(b"\n", b""))
_BLANK = st.sampled_from([b"", b" ", b"\t \r"])


@given(st.lists(_MESSAGE | _NOISE | _BLANK, max_size=20), st.data())
def test_messages_are_found_alike_however_the_bytes_are_cut(written: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in written)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    reader, found = lines(), list[bytes]()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += map(bytes, reader.feed(whole[start:end]))
    assert found == [line for line in written if line.startswith(b"{")]
    assert not reader.unfinished
    assert reader.noise >= sum(len(line) for line in written if line.startswith(b"noise"))


@given(st.lists(st.binary(max_size=300), max_size=60))
def test_noise_takes_no_more_memory_than_its_end(chunks: list[bytes]) -> None:
    reader = lines(noise_limit=10**9)
    for chunk in chunks:
        assert list(reader.feed(b"noise" + chunk.replace(b"{", b"").replace(b"[", b""))) == []
    assert len(reader.tail) <= 2000
    assert not reader.unfinished


def test_a_started_message_is_unfinished_until_its_line_ends() -> None:
    reader = lines()
    assert list(reader.feed(b'  {"a"')) == []
    assert reader.unfinished
    assert list(reader.feed(b": 1}\r\n")) == [b'{"a": 1}\r']
    assert not reader.unfinished


def test_too_much_is_refused_and_a_message_in_between_makes_noise_harmless() -> None:
    with pytest.raises(LimitExceeded, match="one message of more than 10 bytes"):
        list(lines(longest=10).feed(b"{" * 11))
    reader = lines(noise_limit=10)
    for _ in range(5):
        assert len(list(reader.feed(b"noise\n{}\n"))) == 1
        reader.accept()
    with pytest.raises(LimitExceeded, match="more than 10 bytes on standard output"):
        list(reader.feed(b"noise\nnoise\n"))
    with pytest.raises(LimitExceeded):
        lines(noise_limit=10).reject(b"{x", 11)


@given(st.integers(0, 2000), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_the_pause_before_a_start_grows_and_has_a_bound(failures: int, since: float, now: float) -> None:
    pause = Backoff(failures, since).wait(since)
    assert 0 <= Backoff(failures, since).wait(now) <= pause + 1e-6
    assert pause <= Backoff(failures + 1, since).wait(since) <= 60
    assert Backoff(failures, since).wait(since + 61) == 0


def test_the_first_death_costs_no_time_and_each_that_follows_costs_more() -> None:
    backoff = Backoff()
    pauses: list[float] = []
    for _ in range(10):
        backoff = backoff.failed(100.0)
        pauses.append(backoff.wait(100.0))
    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_result_that_is_given_very_often_is_found_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()
    monkeypatch.setattr(codec, "Scan", functools.partial(Counting, seen))
    line = bytearray(b'{"id":1' + b',"result":{"structuredContent":1}' * 1000 + b"}")
    assert codec._structure(line) is None  # pyright: ignore[reportPrivateUsage]
    assert len(seen) == 2


class Counting(Scan):
    def __init__(self, seen: list[int], *given: Any) -> None:
        super().__init__(*given)
        self._seen = seen

    def hits(self, *given: Any, **named: Any) -> Iterator[Hit]:
        for hit in super().hits(*given, **named):
            self._seen.append(hit.start)
            yield hit


def test_of_a_message_that_never_comes_to_its_end_the_bytes_are_let_go() -> None:
    reader = Lines(longest=10, noise_limit=10)
    with pytest.raises(LimitExceeded):
        list(reader.feed(b"{" + b"x" * 20))
    assert list(reader.feed(b"\n")) == []
    list(reader.feed(b"{12345"))
    reader.forget()
    assert reader.unfinished
    assert list(reader.feed(b"\n")) == [b"{"]
