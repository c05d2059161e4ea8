"""Benchmarks, beside the package and not in its wheel: ``python -m benchmarks SUBJECT``, one file per subject."""
