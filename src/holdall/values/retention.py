"""How long an output is kept: for a number of days, for its session, or until somebody removes it."""

import math
import re
from typing import TYPE_CHECKING

from holdall.values.errors import BadSetting
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

if TYPE_CHECKING:
    from holdall.values.outputs import Facts

DAY = 86_400.0
_UNITS = {"day": DAY, "hour": 3600.0, "minute": 60.0, "second": 1.0, "week": 7 * DAY}
_TIME = lazy_pattern(
    r"(?P<number>[0-9]{1,10}(?:\.[0-9]{1,25})?(?:e-[0-9]{1,3})?)\s*(?P<unit>(?:day|hour|minute|second|week)s?|[dhmsw])?",
    re.ASCII,
)
RULE = "'session', 'keep', a number of days from 0 to 36500, or a time such as 12h or 2 weeks"


@record
class Retention:
    """`days` None and `session` False means: keep. As text it reads back the same: `parse(str(rule)) == rule`."""

    days: float | None = 30.0
    session: bool = False

    def __str__(self) -> str:
        if self.session:
            return "session"
        return "keep" if self.days is None else f"{repr(self.days).removesuffix('.0')} days"

    @property
    def told(self) -> str:
        """For people: `30 days`, `1 hour`, `2 seconds`, as far as that reads back the same."""
        for unit, seconds in _UNITS.items() if self.days else ():
            amount = f"{(self.days or 0) * DAY / seconds:.10g}"
            text = f"{amount} {unit}" if amount == "1" else f"{amount} {unit}s"
            if "." not in amount and _TIME.fullmatch(text) and parse(text) == self:
                return text
        return str(self)

    @staticmethod
    def of(setting: str | None, *, session: bool = False) -> "Retention":
        """What the setting says; without one 30 days, or with `session` as long as the session (a dialect's choice)."""
        return parse(setting) if setting is not None else parse("session") if session else Retention()

    def is_over(self, facts: "Facts", now: float) -> bool:
        """Whether its time has come: it counts from the end of a call."""
        return facts.state not in ("expired", "running") and self.expires_at(facts.ended or facts.created) <= now

    def expires_at(self, created: float) -> float:
        return math.inf if self.session or self.days is None else created + self.days * DAY


def parse(value: object, *, key: str = "retention", where: str = "") -> Retention:
    """`session`, `keep`, `30`, `30 days`, `2 hours`, `12h`; a number alone is one of days."""
    if value == "session":
        return Retention(days=None, session=True)
    if value == "keep":
        return Retention(days=None)
    if isinstance(value, str) and (match := _TIME.fullmatch(value.strip())):
        seconds = next(_UNITS[one] for one in _UNITS if one[0] == (match["unit"] or "day")[0])
        number = float(match["number"])
        value = number / (DAY / seconds) if seconds < DAY else number * (seconds / DAY)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 36_500:
        raise BadSetting(key, value, f"it must be {RULE}", where=where)
    return Retention(days=float(value))
