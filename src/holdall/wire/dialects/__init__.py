"""The dialects by name: each is imported when it is used. Nothing else compares a dialect by its name: what differs is
a field of it. `values.settings.DIALECTS` lists them, because a setting is checked before anything else is imported.
"""

import importlib
from collections.abc import Iterator, Mapping

from holdall.values import settings as declared
from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect


class _Dialects(Mapping[str, Dialect]):
    def __getitem__(self, name: str) -> Dialect:
        module, _, value = declared.DIALECTS[name].partition(":")
        return getattr(importlib.import_module(f"{__name__}.{module}"), value)

    def __iter__(self) -> Iterator[str]:
        return iter(declared.DIALECTS)

    def __len__(self) -> int:
        return len(declared.DIALECTS)


DIALECTS = _Dialects()


def dialect_of(settings: Settings) -> Dialect:
    """The one that the settings name, or what stands in for it: without the background, without dots in its names."""
    named = DIALECTS[settings.dialect]
    named = named if settings.async_enabled else named.without_background or named
    return named.plain or named if settings.plain_tool_names else named
