"""Arguments of tools as somebody else's model may see them: values that are secrets by their name are masked.

It looks at names of keys only: a secret under an innocent name stays as it is.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

MASK = "***"
_SECRET = re.compile(
    r"(?i)(pass(word|wd|phrase)?$|secret|token$|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential"
    r"|cookie|bearer)"
)
_MOST_LEVELS = 50


def masked(arguments: object, *, level: int = 0) -> Any:
    """The same value with the secrets in it replaced; the same object where there are none and it is no container."""
    if level > _MOST_LEVELS:
        return MASK  # nobody looks that deep, so nobody can say that it is harmless
    if isinstance(arguments, Mapping):
        table = cast("Mapping[object, object]", arguments)
        return {
            name: MASK if _SECRET.search(str(name)) and value not in (None, "") else masked(value, level=level + 1)
            for name, value in table.items()
        }
    if isinstance(arguments, Sequence) and not isinstance(arguments, str | bytes):
        return [masked(value, level=level + 1) for value in cast("Sequence[object]", arguments)]
    return arguments
