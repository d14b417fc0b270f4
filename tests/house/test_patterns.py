"""No pattern of ours takes a power of its input: what a model, a server or an output writes is matched against them."""

import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator

import pytest

import holdall
from holdall.values.errors import MissingExtra
from holdall.values.patterns import _Pattern  # pyright: ignore[reportPrivateUsage]
from tests.requirements import requirement
from tests.support import in_effort

_LONG = 500  # as often; three runs that can trade places with each other take seconds then, two a tenth of one
_FEW_SECONDS, _MOST = 0.2, 25  # of the processor, for nearly all of them; and of the effort for the others
_UNITS = (
    " ", "\n", "\t", "a", "A", "0", "\\", '"', "'", "`", "*", "_", "-", "=", "/", ".", ",", ":", "(", "[", "{", "<", "|",
    "#", ">", "%", "a ", "0 ", "a.", "a,", "a=", '\\"', "a/", "<a", "a\n", "\n ", "- ", "1.", "0:", "a-", "a_", "a:", "A_",
)  # fmt: skip


class _TooSlow(Exception):
    pass


def _patterns() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    for found in pkgutil.walk_packages(holdall.__path__, "holdall."):
        if not found.name.endswith("__main__"):
            try:
                module = importlib.import_module(found.name)
            except MissingExtra:  # an adapter of a framework that has an environment of its own
                assert found.name.startswith("holdall.adapters.")
                continue
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern | _Pattern):
                    yield f"{found.name}.{name}", value  # type: ignore[misc]


def _is_slow(pattern: "re.Pattern[str] | re.Pattern[bytes]", text: str) -> bool:
    data: str | bytes = text.encode() if isinstance(pattern.pattern, bytes) else text

    def match(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # `re` looks for signals on its way
        try:
            for way in (pattern.search, pattern.fullmatch):  # the first thing that `search` tries is a `match`
                way(data)  # type: ignore[arg-type]
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    try:
        match(_FEW_SECONDS)
    except _TooSlow:
        try:
            in_effort(_MOST, lambda: match(20.0))
        except (_TooSlow, AssertionError):
            return True
    return False


@requirement("read:linear-patterns")
@pytest.mark.timeout(600)  # 4 s of processor, on a machine that other tests keep busy
def test_no_pattern_takes_a_power_of_its_input() -> None:
    def stop(*_: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    slow: dict[str, str] = {}
    try:
        for name, pattern in _patterns():
            for unit in _UNITS:
                if name not in slow and _is_slow(pattern, f"{unit * _LONG}!"):
                    slow[name] = f"{unit!r} x {_LONG:,}"
    finally:
        signal.signal(signal.SIGVTALRM, before)
    assert slow == {}
