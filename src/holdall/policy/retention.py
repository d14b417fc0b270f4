"""How long an output is kept: for a number of days, for its session, or until somebody removes it."""

import math
import re

from holdall.values.errors import BadSetting
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.settings import Settings

DAY = 86_400.0
_DAYS = lazy_pattern(r"(?P<number>[0-9]{1,6}(?:\.[0-9]{1,25})?(?:e-[0-9]{1,3})?)\s*(?:d|days?)?", re.ASCII)


@record
class Retention:
    """`days` None and `session` False means: keep. As text it reads back the same: `parse(str(rule)) == rule`."""

    days: float | None = 30.0
    session: bool = False

    def __str__(self) -> str:
        if self.session:
            return "session"
        return "keep" if self.days is None else f"{repr(self.days).removesuffix('.0')} days"

    def expires_at(self, created: float) -> float:
        return math.inf if self.session or self.days is None else created + self.days * DAY


def retention_of(settings: Settings, *, session: bool = False) -> Retention:
    """What the setting says; without one 30 days, or with `session` as long as the session (a dialect's choice)."""
    return parse(settings.retention) if settings.retention is not None else parse("session") if session else Retention()


def parse(value: object, *, key: str = "retention", where: str = "") -> Retention:
    """`session`, `keep`, `30`, `30 days`, a number of days."""
    rule = "it must be 'session', 'keep' or a number of days from 0 to 36500"
    if value == "session":
        return Retention(days=None, session=True)
    if value == "keep":
        return Retention(days=None)
    if isinstance(value, str):
        match = _DAYS.fullmatch(value.strip())
        value = float(match["number"]) if match else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 36_500:
        raise BadSetting(key, value, rule, where=where)
    return Retention(days=float(value))
