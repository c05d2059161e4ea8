"""File formats. Damaged and foreign files are refused by name, and nothing in a file is ever executed."""
