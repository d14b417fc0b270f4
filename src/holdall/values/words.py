"""What came from outside, as a message of one line may show it."""


def flat(text: str) -> str:
    """On one line, its backslashes told from those of an escape."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def short(value: object) -> str:
    """As Python writes it, 80 signs at most."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number that is too long to show"
    return text if len(text) <= 80 else text[:77] + "..."
