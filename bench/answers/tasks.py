"""The real outputs and the questions about them, as they lie in `../shared/bench`. Nothing is judged here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdall.values.spans import Span

# What is looked up, against what is computed over a whole output or proved to be nowhere in it.
LOOKUPS = ("needle", "multi-needle", "json-path", "around-anchor", "latest", "earliest")


class NoTasks(Exception):
    """There is not a folder with outputs and questions."""


@dataclass(frozen=True, slots=True)
class Output:
    id: str
    tool: str
    data: bytes
    file: str = ""  # its name

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @property
    def content(self) -> str | bytes:
        """As a tool returns it: a text, or bytes that are none."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            return self.data


@dataclass(frozen=True, slots=True)
class Task:
    """A question, and what only the judge may know of its answer."""

    id: str
    output: str
    type: str
    question: str
    gold: tuple[str, ...]
    where: tuple[Span, ...]
    require: str  # "all" ranges, "any" of them, or the "whole" output
    last: int | None = None  # where the last piece of evidence ends; not all of many are listed in `where`
    absent: str = ""  # the text that is proved not to be there

    @property
    def is_lookup(self) -> bool:
        return self.type in LOOKUPS


@dataclass(frozen=True, slots=True)
class Collection:
    outputs: Mapping[str, Output]
    tasks: tuple[Task, ...]


def load(folder: Path) -> Collection:
    manifest, questions = folder / "manifest.json", folder / "tasks.jsonl"
    if not (manifest.is_file() and questions.is_file()):
        raise NoTasks(f"no outputs with questions there ({manifest.name} and {questions.name} are missing)")
    outputs = {
        entry["id"]: Output(entry["id"], entry["tool"], (folder / entry["file"]).read_bytes(), Path(entry["file"]).name)
        for entry in json.loads(manifest.read_text("utf-8"))
    }
    lines = questions.read_text("utf-8").splitlines()
    return Collection(outputs, tuple(_task(json.loads(line)) for line in lines if line.strip()))


def _task(entry: Mapping[str, Any]) -> Task:
    gold: str | list[str] = entry["gold"]
    return Task(
        id=entry["id"],
        output=entry["artifact"],
        type=entry["type"],
        question=entry["question"],
        gold=(gold,) if isinstance(gold, str) else tuple(gold),
        where=tuple(Span(start, end) for start, end in entry["where"]),
        require=entry["require"],
        last=entry.get("evidence_max"),
        absent=entry["verify_a"].partition(" of ")[2] if entry["type"] == "absent" else "",
    )
