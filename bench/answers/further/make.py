"""`python -m bench.answers.further.make FOLDER [OUTPUT…]`: makes the outputs, and the questions about exactly them.

FOLDER gets `artifacts/`, `manifest.json` and `tasks.jsonl`, in the form of the benchmark's own collection. Without an
OUTPUT it makes all of them. With `--keep` what is there already stays, and only the questions are computed anew.
A tool that is missing, and a question that would be vacuous, are said and left out. Nothing is judged here.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.answers.further import on_builds, on_data, on_logs
from bench.answers.further.asked import QUESTIONS, Asked, Question, Vacuous
from bench.answers.further.outputs import RECIPES, Missing, Recipe

MODULES = (on_data, on_logs, on_builds)  # importing them fills QUESTIONS
LISTED = 200  # ranges of evidence; of more, the end of the last one is told


def make(folder: Path, recipes: Sequence[Recipe], *, keep: bool = False) -> None:
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    manifest: list[dict[str, Any]] = []
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="further-") as work:
        Path(work).chmod(0o755)  # a server that refuses root works below it as somebody else
        for recipe in recipes:
            file = folder / "artifacts" / f"{recipe.id}.{recipe.ending}"
            try:
                data = file.read_bytes() if keep and file.exists() else recipe.make(Path(work))
            except Missing as reason:
                print(f"{recipe.id}: not made: {reason}", file=sys.stderr)
                continue
            file.write_bytes(data)
            manifest.append(described(recipe, data))
            lines += [json.dumps(task, ensure_ascii=False) for task in tasks(recipe.id, data)]
            print(f"{recipe.id}: {len(data):,} bytes")
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    (folder / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def described(recipe: Recipe, data: bytes) -> dict[str, Any]:
    return {
        "id": recipe.id,
        "file": f"artifacts/{recipe.id}.{recipe.ending}",
        "source": "bench/answers/further",
        "kind": recipe.kind,
        "tool": recipe.tool,
        "bytes": len(data),
        "lines": data.count(b"\n"),
        "max_line_bytes": max(map(len, data.split(b"\n"))),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def tasks(output: str, data: bytes) -> Iterator[dict[str, Any]]:
    """The questions about an output, with the answers that its bytes give."""
    for number, question in enumerate((each for each in QUESTIONS if each.output == output), 1):
        try:
            asked = question.ask(data)
        except (Vacuous, IndexError, KeyError, StopIteration, ValueError) as reason:
            print(f"{output}-{number:02}: left out: {reason!r}", file=sys.stderr)
            continue
        yield {"id": f"{output}-{number:02}", "artifact": output, **_task(question, asked, len(data))}


def _task(question: Question, asked: Asked, size: int) -> dict[str, Any]:
    where = sorted(asked.where)
    first = where[0][0] if where else None
    last = max(end for _, end in where) if where else None
    return {
        "type": question.type,
        "category": question.category,
        "question": asked.question,
        "gold": asked.gold,
        "where": where[:LISTED],
        "n_evidence": len(where),
        "evidence_min": first,
        "evidence_max": last,
        "rel_pos": None if first is None else round(first / size, 4),
        "rel_pos_last": None if last is None else round(last / size, 4),
        "require": "all" if where else "whole",
        "verify_a": question.ask.__name__,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the further outputs, and the questions about them.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", nargs="*", help="only these")
    parser.add_argument("--keep", action="store_true", help="do not make what is there already")
    options = parser.parse_args(arguments)
    unknown = set(options.output) - {recipe.id for recipe in RECIPES}
    if unknown:
        parser.error(f"no such output: {', '.join(sorted(unknown))}")
    make(
        options.folder,
        [recipe for recipe in RECIPES if not options.output or recipe.id in options.output],
        keep=options.keep,
    )


if __name__ == "__main__":
    main()
