"""Answers and findings that were paid for once, as notes: by content, question, model and the version of the prompts.

A note that cannot be read, or is none of ours, is no note. Failures are never remembered.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdall.extract.full_chunked import ChunkFinding
from holdall.values.chat import Usage
from holdall.values.errors import StoreFault
from holdall.values.extraction import Extraction, FailedChunk, Snippet, Spent
from holdall.values.spans import Span
from holdall.wire.findings import Finding
from holdall.wire.prompts import VERSION

_LOG = logging.getLogger("holdall")


@dataclass(frozen=True, slots=True)
class Notes:
    """Where notes about one content are kept. Both block: they are called in a thread."""

    recall: Callable[[str], bytes | None]
    remember: Callable[[str, bytes], None]


NO_NOTES = Notes(lambda _: None, lambda _key, _data: None)


def key_of(*parts: object) -> str:
    told = json.dumps([VERSION, *parts], ensure_ascii=True, default=str)
    return hashlib.sha256(told.encode("ascii")).hexdigest()


def recalled_finding(notes: Notes, key: str) -> ChunkFinding | None:
    flat = _recalled(notes, key)
    try:
        return None if flat is None else _finding(flat)
    except (KeyError, TypeError, ValueError):
        return None


def recalled_answer(notes: Notes, key: str) -> Extraction | None:
    flat = _recalled(notes, key)
    try:
        return None if flat is None else _answer(flat)
    except (KeyError, TypeError, ValueError):
        return None


def remember(notes: Notes, key: str, value: ChunkFinding | Extraction) -> None:
    """Where the store refuses, the answer stands all the same: it is only dearer the next time."""
    try:
        notes.remember(key, json.dumps(value, ensure_ascii=True, default=_fields).encode("ascii"))
    except (StoreFault, OSError) as problem:
        _LOG.warning("an answer could not be remembered: %s", problem)


def _fields(value: Any) -> dict[str, Any]:
    """Of a value of ours, as JSON has them. `asdict` does the same and takes ten times as long."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _recalled(notes: Notes, key: str) -> dict[str, Any] | None:
    try:
        data = notes.recall(key)
        flat = json.loads(data) if data is not None else None
    except (StoreFault, OSError, ValueError):
        return None
    return flat if isinstance(flat, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _finding(flat: dict[str, Any]) -> ChunkFinding:
    fields: dict[str, Any] = flat["finding"] | {"quotes": tuple(flat["finding"]["quotes"])}
    proved = _snippets(flat["snippets"])
    return ChunkFinding(flat["index"], Span(**flat["span"]), Finding(**fields), proved, flat["unchecked"])


def _answer(flat: dict[str, Any]) -> Extraction:
    failed = tuple(FailedChunk(one["index"], Span(**one["span"]), one["why"]) for one in flat["failed"])
    spent = Spent(**(flat["spent"] | {"usage": Usage(**flat["spent"]["usage"])}))
    searched = tuple(Span(**one) for one in flat["searched"])
    proved = _snippets(flat["snippets"])
    whole: dict[str, Any] = flat | {"snippets": proved, "failed": failed, "searched": searched, "spent": spent}
    return Extraction(**whole)


def _snippets(flat: list[dict[str, Any]]) -> tuple[Snippet, ...]:
    found: list[Snippet] = []
    for one in flat:
        fields: dict[str, Any] = one | {"span": Span(**one["span"])}
        found.append(Snippet(**fields))
    return tuple(found)
