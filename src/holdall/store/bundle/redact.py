"""Masks the secrets of a session while it is exported, so that what is left fits together.

A mask has as many bytes as what it hides, so every range and every line stays true. Where bytes of an output are
masked its hash changes, and with it every place that names the hash: records, notes, logs. So nobody can find a masked
secret by trying which one gives the old hash. This module changes nothing in the store, and keeps no secret.
"""

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from holdall.store.records import resealed, whole_lines
from holdall.text.secrets import Find, Finding, Masker, json_findings, masked
from holdall.values.bundles import Mask
from holdall.values.errors import MissingExtra
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern

_PLACES = 1000  # that are told to anyone who exports; the bundle has all of them
_FIELDS = ("tool", "server", "arguments", "call_id", "traceback", "error", "notes")
_HASH = lazy_pattern(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Rules(Protocol):
    """What is taken for a secret."""

    def find(self, data: bytes) -> list[Finding]: ...

    def is_secret(self, name: str) -> bool: ...


def usual_rules() -> Rules:
    try:
        rules: Rules = importlib.import_module("holdall.store.bundle.rules").Rules()
    except ModuleNotFoundError as problem:
        packages = {"detect_secrets": "detect-secrets", "re2": "google-re2"}
        package = packages.get((problem.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingExtra(package, "redact", "exporting a session without its secrets") from problem
    return rules


class Redactor:
    """For one export. Sessions come one after the other, each with its outputs before all else."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._find: Find = rules.find
        self.counts: Counter[str] = Counter()
        self.places: list[Mask] = []
        self._lines_of_masks: list[bytes] = []
        self._hashes: dict[bytes, bytes] = {}  # of contents that were masked: as it was, as it is
        self._last = 0  # masks in the bytes that passed by last

    def begin(self) -> None:
        """Another session."""
        self._lines_of_masks.clear()

    def list(self) -> bytes:
        """Where something was masked in this session, one JSON object a line."""
        return b"".join(self._lines_of_masks)

    # Outputs

    def stream(self, chunks: Iterable[bytes], file: str, handle: str) -> Iterator[bytes]:
        masker = Masker(self._find)
        yield from masker.stream(chunks)
        self._last = len(masker.findings)
        self._note(masker.findings, file, handle)

    def masked(self, before: str, after: str) -> int:
        """How much was masked in the bytes that just passed by. Their hash is another one from here on."""
        if self._last and before and before != after:
            self._hashes[before.encode("ascii")] = after.encode("ascii")
        return self._last

    def facts(self, facts: Facts) -> Facts:
        """Its arguments, its error and so on; what it measures was measured again already."""
        known = self._hashes.get(facts.measure.sha256.encode("ascii", "replace"))
        if known is not None:  # a tombstone of what was masked elsewhere
            facts = replace(facts, measure=replace(facts.measure, sha256=known.decode("ascii")))
        flat = facts.to_json()
        told = {name: flat[name] for name in _FIELDS}
        data = json.dumps(told, ensure_ascii=True, default=str).encode("ascii")
        changed: dict[str, Any] = json.loads(self._changed(data, f"{facts.handle}.record", facts.handle))
        if changed == told:
            return facts
        origin = {name: changed[name] for name in ("tool", "server", "arguments", "call_id", "traceback")}
        return replace(
            facts,
            origin=replace(facts.origin, **origin),
            measure=replace(facts.measure, notes=tuple(changed["notes"])),
            error=changed["error"],
        )

    # Files of JSON

    def json(self, data: bytes, file: str) -> bytes:
        return self._changed(data, file)

    def lines(self, chunks: Iterable[bytes], file: str, version: int) -> Iterator[bytes]:
        """Line by line, as many bytes as came. Notes the place of each mask in the whole file."""
        at = 0
        for line in whole_lines(chunks):
            yield resealed(line, partial(self._changed, file=file, at=at), version)
            at += len(line)

    def renamed(self, note: str) -> str:
        """The name of a note about a content that was masked."""
        content, _, key = note.partition("-")
        return f"{self._hashes.get(content.encode('ascii'), content.encode('ascii')).decode('ascii')}-{key}"

    # Inside

    def _changed(self, data: bytes, file: str, handle: str = "", *, at: int = 0) -> bytes:
        found = json_findings(data, self._find, self._rules.is_secret)
        self._note(found, file, handle, at=at)
        data = masked(data, found)
        return _HASH.sub(lambda match: self._hashes.get(match[0], match[0]), data) if self._hashes else data

    def _note(self, found: Iterable[Finding], file: str, handle: str, *, at: int = 0) -> None:
        for start, end, kind in found:
            mask = Mask(kind, file, handle, start + at, end + at)
            self.counts[kind] += 1
            if len(self.places) < _PLACES:
                self.places.append(mask)
            self._lines_of_masks.append(json.dumps(mask.to_json(), separators=(",", ":")).encode("ascii") + b"\n")
