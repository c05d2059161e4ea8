"""Metrics that are fed batch by batch and keep sums, never the samples."""

from pinets.metrics.classification import Mean, TopKAccuracy, count_top_k

__all__ = ["Mean", "TopKAccuracy", "count_top_k"]
