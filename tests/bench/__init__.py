"""Tests of the benchmarks: that they run, and that a gate can fail."""
