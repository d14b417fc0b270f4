"""The diagram of docs/slow.md is drawn from the table. `python -m tests.docs.test_lifecycle_page` draws it anew."""

from pathlib import Path

from holdall.policy.lifecycle import diagram

PAGE = Path(__file__).parents[2] / "docs" / "slow.md"
BEGIN, END = "<!-- lifecycle: begin -->\n", "<!-- lifecycle: end -->"


def drawn(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}```mermaid\n{diagram()}\n```\n{END}{after}"


def test_the_diagram_of_the_page_is_that_of_the_table() -> None:
    text = PAGE.read_text("utf-8")
    assert drawn(text) == text


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
