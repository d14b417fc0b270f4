"""The viewer: its pages, who may see them, and what they do with hostile content."""
