"""`holdall hook AGENT`: what a coding agent starts after each call of its own tools, with the result on standard input.

A result over the limits is kept, and a notice takes its place, with commands for the agent's shell. Everything else
passes: then nothing is printed. Every call of a tool pays for this, so nothing is imported before a result is known to
be large, and nothing is opened before it is known to be over a limit. Trouble never costs a result: it stays as it was,
unless its tool has `redact`.
"""

import sys

AGENTS = ("claude-code", "gemini", "opencode")
SESSION_PREFIXES = ("cc-", "gc-", "oc-")  # of the sessions of these
_SMALL = 8192  # bytes of all that the agent tells: a notice would save little
_SAVED = (b'"persistedOutputPath"', b"/tool-results/", b'"outputPath"')  # the result is elsewhere, in a file
_MOST_CONFIG = 1024 * 1024
_MOST = 512 * 1024 * 1024  # bytes that are read; an agent saves results long before


def main(agent: str) -> int:
    """The exit code: 1 tells the user what went wrong, and stops nothing."""
    if agent not in AGENTS:
        sys.stderr.write(f"holdall: there is no hook for {agent[:60]!r}: it is one of {', '.join(AGENTS)}.\n")
        return 1
    told = sys.stdin.buffer.read(_MOST)
    if len(told) < _SMALL and not any(one in told for one in _SAVED) and not _may_redact():
        return 0
    try:
        from holdall.cli.hook_results import answer

        sys.stdout.write(answer(agent, told, _may_redact))
    except Exception as problem:  # an agent must not lose a result because of us
        from holdall.text.escape import for_people

        sys.stderr.write(f"holdall: the result stays as it was: {for_people(str(problem))[:300]}\n")
        return 1
    return 0


def _may_redact() -> bool:
    """Whether a tool's results may have to be masked, small ones too; told without loading the configuration."""
    import os

    if any(name.startswith("HOLDALL_TOOLS") for name in os.environ):
        return True
    own = os.environ.get("HOLDALL_CONFIG", "").strip()
    folders = (os.environ.get("XDG_CONFIG_HOME", "").strip(), "~/.config", "~/Library/Application Support")
    for path in (own, *(os.path.join(folder, "holdall", "config.toml") for folder in folders if folder)):
        try:
            with open(os.path.expanduser(path), "rb") as file:
                text = file.read(_MOST_CONFIG)
                if b"redact" in text or b"\\" in text:  # a name may be written with escapes
                    return True
        except OSError:
            continue
    return False
