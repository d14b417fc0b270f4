"""`holdall`, and `python -m holdall`."""

import gc
import os
import sys

from holdall import cli


def main() -> None:
    if sys.platform == "win32":
        print("holdall: Windows is not supported: the store needs advisory locks, hard links and descriptors of "
              "folders. It runs on Linux, on macOS, and in WSL.", file=sys.stderr)  # fmt: skip
        raise SystemExit(2)
    _set_aside(sys.argv)
    if len(sys.argv) == 3 and sys.argv[1] == "hook" and sys.argv[2][:1] != "-":
        from holdall.cli.hook import main as hook

        raise SystemExit(hook(sys.argv[2]))  # once for each call of a tool: the command line alone takes 60 ms
    # Importing makes many objects and no rubbish: looking for it took a tenth of a short command, and what stays for as
    # long as the process is never looked at again.
    gc.set_threshold(50_000, 10, 10)
    try:
        from holdall.cli.app import app
    except KeyboardInterrupt:  # nothing is begun
        raise SystemExit(130) from None

    gc.freeze()
    app()


def _set_aside(words: list[str]) -> None:
    """Variables for the server alone: before anything is imported that could obey them, as OpenSSL or libpq do."""
    options = words[: words.index("--")] if "--" in words else words
    if "gateway" not in options:  # to others it is a word of somebody's command
        return
    for word, following in zip(options, [*options[1:], ""], strict=True):
        name, sign, given = word.partition("=")
        given = given if sign else following
        if name == cli.FOR_SERVER:
            cli.for_server |= {one: os.environ.pop(one) for one in given.split(",") if one in os.environ}


if __name__ == "__main__":
    main()
