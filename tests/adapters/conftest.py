"""Which frameworks are tried in every run of the tests: those that are in its environment. The others have their own:
`./dev test adapters` names their modules, and a module that is named is collected.
"""

from importlib.util import find_spec
from pathlib import Path

IN_EVERY_RUN = {
    "test_shared.py": "holdall",
    "test_functions.py": "holdall",
    "test_fastmcp.py": "fastmcp",
    "test_langchain.py": "langchain",
}

collect_ignore = [
    file.name
    for file in Path(__file__).parent.glob("test_*.py")
    if file.name not in IN_EVERY_RUN or find_spec(IN_EVERY_RUN[file.name]) is None
]
