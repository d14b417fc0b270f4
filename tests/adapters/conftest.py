"""Which frameworks are here: each has an environment of its own, and two are in that of all other tests.

`./dev test adapters` fails where a module that it names was left out.
"""

from importlib.util import find_spec

PACKAGES = {
    "test_fastmcp.py": "fastmcp",
    "test_langchain.py": "langchain",
    "test_langchain_deepagents.py": "deepagents",
}

collect_ignore = [module for module, package in PACKAGES.items() if find_spec(package) is None]
