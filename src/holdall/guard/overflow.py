"""Whether an exception means that the request was too long for the model, whichever library raised it.

It looks at what errors of HTTP clients and of the providers' libraries carry (a status, a code, a body, a response),
at their causes and at the members of groups, and imports none of these libraries. What the words mean is decided by
`policy.overflow`. Nothing here is raised, changed or asked again.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from holdall.policy.overflow import Overflow, in_one_line, overflow_in, words_in
from holdall.values.errors import ModelOverflow

__all__ = ["Overflow", "is_overflow"]

_MOST_ERRORS = 32  # of a chain
_MOST_VALUES = 200  # of a body
_DEEPEST = 8
_LONGEST = 16 * 1024
_STATUS = ("status_code", "status", "http_status", "code")
_CODE = ("code", "type", "error_code", "provider_error_code", "provider_error_type", "reason")
_WORDS = ("message", "body", "details", "detail", "error", "response")
_TEXTS = ("message", "Message", "detail", "error", "Error")  # where a body has its sentence


def is_overflow(error: BaseException) -> Overflow | None:
    """What it says of the length; None where it is about something else. A cancellation is never one."""
    if not isinstance(error, Exception):
        return None
    for one in itertools.islice(_chain(error), _MOST_ERRORS):
        if found := _judged(one):
            return found
    return None


def _judged(error: BaseException) -> Overflow | None:
    if isinstance(error, ModelOverflow):
        return overflow_in(str(error)) or Overflow("", in_one_line(str(error)))
    carried = [value for name in _WORDS if (value := _attribute(error, name)) is not None]
    values = list(itertools.islice(itertools.chain.from_iterable(map(_flat, carried)), _MOST_VALUES))
    said = "\n".join([_text_of(error)[:_LONGEST], *(f"{name}: {value}" for name, value in values)])
    codes = [*_codes(error), *(value for name, value in values if name.lower() in _CODE)]
    found = overflow_in(said, status=_status(error), codes=codes)
    if found is None:
        return None
    sentences = [text for value in carried if (text := _sentence(value))] or [_text_of(error)]
    shown = next((text for text in (*sentences, *(value for _, value in values)) if words_in(text)), sentences[0])
    return replace(found, message=in_one_line(shown) or found.message)


# What an error carries


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, the members of a group, and what each came from, every one once."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if before is not None:
            waiting.append(before)


def _status(error: BaseException) -> int | None:
    response = _attribute(error, "response")
    for holder in (error, response):
        for name in _STATUS:
            value = _attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return value
    metadata = _member(_member(response, "ResponseMetadata"), "HTTPStatusCode")  # AWS
    return metadata if isinstance(metadata, int) else None


def _codes(error: BaseException) -> list[str]:
    names = [one.__name__ for one in type(error).__mro__]
    given = (_attribute(error, name) for name in _CODE)
    return [*(value for value in given if isinstance(value, str) and value), *names]


def _sentence(body: object, depth: int = 0) -> str:
    """What the provider says, without what is around it; empty where the body is no object with such a sentence."""
    inner = [value for name in _TEXTS if (value := _member(body, name)) is not None] if depth < _DEEPEST else []
    texts = (value if isinstance(value, str) else _sentence(value, depth + 1) for value in inner)
    return next((text for text in texts if text), "")


def _flat(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text and number of a body with its name. Of a response, its text; of all other objects, nothing."""
    if depth > _DEEPEST or value is None:
        return
    if isinstance(value, str | int | float):
        yield name, str(value)[:_LONGEST]
    elif isinstance(value, bytes | bytearray):
        yield name, bytes(value[:_LONGEST]).decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _flat(inner, str(key)[:100], depth + 1)
    elif isinstance(value, Sequence):
        for inner in cast("Sequence[object]", value):
            yield from _flat(inner, name, depth + 1)
    elif depth == 0 and isinstance(text := _attribute(value, "text"), str):
        yield name, text[:_LONGEST]


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def _attribute(holder: object, name: str) -> Any:
    """None where it is not there or cannot be read: the body of a stream that nobody has read raises."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error's own text may fail, and this is no place to fail with it
        return ""
