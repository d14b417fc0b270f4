"""Tests of the pattern language and of ripgrep."""
