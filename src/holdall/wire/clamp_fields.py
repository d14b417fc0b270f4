"""The fields of what tools return: dictionaries, pydantic models, dataclasses, anything with attributes.

A value is never changed; `with_field` gives a copy. Nothing here knows what a field means.
"""

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any, cast


def field(value: object, *names: str) -> object:
    """The first of these fields that is there; None where there is none."""
    for name in names:
        if isinstance(value, Mapping):
            found: object = cast("Mapping[str, object]", value).get(name)
        else:
            try:
                found = getattr(value, name, None)
            except Exception:  # a property of a foreign object may do anything, and the clamp must hold
                found = None
        if found is not None:
            return found
    return None


def with_field(value: object, name: str, new: object) -> object:
    """A copy of `value` in which this field is `new`; all others are the same objects."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        copied = copy.copy(mapping) if isinstance(mapping, MutableMapping) else dict(mapping)
        cast("MutableMapping[str, object]", copied)[name] = new
        return copied
    foreign: Any = value
    try:
        if callable(getattr(foreign, "model_copy", None)):  # pydantic
            return foreign.model_copy(update={name: new})
        if callable(getattr(foreign, "_replace", None)):  # named tuples
            return foreign._replace(**{name: new})
        copied = copy.copy(foreign)
        object.__setattr__(copied, name, new)  # a frozen dataclass refuses its own way of setting
        if copied is not foreign and getattr(copied, name) is new:
            return copied
    except Exception:  # noqa: S110 - what cannot be copied is told as a dictionary, below
        pass
    return {**getattr(foreign, "__dict__", {}), name: new}
