"""Holdall keeps every tool output of an LLM agent whole and hands the model a handle."""

__version__ = "0.1.0"
