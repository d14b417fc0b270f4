"""The "Non-Negotiable Constraints" of S0 that apply here, each by its words."""

import re
import tomllib
from pathlib import Path

import pytest

from holdall.agent import loop

ROOT = Path(__file__).parents[2]


def _contracts() -> dict[str, dict[str, list[str]]]:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return {one["name"]: one for one in tomllib.loads(text)["tool"]["importlinter"]["contracts"]}


def test_all_features_must_be_tested_across_main_components() -> None:
    """The suite itself fails where a requirement has no test; here: no gap of the runtime or of extraction is left."""
    open_gaps = [
        file.name
        for file in (ROOT / "tests" / "requirements").glob("*.toml")
        for gap in re.findall(r'^gap = "(.*)"$', file.read_text("utf-8"), re.MULTILINE)
        if gap in ("extraction", "session runtime")
    ]
    assert open_gaps == []


def test_tool_output_must_remain_isolated() -> None:
    """Extraction lies below the bag and the runtime, and no edge reaches into it."""
    layers = [layer.strip("()") for layer in _contracts()["Layers: data flows one way"]["layers"]]
    assert layers.index("extract") > layers.index("bag")
    assert "holdall.extract" in _contracts()["Edges reach the inside through the bag"]["forbidden_modules"]
    assert "holdall.agent" in _contracts()["Edges reach the inside through the bag"]["source_modules"]


def test_core_loops_must_not_grow() -> None:
    assert len(Path(loop.__file__).read_text("utf-8").splitlines()) < 150


@pytest.mark.parametrize(
    ("constraint", "test"),
    [
        ("tool_output accounting must be aggregated at the session level", "test_the_tree_is_a_fold_over_the_log"),
        ("opTree + snapshots must include tool_output sub-agent and extraction LLM calls", 'extraction["children"]'),
    ],
)
def test_accounting_and_tree_are_proved_by_the_stories(constraint: str, test: str) -> None:
    assert test in (ROOT / "tests" / "agent" / "test_stories.py").read_text("utf-8"), constraint


@pytest.mark.parametrize("mode", ["auto", "full-chunked", "read-grep", "truncate"])
def test_a_real_model_covers_all_modes(mode: str) -> None:
    """Phase 3 Tier1."""
    assert f'"{mode}"' in (ROOT / "tests" / "model" / "test_extraction.py").read_text("utf-8")
