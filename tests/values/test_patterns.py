"""A lazy pattern is the pattern: same answers from every method, compiled once, on first use."""

import re

import pytest

from holdall.values import patterns
from holdall.values.patterns import lazy_pattern


def test_every_method_and_attribute_is_that_of_the_compiled_pattern() -> None:
    ours, real = lazy_pattern(r"(?P<word>\w+) (\d)", re.ASCII), re.compile(r"(?P<word>\w+) (\d)", re.ASCII)
    text = "a 1, bc 2 d"
    assert ours.findall(text) == real.findall(text)
    assert ours.sub("x", text) == real.sub("x", text)
    assert [one.span() for one in ours.finditer(text)] == [one.span() for one in real.finditer(text)]
    assert (ours.pattern, ours.flags, ours.groups) == (real.pattern, real.flags, real.groups)
    assert lazy_pattern(rb"\xff+").fullmatch(b"\xff\xff") is not None


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    class Counting:
        def compile(self, text: str, flags: int) -> re.Pattern[str]:
            compiled.append(text)
            return re.compile(text, flags)

    monkeypatch.setattr(patterns, "re", Counting())
    one = lazy_pattern("a+")
    assert compiled == []
    for _ in range(3):
        assert one.match("aa")
    assert compiled == ["a+"]
