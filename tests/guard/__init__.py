"""Tests of the guard of a model's window."""
