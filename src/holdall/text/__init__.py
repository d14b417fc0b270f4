"""Pure mechanics of text: UTF-8, lines, ranges, tokens, kinds, escapes, excerpts.

No module here touches a disk, a clock or a random number; each takes text and gives text or numbers.
"""
