"""Which frameworks are tried in every run of the tests: two that cost little, FastMCP (8 s of CPU) and Pydantic AI (9 s,
and no megabyte: an extra of ours brings it). LangChain takes 12 s and 44 MB. `./dev test adapters` tries all of them,
each in an environment of its own: a module that is named is collected.
"""

from importlib.util import find_spec
from pathlib import Path

IN_EVERY_RUN = {
    "test_shared.py": "holdall",
    "test_functions.py": "holdall",
    "test_fastmcp.py": "fastmcp",
    "test_pydantic_ai.py": "pydantic_ai",
}

collect_ignore = [
    file.name
    for file in Path(__file__).parent.glob("test_*.py")
    if file.name not in IN_EVERY_RUN or find_spec(IN_EVERY_RUN[file.name]) is None
]
