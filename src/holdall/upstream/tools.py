"""The tools that a server lists, page by page, as it describes them, and the headers that some of them ask for.

Entries that are no tools are left out and logged. Descriptions are data of somebody else's: nothing here reads them.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.text.escape import one_line
from holdall.upstream.sdk import find_invalid_x_mcp_header, mcp_param_headers, types, x_mcp_header_map
from holdall.values.errors import UpstreamFault, UpstreamRefused

_LOG = logging.getLogger("holdall.upstream")
_MOST_PAGES = 1000

Fetch = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Listing:
    """`tools` are the entries as they came, in their order."""

    tools: tuple[dict[str, Any], ...] = ()
    _headers: Mapping[str, Mapping[tuple[str, ...], str]] = field(default_factory=dict[str, Any])

    def headers(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """What a call of this tool repeats of its arguments in HTTP headers (from 2026-07-28 on)."""
        wanted = self._headers.get(tool)
        return mcp_param_headers(wanted, arguments) if wanted else {}


async def listing(server: str, fetch: Fetch, *, modern: bool) -> Listing:
    """Raises UpstreamFault. A server that knows no `tools/list` has no tools."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            page = await fetch({} if cursor is None else {"cursor": cursor})
        except UpstreamRefused as refusal:
            if refusal.code == types.METHOD_NOT_FOUND and not found:
                return Listing()
            raise
        entries = page.get("tools")
        found += _tools(server, cast("list[object]", entries) if isinstance(entries, list) else [], modern=modern)
        following = page.get("nextCursor")
        if not isinstance(following, str) or following == cursor:
            return Listing(tuple(found), _header_maps(found) if modern else {})
        cursor = following
    raise UpstreamFault(
        server, f"lists tools without end: {_MOST_PAGES:,} pages", way_out="Report it to whoever wrote that server."
    )


def _tools(server: str, entries: list[object], *, modern: bool) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for entry in entries:
        tool = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            _LOG.warning('MCP server "%s" lists a tool without a name; it is left out', one_line(server, 60))
        elif modern and (reason := find_invalid_x_mcp_header(tool.get("inputSchema"))) is not None:
            # The protocol wants it so: such a tool could only be called in a way that its server refuses.
            words = one_line(name, 60), one_line(server, 60), one_line(reason, 120)
            _LOG.warning('tool "%s" of MCP server "%s" is left out: %s', *words)
        else:
            kept.append(tool)
    return kept


def _header_maps(tools: list[dict[str, Any]]) -> dict[str, Mapping[tuple[str, ...], str]]:
    maps = {tool["name"]: x_mcp_header_map(tool.get("inputSchema")) for tool in tools}
    return {name: one for name, one in maps.items() if one}
