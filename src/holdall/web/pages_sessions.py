"""The first page: every session, newest first, a page at a time, with what it kept and what it took."""

import asyncio
import math
import time
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdall.bag.overview import Listed
from holdall.values.errors import WrongUse
from holdall.web.house import house_of, render

PAGE = 50
_LONGEST_SEARCH = 200


async def sessions(request: Request) -> Response:
    """What is not known yet of a session is fetched by the page itself, once it is shown."""
    listed, search = await _listed(request, seconds=0.02)
    return render(request, "sessions.html", **_values(listed, search))


async def rows(request: Request) -> Response:
    """The same list with everything that there is to know."""
    listed, search = await _listed(request, seconds=math.inf)
    return render(request, "sessions_list.html", **_values(listed, search))


async def totals(request: Request) -> Response:
    total, unknown = await asyncio.to_thread(house_of(request).overview.totals)
    return render(request, "sessions_totals.html", total=total, unknown=unknown)


async def _listed(request: Request, *, seconds: float) -> tuple[Listed, str]:
    search = request.query_params.get("q", "")[:_LONGEST_SEARCH]
    page = _page(request.query_params.get("page", "1"))
    overview = house_of(request).overview
    listed = await asyncio.to_thread(overview.page, search=search, start=(page - 1) * PAGE, count=PAGE, seconds=seconds)
    return listed, search


def _values(listed: Listed, search: str) -> dict[str, Any]:
    page = listed.start // PAGE + 1
    last = max(1, math.ceil(listed.total / PAGE))
    return {
        "listed": listed, "search": search, "page": page, "last": last, "now": time.time(),
        "here": _address(search, page), "before": _address(search, page - 1) if page > 1 else "",
        "after": _address(search, page + 1) if page < last else "",
    }  # fmt: skip


def _address(search: str, page: int) -> str:
    """What stands after the question mark."""
    asked = {"q": search} if search else {}
    return urlencode(asked | ({"page": str(page)} if page > 1 else {}))


def _page(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= len(text) <= 6 or int(text) < 1:
        raise WrongUse("a page is a number, from 1.")
    return int(text)


routes = [
    Route("/", sessions, name="sessions"),
    Route("/sessions/rows", rows, name="sessions_rows"),
    Route("/sessions/totals", totals, name="sessions_totals"),
]
