"""docs/settings.md lists every setting, and the list is made from the settings themselves."""

from dataclasses import fields
from pathlib import Path

from holdall.values.settings import Settings, default_of, rule_of

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def table() -> str:
    rows = ["| setting | default | what it is for | also called |", "|---|---|---|---|"]
    for one in fields(Settings):
        default = default_of(one)
        shown = "–" if default in (None, "") else f"{default:,}" if isinstance(default, int | float) else f"`{default}`"
        also = ", ".join(f"`{name}`" for name in one.metadata["also"]) or ""
        about = f"{one.metadata['about']}; {rule_of(one).replace('it must be', 'must be')}"
        rows.append(f"| `{one.name}` | {shown} | {about} | {also} |")
    return "\n".join(rows)


def test_the_page_has_the_table_of_all_settings() -> None:
    assert table() in PAGE.read_text("utf-8"), f"docs/settings.md should have this table:\n\n{table()}"
