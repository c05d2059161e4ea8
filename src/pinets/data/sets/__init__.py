"""Data sets in the layouts of their authors."""
