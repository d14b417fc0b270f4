"""The deterministic ways to fetch part of an output; one file per verb.

Each verb is a function of an open output and plain values, and returns a value of `values.answers`. No verb writes,
waits, goes to the background or makes a handle.
"""
