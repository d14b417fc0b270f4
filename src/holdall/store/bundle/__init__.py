"""A session as one file, and back."""
