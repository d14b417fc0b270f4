"""Is what a notice says true? Every claim in it is found and computed a second way, from the bytes alone.

`claims` parses a notice: each line between its fences must be one that some checker knows, or have no figure in it. A
checker gets the match and the output, and compares. To add a kind: a module with functions marked `@claim(label, line)`,
imported below, and outputs of that kind in `outputs`. Nothing here uses `holdall.formats`: that would be the same way.
"""
