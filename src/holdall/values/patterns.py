"""Regular expressions that are compiled on first use: `lazy_pattern(...)` in place of `re.compile(...)` in a module.

Two hundred patterns took a third of the time of importing Holdall, and one call uses few of them. This module never
changes what a pattern means.
"""

import re
from typing import Any, AnyStr, cast


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile(text, flags)`, done when a method is first asked for. Afterwards it costs what the method costs."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: Any, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)  # `re` remembers, so a second method compiles nothing
        setattr(self, name, value)
        return value
