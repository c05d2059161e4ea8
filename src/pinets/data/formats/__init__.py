"""File formats, read with care: what is damaged or foreign is refused by its name, and nothing is ever executed."""
