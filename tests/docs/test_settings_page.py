"""docs/settings.md lists every setting, for all tools and for one, and the lists are made from the settings themselves."""

from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from holdall.values.settings import Settings, ToolPolicy, default_of, rule_of

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def table(of: type[Settings] | type[ToolPolicy]) -> str:
    rows = ["| setting | default | what it is for | also called |", "|---|---|---|---|"]
    for one in fields(of):
        also = ", ".join(f"`{name}`" for name in one.metadata["also"]) or ""
        about = f"{one.metadata['about']}; {rule_of(one).replace('it must be', 'must be')}"
        rows.append(f"| `{one.name}` | {_default(one)} | {about} | {also} |")
    return "\n".join(rows)


def _default(one: "Field[Any]") -> str:
    default = default_of(one)
    if default in (None, "", {}):
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"{default:,}" if isinstance(default, int | float) else f"`{default}`"


@pytest.mark.parametrize("of", [Settings, ToolPolicy])
def test_the_page_has_the_table_of_all_settings(of: type[Settings] | type[ToolPolicy]) -> None:
    assert f"\n{table(of)}\n" in PAGE.read_text("utf-8"), f"docs/settings.md should have this table:\n\n{table(of)}"
