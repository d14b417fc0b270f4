"""The clamp (S4): at most 50 KB and 2,000 lines of what a tool gave, for where nothing else is possible.

Pure functions over texts, results with content blocks, partial updates (they have the shape of results), errors, and
the messages of a transcript. What is within the limits comes back as the same object; nothing is ever changed in place.
"""

from holdall.wire.clamp_blocks import clamp_result, structured_content_of, with_structured_content
from holdall.wire.clamp_errors import clamp_error, traceback_of
from holdall.wire.clamp_messages import clamp_messages
from holdall.wire.clamp_text import MAX_BYTES, MAX_LINES, SUFFIX, Clamped, clamp_text, suffix_for

__all__ = [
    "MAX_BYTES",
    "MAX_LINES",
    "SUFFIX",
    "Clamped",
    "clamp_error",
    "clamp_messages",
    "clamp_result",
    "clamp_text",
    "structured_content_of",
    "suffix_for",
    "traceback_of",
    "with_structured_content",
]
