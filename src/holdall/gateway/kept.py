"""`resources/read` of what is kept: `holdall://SESSION/HANDLE`, whole or a range of it, in the client's own session.

A link into another session and one to nothing get the same answer.
"""

import base64
from typing import Any

from holdall.bag import Holdall
from holdall.gateway.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND, Refusal
from holdall.text.numbers import plural
from holdall.values.errors import HoldallError, StoreFault
from holdall.wire.notes import SCHEME, link_parts, media_type_of

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer: more has to be asked for in ranges."""


def is_ours(uri: object) -> bool:
    return isinstance(uri, str) and uri.lower().startswith(f"{SCHEME}:")


async def read(bag: Holdall, uri: str) -> dict[str, Any]:
    """Raises Refusal."""
    try:
        session, handle, ranges = link_parts(uri) or ("", "", {})
    except ValueError as problem:
        raise Refusal(INVALID_PARAMS, str(problem), {"uri": uri[:500]}) from problem
    unknown = Refusal(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri[:500]})
    if session != bag.session.id or not handle:
        raise unknown
    try:
        facts = await bag.show(handle)
    except StoreFault as fault:
        raise Refusal(RESOURCE_NOT_FOUND, str(fault), {"uri": uri[:500]}) from fault
    except HoldallError as problem:
        raise unknown from problem
    try:
        found = await bag.find(handle, **(ranges or {"bytes": ":"}))
        size = found.bytes.end - found.bytes.start
        if size > MOST_BYTES:
            raise only_in_ranges(uri, size, MOST_BYTES, "one answer")
        data = b"".join([chunk async for chunk in bag.stream(handle, found.bytes)])
    except StoreFault as fault:
        raise Refusal(RESOURCE_NOT_FOUND, str(fault), {"uri": uri[:500]}) from fault
    except HoldallError as problem:
        raise Refusal(INVALID_PARAMS, str(problem), {"uri": uri[:500]}) from problem
    return {"contents": [{"uri": uri, "mimeType": media_type_of(facts), **_content(data)}]}


def only_in_ranges(uri: str, size: int, most: int, holder: str) -> Refusal:
    """`most` is how large a range may be."""
    words = f"{plural(size, 'byte')} are more than {holder} holds ({most:,}). Read it in ranges: ?bytes=0:{most}"
    return Refusal(INVALID_PARAMS, words, {"uri": uri[:500], "size": size})


def _content(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:  # it is no text, or the range cuts through a character
        return {"blob": base64.b64encode(data).decode()}
