"""Tests of Holdall."""
