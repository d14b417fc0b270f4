"""A search pattern, read once and written out for both engines so that they give the same answers.

The language is the part of regular expressions that runs in linear time and that people agree on; the rest is
refused with a hint. `parse` reads it into a `tree`, `spell` writes the tree for ripgrep and for RE2, `shortcuts`
knows where ripgrep can be trusted with its own, `translate` is all of it. Nothing here runs a pattern.
"""

from holdall.text.pattern.translate import MAX_CHARACTERS, Pattern, translate

__all__ = ["MAX_CHARACTERS", "Pattern", "translate"]
