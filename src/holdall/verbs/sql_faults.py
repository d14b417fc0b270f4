"""What DuckDB complains about, told for the one who wrote the SQL: whose fault it is, in few words, without paths.

This module never decides what to do about a fault.
"""

import re
from typing import Literal

Blame = Literal["query", "source", "memory"]
"""The SQL; the data, which cannot be read as the table that it was taken for; or the limit on memory."""

_LONGEST = 700
_MEMORY = frozenset({"OutOfMemoryException", "MemoryError"})
_SOURCE = re.compile(
    r"CSV Error|sniffing file|CSV Parser|max_line_size|buffer_size|Invalid unicode|not utf-8|in file \""
    r"|JSON transform error|Malformed JSON|maximum_object_size|in struct auto-detected|JSON exceeds maximum"
)
# Advice that cannot be followed here, echoes of our own statement, and where to read on in the web.
_ADVICE = re.compile(
    r"\n+LINE \d+:.*|\n+\* .*|\n+(?:Possible |Try |See also|Database is launched|Unused blocks|The search space"
    r"|Column .* is being|  file = |Original Line).*",
    re.DOTALL,
)
_MACHINE = re.compile(r"""(?:in |of )?(?:file )?["']?/(?:dev/fd|proc|memfd:)[^\s"',)]*["']?""")
_MISSING = re.compile(r"""Referenced (?:column|table) "(.+?)" not found|Could not find key "(.+?)" in struct""")
_HOPELESS = re.compile(r"Malformed JSON|Invalid unicode|not utf-8")

_MENDABLE = re.compile(r"Malformed JSON.*(?:surrogate|control character)", re.DOTALL)


def blame(name: str, message: str, path: str) -> Blame:
    """`name` is that of the exception, `path` the one by which DuckDB knows the data."""
    if name in _MEMORY:
        return "memory"
    if name in ("ParserException", "BinderException", "CatalogException", "PermissionException"):
        return "query" if name != "BinderException" or not _SOURCE.search(message) else "source"
    return "source" if path in message or _SOURCE.search(message) else "query"


def missing_name(name: str, message: str) -> str:
    """The column or member that the SQL names and the table does not have; empty where the fault is another."""
    match = _MISSING.search(message) if name == "BinderException" else None
    return (match[1] or match[2]) if match else ""


def is_too_small(message: str) -> bool:
    return "maximum_object_size" in message


def is_hopeless(message: str) -> bool:
    """No way of reading helps: the data are not what they were taken for."""
    return bool(_HOPELESS.search(message))


def is_mendable(message: str) -> bool:
    """It is JSON but for signs in texts that strict readers do not take."""
    return bool(_MENDABLE.search(message))


def in_few_words(name: str, message: str, path: str) -> str:
    """The message without paths, advice and echoes."""
    if name == "PermissionException":
        return "the SQL may read t and nothing else: no other file, no network, no extension, no setting"
    if name != "ParserException":
        message = _ADVICE.sub("", message)
    message = _MACHINE.sub("the output", message.replace(path, "the output"))
    message = re.sub(r"\s*\n\s*", "; ", message.strip()) if name != "ParserException" else message.strip()
    return message if len(message) <= _LONGEST else message[:_LONGEST] + "…"
