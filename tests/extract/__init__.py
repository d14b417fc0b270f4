"""Tests of extraction: what a model reads, what it says, and what of that is proved."""
