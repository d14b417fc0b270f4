"""The dialects that ship, by name. Their limits have their home in `policy.limits`."""

from collections.abc import Mapping

from holdall.wire.dialect import Dialect
from holdall.wire.dialects.async_dialect import ASYNC
from holdall.wire.dialects.cutting import CLAMP, LEGACY
from holdall.wire.dialects.extract_dialect import EXTRACT
from holdall.wire.dialects.own import HOLDALL
from holdall.wire.dialects.refs import REFS

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (HOLDALL, EXTRACT, REFS, ASYNC, CLAMP, LEGACY)}
