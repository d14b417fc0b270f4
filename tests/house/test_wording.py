"""Everything that a model reads is built in `wire`: no other room has sentences of its own for it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requirements import requirement

BAG = Path(__file__).parents[2] / "src" / "holdall" / "bag"
_WORDS = 4  # so many words in a row are a sentence, not a name


def _sentences(path: Path) -> Iterator[str]:
    """Texts in the code of a module but its docstrings, its errors and what it logs or notes in the facts."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:  # a type in quotes
            skipped |= {id(inner) for inner in ast.walk(node.annotation)}
        error = isinstance(node, ast.Raise)
        log = isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_LOG.")
        fault = isinstance(node, ast.Call) and ast.unparse(node.func) in ("UsageError", "BadReference", "MissingExtra")
        if error or log or fault:
            skipped |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in skipped and len(text.split()) >= _WORDS:
                yield text
            case _:
                pass


@requirement("dialect:core-knows-no-wording")
@pytest.mark.parametrize("path", sorted(BAG.glob("*.py")), ids=lambda path: path.name)
def test_the_bag_has_no_sentence_of_its_own_for_a_model(path: Path) -> None:
    assert list(_sentences(path)) == []


def test_a_sentence_would_be_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""A module."""\n\n\ndef f(x: int) -> str:\n    """Doc of some words here."""\n    return f"Read on at line {x} please."\n'
    )
    assert list(_sentences(module)) == ["Read on at line "]
