"""Tests of the bag."""
