"""Benchmarks: one file per question, all timed with :mod:`pinets.bench.timing`."""
