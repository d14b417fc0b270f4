"""Frozen data that all other packages use: facts, spans, handles, answers, settings, errors.

Nothing here does anything. No module in this package reads a clock, a disk or a source of randomness.
"""
