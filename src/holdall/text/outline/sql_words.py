"""Names of columns as SQL takes them: bare where that is possible, else in quotes."""

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}", re.ASCII)
# What DuckDB reserves.
_WORDS = """
all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create default
deferrable desc describe distinct do else end except false fetch for foreign from grant group having in initially
intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer pivot_wider placing
primary qualify references returning select show some summarize symmetric table then to trailing true union unique
unpivot using variadic when where window with
"""
_RESERVED = frozenset(_WORDS.split())


def column(name: str) -> str:
    """`name` in a statement."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def by_value(name: str, more: str = "") -> str:
    """How often each value of a column occurs."""
    return f"select {name}, count(*){more} from t group by 1 order by 2 desc"  # noqa: S608 - a text to read
