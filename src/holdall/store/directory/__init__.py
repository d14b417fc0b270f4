"""The store that ships: plain files in one folder, and what keeps them in order."""
