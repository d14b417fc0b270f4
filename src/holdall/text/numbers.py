"""Numbers as people read them: grouped digits, sizes, ages, and both read back as people write them."""

import re

from holdall.values.errors import BadRange
from holdall.values.patterns import lazy_pattern

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4} | {
    "k": 1024, "kib": 1024, "m": 1024**2, "mib": 1024**2, "g": 1024**3, "gib": 1024**3, "tib": 1024**4
}  # fmt: skip
_AGES = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_AGE = lazy_pattern(r"\s*+(?P<number>[0-9]{1,7}+(?:\.[0-9]{1,6}+)?+)\s*+(?P<unit>[a-z]{1,7}+)\s*+", re.ASCII)
_SIZE = lazy_pattern(r"\s*+(?P<number>[0-9]{1,15}+(?:\.[0-9]{1,6}+)?+)\s*+(?P<unit>[a-zA-Z]{0,3}+)\s*+", re.ASCII)


def number(value: object) -> float:
    """What a log says; 0 where that is not a number, or none that could be true."""
    return float(value) if isinstance(value, int | float) and abs(value) < 1e18 else 0.0


def whole(value: object) -> int:
    return int(number(value))


def grouped(number: int) -> str:
    return f"{number:,}"


def size(number: float) -> str:
    """`797.6 kB`: powers of ten, one decimal."""
    if number < 1000:
        return f"{int(number)} B"
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 999.95:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:.1f} TB"


def roughly(number: int) -> str:
    """`303k`, for estimates: three digits and no more."""
    if number < 1000:
        return str(number)
    for unit in ("k", "M"):
        number_in_unit = number / 1000 if unit == "k" else number / 1_000_000
        if number_in_unit < 999.5:
            return f"{number_in_unit:.3g}{unit}"
    billions = number / 1_000_000_000
    return f"{billions:.3g}G" if billions < 999.5 else f"{billions:.0f}G"


def money(cost: float | None, unpriced: int = 0) -> str:
    """`$0.0031`, `$12.40`: small sums keep their digits. `unpriced` are calls whose price nobody knows."""
    if cost is None or (unpriced and not cost):
        return "price unknown"
    amount = "<$0.0001" if 0 < cost < 0.0001 else f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"
    return f"at least {amount} ({plural(unpriced, 'call')} of unknown price)" if unpriced else amount


def age(seconds: float) -> str:
    """`12m`: the largest unit only."""
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(max(0, seconds) // divisor)}{unit}"
    return f"{int(seconds // 86400)}d"


def plural(number: int, noun: str) -> str:
    ending = "es" if noun.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


def parse_age(text: str) -> float:
    """`7d`, `12 hours`, `2w`: a length of time in seconds."""
    match = _AGE.fullmatch(text.lower())
    units = [one for one in _AGES if match and match["unit"] in (one[0], one, f"{one}s")]
    if match is None or not units:
        raise BadRange(f"{text[:40]!r} is not a length of time; write a number and s, m, h, d or w, such as 12h or 7d.")
    return float(match["number"]) * _AGES[units[0]]


def exact_age(seconds: float) -> str:
    """`7 days`, `90 minutes`: in the largest unit that it is a whole number of."""
    unit = next((one for one in reversed(_AGES) if seconds >= _AGES[one] and seconds % _AGES[one] == 0), "")
    return plural(int(seconds // _AGES[unit]), unit) if unit else f"{seconds:g} seconds"


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "aeioAEIO" else f"a {noun}"  # not u: a user, a Union


def parse_size(text: str) -> int:
    """`50 KiB`, `2GB`, `1024`: a size in bytes."""
    match = _SIZE.fullmatch(text)
    if match is None or match["unit"].lower() not in _UNITS:
        raise BadRange(f"{text[:40]!r} is not a size; write bytes, or a number with kB, MB, GB, KiB, MiB or GiB.")
    amount, unit = float(match["number"]), _UNITS[match["unit"].lower()]
    if unit == 1 and amount % 1:
        raise BadRange(f"{text[:40]!r} is no whole number of bytes; with a unit it could be one, such as 0.5 GB.")
    return int(amount * unit)
