"""Pure decisions: what an output measures, whether it fits, how long it is kept.

Nothing here does I/O or reads a clock; the time, the tokenizer and the limits are handed in.
"""
