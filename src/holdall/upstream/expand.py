"""`${NAME}` in the configuration of a server, replaced from the environment. Pure: the environment is handed in.

`${NAME}`, `${env:NAME}` and `${NAME:-default}` are known. Other forms belong to editors, which ask a person or know
a folder; they are refused rather than passed on as they stand.
"""

import difflib
import re
from collections.abc import Mapping

_PLACE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Unexpanded(ValueError):
    """`near` is a variable that there is, where one has nearly that name."""

    def __init__(self, rule: str, near: str = "") -> None:
        self.rule = rule
        self.near = near
        super().__init__(rule)


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Every place is replaced once: what a variable holds is not looked at again."""
    return _PLACE.sub(lambda match: _value(match[1], environment), text)


def _value(inside: str, environment: Mapping[str, str]) -> str:
    match = _NAME.fullmatch(inside)
    if match is None:
        raise Unexpanded(f"holds ${{{inside[:40]}}}, and only variables of the environment, ${{NAME}}, are known")
    name, default = match[1], match[2]
    if name in environment:
        return environment[name]
    if default is not None:
        return default
    near = difflib.get_close_matches(name, environment, n=1, cutoff=0.8)
    raise Unexpanded(f"needs the variable {name}, which the environment does not have", near[0] if near else "")
