"""The domains that a traced network runs in: what a value is, and how values are mapped linearly and multiplied."""
