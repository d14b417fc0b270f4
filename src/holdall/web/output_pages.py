"""The page of one output, and what its scripts ask for. Everything is a GET that changes nothing.

A page is small and the same for every size: rows, trees and tables come as they are looked at. Answers for scripts are
JSON in ASCII; a refusal has the words of whoever refused. The bytes themselves are only ever sent as a download.
"""

import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from holdall.bag import Holdall
from holdall.text.ranges import whole_number
from holdall.values.errors import BadRange, HoldallError, NothingFound, StoreFault, UnknownHandle
from holdall.values.outputs import Facts
from holdall.values.spans import Span, Totals
from holdall.web import output_asking as asking
from holdall.web.house import house_of, render
from holdall.web.output_notice import notice_of
from holdall.web.output_quotes import questions_about
from holdall.web.output_rows import WAYS, By
from holdall.web.output_tree import Place

_LONG_LINES = 1000  # bytes of an average line from which on an output is shown by bytes
_TREE_SECONDS, _MORE_SECONDS = 2.0, 30.0
_ENDINGS = {
    "json": "json",
    "ndjson": "ndjson",
    "csv": "csv",
    "log": "log",
    "markdown": "md",
    "diff": "diff",
    "binary": "bin",
}
_ADDRESS = "/s/{session}/o/{handle}"
_Ask = Callable[[Request, Holdall, str], Awaitable[dict[str, Any]]]


async def page(request: Request) -> Response:
    async with house_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(request.path_params["handle"])
        coverage = await bag.coverage(facts.handle)
        total, gone = await asking.totals(bag, facts)
        return render(
            request, "output.html", session=bag.session, facts=facts, total=total, gone=gone,
            by=_best_way(facts, total), seen=coverage.share(total.bytes), retrievals=coverage.retrievals,
            views=[] if gone else await asking.views(bag, facts), base=f"/s/{bag.session.id}/o/{facts.handle}",
            arguments=_written(facts.origin.arguments),
        )  # fmt: skip


async def notice(request: Request) -> Response:
    async with house_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(request.path_params["handle"])
        return render(request, "output_notice.html", facts=facts, notice=await notice_of(bag, facts))


async def quotes(request: Request) -> Response:
    async with house_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(request.path_params["handle"])
        base = f"/s/{bag.session.id}/o/{facts.handle}"
        return render(request, "output_quotes.html", questions=await questions_about(bag, facts), base=base)


async def raw(request: Request) -> Response:
    """The bytes exactly as they are kept, never as something that a browser would show."""
    async with house_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(request.path_params["handle"])
        size = (await asking.so_far(bag, facts.handle)).bytes
    name = f"{facts.handle}.{_ENDINGS.get(facts.measure.kind, 'txt')}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "accept-ranges": "bytes"}
    try:
        asked = _range_of(request.headers.get("range", ""), size)
    except BadRange:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{size}"})
    span = asked or Span(0, size)
    headers["content-length"] = str(span.end - span.start)
    if asked:
        headers["content-range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    status = 206 if asked else 200
    if request.method == "HEAD" or span.start == span.end:
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    return StreamingResponse(_bytes(request, facts, span), status, headers, media_type="application/octet-stream")


async def _bytes(request: Request, facts: Facts, span: Span) -> AsyncIterator[bytes]:
    async with house_of(request).session(request.path_params["session"]) as bag:
        async for chunk in bag.stream(facts.handle, span):
            yield chunk


def _told(ask: _Ask) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers in JSON, whatever happens."""

    @functools.wraps(ask)
    async def endpoint(request: Request) -> Response:
        try:
            async with house_of(request).session(request.path_params["session"]) as bag:
                facts = await bag.show(request.path_params["handle"])
                return _json(await ask(request, bag, facts.handle))
        except (NothingFound, UnknownHandle) as problem:
            return _json({"error": str(problem)}, 404)
        except HoldallError as problem:
            return _json({"error": str(problem)}, 500 if isinstance(problem, StoreFault) else 400)

    return endpoint


@_told
async def rows(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    by = request.query_params.get("by", "lines")
    if by not in WAYS:
        raise BadRange(f"rows are shown by {', '.join(WAYS)}.")
    first, count, width = (_number(request, *one) for one in (("from", 0), ("count", 100), ("width", 128)))
    return await asking.rows(bag, handle, cast("By", by), first or 0, count or 1, width or 1)


@_told
async def place(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.place(bag, handle, line=_number(request, "line"), byte=_number(request, "byte"))


@_told
async def search(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    asked = request.query_params
    return await asking.search(
        bag, handle, asked.get("q", ""), ignore_case="case" not in asked, literal="pattern" not in asked,
        start=_number(request, "start", 0) or 0,
    )  # fmt: skip


@_told
async def changes(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.changes(bag, handle, _number(request, "bytes", -1, least=-1) or 0)


@_told
async def seen(_request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.seen(bag, handle)


@_told
async def tree(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    byte, index = _number(request, "after"), _number(request, "index", 0)
    after = None if byte is None else Place(byte, index or 0)
    seconds = _MORE_SECONDS if "patient" in request.query_params else _TREE_SECONDS
    return await asking.tree(bag, handle, _number(request, "at"), after, seconds)


@_told
async def table(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.table(bag, handle, _number(request, "from", 2) or 2, _number(request, "count", 100) or 1)


@_told
async def query(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    asked = request.query_params
    return await asking.query(bag, handle, asked.get("sql", ""), asked.get("at"))


def _json(value: dict[str, Any], status: int = 200) -> Response:
    body = json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)
    return Response(body, status, media_type="application/json")


def _number(request: Request, name: str, usual: int | None = None, *, least: int = 0) -> int | None:
    given = request.query_params.get(name)
    if given is None:
        return usual
    try:
        return whole_number(int(given[:20]), name=name, least=least)
    except ValueError:
        raise BadRange(f"{name} is a whole number, not {given[:40]!r}.") from None


def _range_of(header: str, size: int) -> Span | None:
    """One range of RFC 9110. None where there is none, or one that may be ignored. BadRange past the end."""
    unit, _, spec = header.partition("=")
    first, dash, last = spec.strip().partition("-")
    if (
        unit.strip() != "bytes"
        or not dash
        or not all(part.isascii() and (part.isdigit() or not part) for part in (first, last))
    ):
        return None
    if not first:
        if not last:
            return None
        span = Span(max(0, size - int(last[:18])), size)
    else:
        span = Span(int(first[:18]), min(size, int(last[:18]) + 1) if last else size)
        if last and int(last[:18]) < span.start:
            return None
    if span.start >= span.end:
        raise BadRange("the range is past the end.")
    return span


def _best_way(facts: Facts, total: Totals) -> str:
    """By lines where lines are what they should be."""
    is_long = total.bytes > _LONG_LINES * max(1, total.lines)
    return "bytes" if is_long or facts.measure.kind == "binary" else "lines"


def _written(arguments: object) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2, ensure_ascii=False, default=str)


_SCRIPTS = {
    "rows": rows, "place": place, "search": search, "changes": changes, "seen": seen, "tree": tree, "table": table,
    "query": query,
}  # fmt: skip
routes = [
    Route(_ADDRESS, page, name="output"),
    Route(f"{_ADDRESS}/notice", notice, name="output_notice"),
    Route(f"{_ADDRESS}/quotes", quotes, name="output_quotes"),
    Route(f"{_ADDRESS}/raw", raw, name="output_raw"),
    *(Route(f"{_ADDRESS}/{name}", endpoint, name=f"output_{name}") for name, endpoint in _SCRIPTS.items()),
]
