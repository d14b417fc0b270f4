"""Random input for everything that reads what others wrote: `targets` are the readers, `campaign` makes the input.

What is in `corpus` was kept because it reached lines that nothing before it had. `test_corpus` reads all of it again.
"""
