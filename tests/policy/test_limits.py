"""Limits: each dialect's own, and what a setting makes of them."""

from dataclasses import fields, replace

import pytest
from inline_snapshot import snapshot

from holdall.policy.decide import Fits, Keep, Limits, decide, limits_of
from holdall.values.settings import DIALECTS, Settings, by_name
from holdall.wire import dialects
from holdall.wire.dialects import dialect_of
from tests.requirements import requirement


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def decided(text: str, settings: Settings) -> Fits | Keep:
    return decide(text, limits=limits_of(settings, dialect_of(settings).limits), tokenizer=Words())


def test_every_dialect_has_the_limits_of_the_specification() -> None:
    assert [dialect.name for dialect in dialects.DIALECTS.values()] == list(DIALECTS)
    assert {
        name: {one.name: value for one in fields(dialect.limits) if (value := getattr(dialect.limits, one.name))}
        for name, dialect in dialects.DIALECTS.items()
    } == snapshot(
        {
            "holdall": {"bytes": 51200, "lines": 2000, "tokens": 10000},
            "extract": {"bytes": 12288},
            "refs": {"bytes": 16384, "chars": 4000},
            "async": {"tokens": 10000},
            "clamp": {"bytes": 51200, "lines": 2000},
            "legacy": {"bytes": 12288},
        }
    )


@pytest.mark.parametrize(
    ("fits", "too_much", "reason"),
    [
        pytest.param("x" * 51_200, "x" * 51_201, "bytes", marks=requirement("dialect:holdall-bytes"), id="50 KiB"),
        pytest.param("x\n" * 2000, "x\n" * 2001, "lines", marks=requirement("dialect:holdall-lines"), id="2,000 lines"),
        pytest.param("w " * 10_000, "w " * 10_001, "tokens", marks=requirement("dialect:holdall-tokens"), id="tokens"),
    ],
)
def test_the_holdall_dialect_keeps_what_is_over_its_limits(fits: str, too_much: str, reason: str) -> None:
    settings = Settings(dialect="holdall")
    assert decided(fits, settings) == Fits()
    over = decided(too_much, settings)
    assert isinstance(over, Keep)
    assert over.reason == reason


@requirement("way:decide-absent-limit")
def test_a_dialect_without_a_limit_does_not_keep_for_it() -> None:
    many_lines = "x\n" * 5000
    assert decided(many_lines, Settings(dialect="extract")) == Fits()
    assert decided(many_lines, Settings(dialect="async")) == Fits()
    assert decided("é" * 5000, Settings(dialect="legacy")) == Fits()
    assert decided("é" * 5000, Settings(dialect="refs")) == Keep("chars")


@pytest.mark.parametrize(
    ("name", "limit", "aliases"),
    [
        pytest.param(
            "max_inline_bytes",
            "bytes",
            ["toolResponseMaxBytes", "maxInlineBytes"],
            marks=requirement("settings:max-inline-bytes"),
        ),
        pytest.param("max_inline_chars", "chars", ["maxInlineChars"], marks=requirement("settings:max-inline-chars")),
        pytest.param("max_inline_lines", "lines", [], marks=requirement("settings:max-inline-lines")),
        pytest.param(
            "max_inline_tokens", "tokens", ["asyncTokenThreshold"], marks=requirement("settings:max-inline-tokens")
        ),
    ],
)
def test_a_limit_is_the_dialects_unless_it_is_set(name: str, limit: str, aliases: list[str]) -> None:
    for dialect in DIALECTS:
        settings = Settings(dialect=dialect)  # pyright: ignore[reportArgumentType]
        base = dialect_of(settings).limits
        assert limits_of(settings, base) == base
        assert limits_of(replace(settings, **{name: 7}), base) == replace(base, **{limit: 7})
    assert [alias for alias, one in by_name().items() if one.name == name and alias != name] == aliases


def test_a_limit_that_is_set_decides() -> None:
    assert decided("12345", Settings(max_inline_chars=5)) == Fits()
    assert decided("123456", Settings(max_inline_chars=5)) == Keep("chars")
    assert limits_of(Settings(max_inline_bytes=1), dialect_of(Settings()).limits) == Limits(
        bytes=1, lines=2000, tokens=10_000
    )
