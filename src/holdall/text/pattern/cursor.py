"""A place in the text of a pattern, and how a refusal is worded: what it is, where it stands, what to write instead."""

import re

from holdall.text.escape import one_line
from holdall.values.errors import BadPattern


class Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names_return = False  # \r is asked for by name, so it is not taken as part of the line's end

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def ahead(self, beginning: str) -> bool:
        return self.text.startswith(beginning, self.at)

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def took(self, beginning: str) -> bool:
        """Step over `beginning` if it stands here."""
        if not self.ahead(beginning):
            return False
        self.at += len(beginning)
        return True

    def took_match(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        found = wanted.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def refusal(self, what: str, instead: str, *, start: int) -> BadPattern:
        """`what` is wrong with the part from `start` on to here; `instead` says what to write."""
        shown = one_line(self.text[start : self.at], 30)
        return BadPattern(f"{what}: '{shown}' at character {start + 1} of the pattern. {instead}")


def newline_refusal(at: int) -> BadPattern:
    return BadPattern(
        f"a pattern is matched within one line, and this one asks for a newline (at character {at + 1}). "
        "Search for a part that stands on one line, and ask for lines of context around the match."
    )
