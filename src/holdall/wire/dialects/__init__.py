"""The dialects that ship, by name. Nothing else compares a dialect by its name: what differs is a field of it."""

from collections.abc import Mapping

from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect
from holdall.wire.dialects.async_dialect import ASYNC
from holdall.wire.dialects.cutting import CLAMP, LEGACY
from holdall.wire.dialects.extract_dialect import EXTRACT
from holdall.wire.dialects.own import HOLDALL
from holdall.wire.dialects.refs import REFS

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (HOLDALL, EXTRACT, REFS, ASYNC, CLAMP, LEGACY)}


def dialect_of(settings: Settings) -> Dialect:
    """The one that the settings name, or what stands in for it where no call may go to the background."""
    named = DIALECTS[settings.dialect]
    return named if settings.async_enabled else named.without_background or named
