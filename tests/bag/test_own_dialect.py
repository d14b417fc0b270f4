"""A dialect of one's own, as docs/dialects.md writes it, in under 30 lines."""

import re
from pathlib import Path

from tests.requirements import requirement

_PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


@requirement("dialect:own-dialect")
def test_the_example_of_the_page_is_under_30_lines() -> None:
    """That it runs is proved with the other examples of the pages."""
    (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    dialect = code.split("async with")[0]
    assert len([line for line in dialect.splitlines() if line.strip()]) < 30
    assert "Dialect(" in dialect
